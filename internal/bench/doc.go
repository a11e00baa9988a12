// Package bench measures Corebot on the machine it runs on. [Bus] measures the bus alone, and [Turn] the whole way from
// a post to a reply that a client can read. `corebot bench` prints the figures.
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
// Limits: publishers, consumers, clients and the model endpoint run in the measured process and share its processors.
// The same holds for the figures of other systems behind the targets. Resident memory is known on Linux only.
package bench
