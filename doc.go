// Package corebot holds the nouns of Corebot: messages, the people who send them, and the records that Corebot keeps.
// It has no I/O, starts nothing, and depends on the standard library only. Every other package speaks in its words.
//
// # The walk of one message
//
// Somebody types a line. The terminal ([github.com/corebot/corebot/channels/cli]) is a channel. It gives the line an id
// and hands it to the front door ([github.com/corebot/corebot/channels]), through which every message enters. The front
// door asks the policy ([github.com/corebot/corebot/policy]) whether the sender may talk. It makes a [Message] of the
// line, with a [Key] (which conversation), a [Principal] (who), and a [Kind]. The kind says whether the message is a
// prompt, a chat command that waits its turn, or a control message that does not wait.
//
// The bus ([github.com/corebot/corebot/bus]) checks the limits and publishes the message. The store
// ([github.com/corebot/corebot/storage]) writes a life row and the body in one commit, which it shares with other
// writers. The life row records the whole life of the message. The body waits at the tail of its lane, the queue of one
// conversation. When the commit has been fsynced the front door returns. Only now may the channel acknowledge the
// message.
//
// Workers of the router ([github.com/corebot/corebot/router]) wait in the store for work. In that same commit one of
// them gets the lane, leased under a new epoch, as a [Delivery]. Nobody else works on the conversation while the lease
// holds, and a heartbeat extends the lease. If the process dies, the lease is void. The next claim resumes from the
// journal of the turn.
//
// The agent ([github.com/corebot/corebot/agent]) makes the turn. It builds the prompt from the operator's files, the
// history and the message. If the history has no room, the model summarises it first. Then the agent asks the model
// ([github.com/corebot/corebot/agent/llm] and below). Text streams in memory
// ([github.com/corebot/corebot/internal/live]) to people who watch.
//
// If the model asks for tools, its answer becomes a [Step] of the journal. Each call then passes the one call path
// ([github.com/corebot/corebot/tools]). The call is decoded strictly, and the policy authorizes it. A call with side
// effects has its intent on disk before it runs. The outcome is stored after it. In a turn that has read untrusted
// text, a call that not everyone may make waits for an [Approval]. The message keeps its place meanwhile, and no worker
// is occupied. The results go back to the model, until the model answers with text.
//
// One commit, fenced by the epoch, stores the turn's [Result]. It ends the life row, appends the history, enqueues the
// reply in the outbound lane of the conversation, and removes the message from its lane. It also gives the worker its
// next message, if one is ready. If the model fails, the message keeps its place and the bus schedules the next
// attempt. After the last attempt the message is a dead letter, and its chat is told.
//
// The outbox ([github.com/corebot/corebot/channels]) waits in the store, too. The same commit gives it the reply. The
// outbox hands the reply to the channel, and settles the claim when the channel has it. The line is answered. Programs
// that fetch their replies need no outbox: the turn's commit puts the reply into the mailbox that they read.
//
// Package internal/app joins all these; cmd/corebot is the program.
package corebot
