// Package engine is SQLite for one goroutine: a connection and its prepared statements, directly above the engine's C
// interface.
//
// The writer of package storage is the hottest loop of Corebot. The driver for database/sql took a third of its time
// (docs/performance.md). The driver asks the engine for the name and the declared type of every column of every query.
// It allocates every argument, and it guards the connection with a mutex.
//
// This package does none of this. It copies arguments into a buffer that the statement keeps, and reads columns in
// place. It allocates only the values that the caller keeps.
//
// A connection of [OpenWriter] writes each commit to the write-ahead log at once. It does so by a file system layer
// below SQLite, and accepts only settings under which that loses nothing.
//
// Two goroutines must not use a [Conn] and its statements at the same time. Checks, backups and migrations use
// database/sql.
package engine
