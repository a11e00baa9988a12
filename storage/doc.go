// Package storage is the only package that knows SQL. It keeps Corebot's state in one SQLite file and promises:
//
//   - One writer. Every change passes one goroutine that owns the only write connection; a data directory is locked, so
//     that there is one such goroutine among all processes. Readers are query-only.
//   - Group commit. The writer takes whatever waits, runs it in one transaction and commits once. A call that returns nil
//     has been fsynced (journal_mode=WAL, synchronous=FULL; guarantee G1).
//   - All or nothing. An exported method is one transaction. An operation that fails takes nobody else with it: its batch is
//     rolled back and each of the others runs alone.
//   - No false word. An error of COMMIT means that the outcome is unknown; the writer reopens the file and looks. Only when it
//     cannot find out it says [corebot.ErrCommitUnknown].
//   - Fencing. Whatever is written on behalf of a claim names its epoch; a stale one changes nothing
//     ([corebot.ErrLeaseLost], guarantee G4).
//   - Nothing in the place of a database that is gone. A directory remembers which database it has; a file that is missing, empty or another's is
//     refused, and left as it is.
//   - Counters agree with the facts. What the metrics count of the database rises in the commit that writes it, and survives restarts and
//     retention.
//   - Waiting claims are parked in the writer, which serves them in the very commit that made a lane ready.
//   - A lane whose head cannot be read is set aside. It fails no operation and holds up no other lane.
//
// The repositories, one per aggregate, share one [DB]: [Queue], [Ledger], [Lives], [DeadLetters] and [Lot] for messages and turns, [Chats],
// [Grants] and [History] for who talks where, [Mailbox] for what programs fetch, [Audit], [Approvals], [Books] and [MCPTools].
//
// Limits: times are whole milliseconds of the wall clock; when it is stepped, the times of waits follow. The file must be on a local disk: WAL does not work over network
// file systems.
package storage
