// Package demo shows Corebot's promises to somebody who does not know Corebot yet. `corebot demo` prints what it finds.
//
// It plays an unkind world from outside: a real child process that serves, real HTTP, a real database, and SIGKILL in
// the middle of the work. Nothing in the program knows of the demonstration, so what it counts is what an operator of
// Corebot gets.
//
// What it promises:
//
//   - Each promise is counted, and a wrong count fails the run. A text without a count is no evidence, and is not shown
//     as one.
//   - No trace. All files are in one directory, no setting of the caller's environment counts, and the child has ended
//     when [Run] returns.
//
// Limits: a process that is killed with SIGKILL leaves its child and its directory behind.
package demo
