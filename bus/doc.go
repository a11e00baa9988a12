// Package bus is the durable queue between channels and the agent. It owns the numbers and the rules; storage owns the
// mechanics.
//
// Its invariants, each held by a test of package bustest that every store must pass:
//
//   - Accepted means on disk (G1). Publish returns a receipt after the commit that stored the message has been fsynced. A process
//     that dies at any moment afterwards still has the message.
//   - One id, one life (G2). The scope of a message id is (direction, key). Publishing it again, at any time and from anywhere,
//     is success and changes nothing; with another body it is refused with [corebot.ErrConflict].
//   - Order per lane (G3). A lane delivers its messages one at a time, in the order of publishing. A message that is retried or
//     waits keeps its place, and its lane waits with it. Lanes that are ready are served oldest first, so that no lane
//     can starve another.
//   - Fair between senders, if Turns is set. A sender holds as many claims as are left for others, and one at least. When more
//     lanes are ready than can be claimed, senders take turns, and then the lanes of each.
//   - One owner, fenced (G4). A claim leases a lane and raises its epoch. Whoever holds an older epoch can neither extend nor
//     settle: [corebot.ErrLeaseLost].
//   - Merged once. A message that the turn of another is to take in (a steer, a queue mode) waits in their lane; it leaves with the commit that
//     journals it for that turn and ends it as merged, or else it is delivered like any other.
//   - Leases end. One that is not extended is lost, and its lane is ready again; when the process starts, the leases of earlier
//     processes are void at once.
//   - Poison dies. A head whose lease was lost MaxLost times in a row without a new journal step is unfit; so is one whose stored
//     body is damaged.
//   - Nobody dies of another's poison. A head that is one loss away from being unfit is claimed only while no other such head of its
//     pool is: the loss that makes it poison is its own.
//   - Attempts end. Failures are retried with backoff until MaxAttempts, then the message is a dead letter. Permanent failures are dead
//     at once; interruptions by a shutdown are not counted. Rate limits are not counted for LimitPatience from the first one on.
//   - Nobody comes back too early. The wait before another attempt is the backoff or what the other side asked for, whichever is longer, within
//     [MaxRetryAfter].
//   - Dead letters stay. They are kept with their body until somebody replays or drops them; a replay delivers once.
//   - Parked is not lost. A message that may not run for now, such as one over a budget, leaves its lane, which goes on; it comes back at
//     the tail when it is due, or when another process begins. It is the same message, and counts as one that waits.
//   - Nobody forgets to wake. A claim that waits gets a lane that becomes ready without polling, whoever made it ready.
package bus
