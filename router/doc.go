// Package router claims deliveries, runs one turn for each, and turns the end of the turn into an outcome.
//
// It promises:
//
//   - One turn at a time per chat. The bus leases a lane to one claim; the router adds no lock of its own.
//   - A turn ends in one commit (G4). The turn's result travels with its outcome, fenced by the lease's epoch. A
//     worker whose lease is lost stops and changes nothing.
//   - No silent end (G6). The chat of a dead, stopped or refused message gets one notice, in the commit that ends the
//     message. Notices are outbound messages and never cause notices.
//   - Work follows work. The commit of a turn also claims the worker's next message, if one is ready and no other
//     worker waits for it.
//   - A turn that stands still holds up no other chat for long. A worker whose turn is long loses its place to a new
//     one, within a limit.
//   - Shutdown is not a failure. Claims end first. Turns then have the drain time to finish. The remaining turns are
//     released without counting an attempt, and resume from their journal.
//   - /stop acts at accept. It is stored with its effect before it is acknowledged, and cancels the running turn.
//   - A prompt that interrupts is stored together with the stop of the running turn, and cancels the turn like /stop.
//   - /steer acts at accept. It is stored as a prompt that the running turn merges, unless the turn ends before. If
//     nothing runs, or the sender may not steer the turn, the prompt waits its turn.
//   - A turn that waits for an approval holds no worker, keeps its place and counts no attempt. Its chat and the
//     admins' chat are shown the whole call once. /approve and /deny act at accept, once. An admin of the chat or of
//     everything may give them.
//   - /why tells the life of a message to its sender or an admin. It knows no message of another chat.
//   - /retry acts at accept, too. The sender of a dead letter or an admin may replay it. Repeated commands replay it
//     once. Others are denied, with an audit event.
//
// The bus's rules decide when a failed turn is retried. A result that can never be stored makes its message a dead
// letter at once. After any other failed commit the router tries the commit again while the lease is held. Then the
// message runs again from its journal.
package router
