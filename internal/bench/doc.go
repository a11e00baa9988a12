// Package bench measures Corebot on the machine it runs on: the bus alone ([Bus]), and the whole way from a post to a
// reply that a client can read ([Turn]). `corebot bench` prints the figures.
//
// What it promises:
//
//   - The real thing. Package bus over package storage with the pragmas, the metrics and the group commit of the
//     program; nothing is replaced, and nothing is written without its fsync. [Turn] talks HTTP to a whole program.
//   - Ratios of one moment. Each round measures every figure, what it is compared with (raw inserts, fsync, the empty
//     queue) included, so that another program's load hits both sides of a ratio. Figures are medians over the rounds.
//     The processor time of a message or a turn stands beside its rate: other programs move it least.
//   - No trace. All files are in one directory of their own, which is gone when the measurement ends, also when its
//     context ends it. A process that is killed leaves it: corebot-bench-* in the directory for temporary files.
//
// Limits: publishers, consumers, clients and the model endpoint run in the process that is measured and share its
// processors, as in the figures of other systems that the targets are compared with. Resident memory is known on Linux
// only.
package bench
