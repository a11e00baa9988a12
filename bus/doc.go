// Package bus is the durable queue between channels and the agent. The bus owns the numbers and the rules. Package
// storage owns the mechanics.
//
// Its invariants follow. A test of package bustest holds each of them, and every store must pass these tests:
//
//   - Accepted means on disk (G1). Publish returns a receipt after the commit that stored the message has been
//     fsynced. A process that dies at any moment afterwards still has the message.
//   - One id, one life (G2). The scope of a message id is (direction, key). Publishing an accepted message again
//     succeeds and changes nothing, at any time and from anywhere. Publishing another body under its id fails with
//     [corebot.ErrConflict].
//   - Order per lane (G3). A lane delivers its messages one at a time, in the order of publishing. A message that is
//     retried or waits keeps its place, and its lane waits with it. Ready lanes are served oldest first, so that no
//     lane can starve another.
//   - Fair between senders, if Turns is set. A sender holds as many claims as the others leave, and at least one.
//     When more lanes are ready than can be claimed, senders take turns. The lanes of one sender take turns as well.
//   - One owner, fenced (G4). A claim leases a lane and raises its epoch. A holder of an older epoch can neither
//     extend nor settle: the error is [corebot.ErrLeaseLost].
//   - Edited in place. An edit takes the place of a message of its sender that waits. It steers a turn that has begun,
//     and is heard otherwise. A deletion ends a message that waits. Neither changes what a turn has begun to answer.
//   - Merged once. A message that waits to be merged into another message's turn (a steer, a queue mode) waits in its
//     lane. One commit journals the message for that turn and ends its life as merged. Without that commit the message
//     is delivered like any other.
//   - Leases end. A lease that is not extended expires, and its lane is ready again. When the process starts, the
//     leases of earlier processes are void at once.
//   - Poison dies. A head becomes a dead letter when its lease was lost MaxLost times in a row without a new journal
//     step. So does a head whose stored body is damaged.
//   - Nobody dies of another's poison. A head that is one loss away from being poison is claimed only while no other
//     such head of its pool is claimed. So the last loss is its own.
//   - Attempts end. A failed message is retried with backoff until MaxAttempts; then it is a dead letter. A permanent
//     failure makes a dead letter at once. Interruptions by a shutdown are not counted. Rate limits are not counted for
//     LimitPatience from the first one on.
//   - Nobody comes back too early. The wait before the next attempt is the longer of two: the backoff, or the wait
//     that the other side asked for, up to [MaxRetryAfter].
//   - Dead letters stay. A dead letter is kept with its body until somebody replays or drops it. A replay delivers
//     the message once.
//   - Deferred is not lost. A message that may not run for now, such as a message over a budget, leaves its lane, and
//     the lane goes on. The message comes back at the tail when it is due, or when another process begins. It is the
//     same message, and counts as waiting. A message can also come with the time of its delivery: it is deferred from
//     the beginning, and no restart delivers it sooner.
//   - An end can claim. The commit that ends a claim can make the next one, which gets what is ready behind the claims
//     that wait, or nothing. An end that fails claims nothing.
//   - Nobody forgets to wake. A waiting claim gets a lane as soon as anybody makes the lane ready, without polling.
package bus
