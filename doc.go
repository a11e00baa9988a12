// Package corebot holds the nouns of Corebot: what travels, who acts, what is kept. It has no I/O, starts nothing, and
// depends on the standard library only; every other package speaks in its words.
//
// # The walk of one message
//
// Somebody types a line. The terminal ([github.com/corebot/corebot/channels/cli]) is a channel: it gives the line an id of
// its own and hands it to the front door ([github.com/corebot/corebot/channels]), through which the messages of every channel
// come. The door gives it a [Key] (which conversation), a [Principal] (who), and a [Kind]: a prompt, a chat command that waits
// its turn, or a control message that does not. A [Message] comes out.
//
// The bus ([github.com/corebot/corebot/bus]) publishes it. Its rules say whether there is room; the store
// ([github.com/corebot/corebot/storage]) then writes, in one commit that it shares with whoever else is writing, a life row,
// which from now on tells everything about the message, and its body at the tail of its lane. The lane is the conversation's
// queue. When the commit has been fsynced the door returns, and only now may the channel acknowledge the message.
//
// In that same commit the store has looked whether somebody waits for work. The router
// ([github.com/corebot/corebot/router]) has workers that do; one of them is given the lane, leased under a new epoch, as a
// [Delivery]. As long as it holds the lease nobody else touches the conversation, and a heartbeat extends the lease. If the
// process dies, the lease is void and the lane is claimed anew, with the journal of what was done.
//
// The agent ([github.com/corebot/corebot/agent]) makes the turn. It puts together what the operator wrote, what was said before, and
// the message, has the model summarise what it has no room for, and asks the model ([github.com/corebot/corebot/agent/llm] and below). Text streams past in memory
// ([github.com/corebot/corebot/internal/live]) for whoever watches. If the model asks for tools, its answer becomes a [Step] of
// the journal; then each call passes the one call path ([github.com/corebot/corebot/tools]): decoded strictly, authorized by the
// table of rules ([github.com/corebot/corebot/policy]), its intent on disk before it runs if it has side effects, its outcome
// after. A call that only an admin may allow, since the turn has read what strangers wrote, waits for his word with the message in its
// place, and no worker ([Approval]). The results go back to the model, until it answers with text.
//
// The turn's [Result] is committed whole, fenced by the epoch: the life row ends, the history grows, the reply is enqueued in the
// conversation's outbound lane, the message leaves its lane. If the model failed instead, the message keeps its place and is tried again
// by the rules of the bus, until it is a dead letter and its chat is told.
//
// The outbox of the channel, parked in the store for exactly this, gets the reply in the same commit, hands it to the channel, and
// settles it when the channel has it. The line is answered.
//
// Package internal/app joins all these; cmd/corebot is the program.
package corebot
