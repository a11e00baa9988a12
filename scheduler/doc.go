// Package scheduler makes inbound messages of tasks when they are due.
//
// A [Rule] gives the due times of a schedule. The [Scheduler] sleeps until the nearest due time, and publishes what is
// due. The store publishes a due time and advances its task in one commit, under a message id that is made of the task
// and the due time. So a due time becomes one turn, whatever crashes.
//
// Rules of time:
//
//   - Each time of the wall clock is due once, also where the clock of a zone is changed: see [Rule].
//   - After a pause only the newest due time of a task is caught up, if it is not too long ago.
//   - A wall clock that is set ahead makes tasks due, once each. When it is set back, due times that were published
//     stay published, and the next due times are planned anew.
package scheduler
