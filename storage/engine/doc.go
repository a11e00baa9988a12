// Package engine is SQLite for one goroutine: a connection and its prepared statements, straight above the engine's own C interface.
//
// The writer of package storage is the hottest loop of Corebot. The driver for database/sql asks the engine for the name and
// the declared type of every column of every query, allocates every argument, and guards the connection with a mutex; together that
// was a third of the writer's time (docs/performance.md). This package does none of it: arguments are copied into a buffer that a
// statement keeps, columns are read where they lie, and nothing is allocated but the values that the caller keeps.
//
// A [Conn] and its statements must not be used by two goroutines at a time. Checks, backups and migrations stay on database/sql.
package engine
