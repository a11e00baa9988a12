// Package storage is the only package that knows SQL. It keeps Corebot's state in one SQLite file and promises:
//
//   - One writer. One goroutine owns the only write connection, and every change passes it. A lock on the data
//     directory makes it the only such goroutine among all processes. Readers are query-only.
//   - Group commit. The writer takes all waiting operations, runs them in one transaction and commits once. A call
//     that returns nil has been fsynced (journal_mode=WAL, synchronous=FULL; guarantee G1).
//   - All or nothing. An exported method is one transaction. If an operation fails, the writer rolls its batch back
//     and runs each of the other operations alone. So they do not fail with it.
//   - No false word. An error of COMMIT means that the outcome is unknown. The writer then reopens the file and
//     looks. Only if it cannot find out does it return [corebot.ErrCommitUnknown].
//   - Fencing. Every write on behalf of a claim names the claim's epoch. A write with a stale epoch changes nothing
//     ([corebot.ErrLeaseLost], guarantee G4).
//   - No new database in place of a lost one. A directory remembers its database. If the file is missing, empty or
//     another home's, storage refuses it and leaves it as it is.
//   - A copy of the database is of one moment, is checked, and holds up nobody ([DB.Copy]). A restore is all or
//     nothing ([Restore]).
//   - Counters agree with the facts. A counter of a database fact rises in the commit that writes the fact. It
//     survives restarts and retention.
//   - A message to a client that fetches its messages is in the mailbox with the commit that causes the message. It
//     overtakes none that waits in the client's lane ([MailClients]).
//   - Waiting claims wait in the writer. The commit that makes a lane ready also serves a waiting claim.
//   - A lane whose head cannot be read is set aside. It fails no operation and holds up no other lane.
//
// The repositories, one for each aggregate, share one [DB]. [Queue], [Ledger], [Lives], [DeadLetters] and [Deferred]
// are for messages and turns. [Chats], [Grants] and [History] are for chats and people, and [Vectors] finds what they
// said. [Mailbox] is for the replies that programs fetch. [Audit], [Approvals], [Books] and [MCPTools] are for their
// records.
//
// Limits: times are whole milliseconds of the wall clock. When the clock is stepped, the times of waits follow. The
// file must be on a local disk, because WAL does not work on network file systems.
package storage
