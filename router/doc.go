// Package router claims deliveries, runs one turn for each, and maps how the turn ended to an outcome.
//
// It promises:
//
//   - One turn at a time per chat: the bus leases a lane to one claim; the router adds no lock of its own.
//   - A turn ends in one commit (G4). What a turn leaves behind travels with its outcome, fenced by the lease's epoch; a worker
//     whose lease is lost stops and changes nothing.
//   - No silent end (G6). A message that is given up, stopped or refused says so in its chat, once, in the same commit. Notices
//     are outbound messages and never beget notices.
//   - Shutdown is not a failure. Claims end first; turns have the drain time to finish; the rest are released without
//     counting an attempt and resume from their journal.
//   - /stop acts at accept: it is stored with its effect before it is acknowledged, and cancels the turn that runs.
//   - A prompt that interrupts is stored with the stop of the turn that runs, and cancels it like /stop.
//   - /steer acts at accept: it is stored as a prompt that the turn which runs takes in, unless that ends before. For whoever may not
//     steer that turn, and with nothing running, it is a prompt that waits its turn.
//   - A turn whose call waits for an admin's word holds no worker, keeps its place and counts no attempt; the chat, and the admins' chat, are shown the
//     whole call once. /approve and /deny act at accept, once, for admins of that chat or of everything.
//   - /why tells a message's life to its sender, or an admin, and knows no message of another chat.
//   - /retry acts at accept too: whoever sent a message that was given up, or an admin, has it tried again, once however often
//     they ask; others are denied, with an audit event.
//
// A turn that fails is retried by the rules of the bus. A result that can never be stored makes its message a dead letter at once. Any other
// failure to commit is retried while the lease is held; then the message
// runs again from its journal.
package router
