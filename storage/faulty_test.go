package storage

import (
	"context"
	"database/sql/driver"
)

// faultyConn is a connection whose statements fail when a test wants them to.
type faultyConn struct {
	driver.Conn
	// fault is asked around each statement, before it (after false) and after it (after true).
	fault func(sql string, after bool) error
}

// inject puts faults between the writer and its connection, until the writer reopens it. Call it before Run.
func inject(db *DB, fault func(sql string, after bool) error) {
	for _, s := range db.conn.stmt {
		_ = s.Close() // one that is left open would keep the connection's locks beyond its end
	}
	db.conn = newWriteConn(faultyConn{db.conn.conn, fault})
}

func (c faultyConn) Prepare(sql string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(sql)
	return faultyStmt{s, sql, c.fault}, err
}

type faultyStmt struct {
	driver.Stmt
	sql   string
	fault func(sql string, after bool) error
}

func (s faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.fault(s.sql, false); err != nil {
		return nil, err
	}
	res, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	if err == nil {
		err = s.fault(s.sql, true)
	}
	return res, err
}

func (s faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.fault(s.sql, false); err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}
