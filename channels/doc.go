// Package channels is where messages enter and leave Corebot, whatever network they travel on.
//
// It promises:
//
//   - One front door. Every message of every channel passes [FrontDoor.Accept], which gives it its key, principal and kind, checks
//     who may talk at all and how much, and publishes it. What it returns nil for is on disk (G1).
//   - Who may not talk leaves nothing behind but a count and a bounded number of audit rows, and gets an answer only from a channel that has
//     authenticated him.
//   - One notice for each episode. However many messages of a chat are refused for want of room, the chat is told once, until it has had
//     room for some minutes ([corebot.Busy]).
//   - Replies leave in order. The outbox sends the messages of a chat one at a time, in the order in which they were enqueued; a chat
//     or channel that is slow or down holds up nobody else.
//   - Sent at least once, once if the platform can tell. A message's id is the platform's idempotency key. Where there is none and a
//     send was cut off by a crash, or lost its lease, the message may have been sent: it is counted, and OnAmbiguous decides.
//   - Channels come back. The supervisor runs a channel again when it fails, with backoff.
package channels
