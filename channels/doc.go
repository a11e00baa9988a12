// Package channels is where messages enter and leave Corebot, whatever network they travel on.
//
// It promises:
//
//   - One front door. Every message of every channel passes [FrontDoor.Accept], which gives it its key, principal and
//     kind, checks who may talk at all and how much, and publishes it. If it returns nil, the message is on disk (G1).
//   - A batch and its cursor are one commit. A channel that fetches messages gives them to its [Door] with the place
//     behind the last of them: see [FrontDoor.AcceptBatch]. A restart loses none, and accepts none twice.
//   - Not everything is a prompt. A group's message that is not for the bot, a program's message and an old one are
//     context of the next prompt.
//   - A refused sender leaves only a count and a bounded number of audit rows. He gets an answer only from a channel
//     that has authenticated him.
//   - One notice for each episode. However many messages of a chat are refused for want of room, the chat is told once,
//     until it has had room for some minutes ([corebot.Busy]).
//   - Replies leave in order. The outbox sends the messages of a chat one at a time, in the order in which they were
//     enqueued.
//   - A channel whose callers fetch their messages has no sends: the store puts each message into the mailbox in the
//     commit that causes it ([Pulled]). Only messages that waited before are sent, and they come first.
//   - A chat or channel that is slow or down holds up nobody else. Eight messages of a channel are begun at once; a
//     send that nobody answers within 100 ms goes on without its worker. So a message waits for half a second behind 40
//     chats that never answer. A channel has 256 sends under way, one account of it 192. Behind more chats of its own
//     account a message waits for 5 s per 192 of them, once. A chat that failed lately gets short slots and a share of
//     the places, and no worker waits for its send.
//   - Sent at least once, once if the platform can tell. A message's id is the platform's idempotency key. A crash, a
//     lost lease or the end of its slot can cut a send off. A platform that can be asked is asked before the next try:
//     see [Reconciler]. With neither, the message may have been sent: it is counted, and OnAmbiguous decides, as soon
//     as the platform answers anything: see [Reacher].
//   - An answer can grow in one message of the platform, and is shown once all the same: see [Editor].
//   - A long message arrives whole. The journal has the bytes that were sent, so that another limit on a part's size
//     changes nothing.
//   - Channels come back. The supervisor runs a channel again when it fails, with backoff, and when its connection is
//     deaf: see [Periodic].
package channels
