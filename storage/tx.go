package storage

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"modernc.org/sqlite"

	"github.com/corebot/corebot"
)

// tx is the writer's transaction, handed to one operation after the other. It must not outlive the operation.
type tx struct {
	now    time.Time // one time for the whole commit, in whole milliseconds
	conn   *writeConn
	writes int   // rows changed so far in this transaction
	failed error // the first error of SQLite's own: it may have ended the whole transaction already
	total  totals
	wakes  map[corebot.Pool]int64 // earliest wake_at of each pool that may be due; see parking
}

// totals are what waits in all lanes together, by direction. They follow the lanes and are never written.
type totals struct {
	depth [4]int64
	bytes int64
}

// exec runs a statement and says how many rows it changed.
func (t *tx) exec(q *query, args ...any) (int64, error) {
	res, err := t.conn.exec(q, args)
	if err != nil {
		return 0, t.fail(err)
	}
	n, err := res.RowsAffected()
	t.writes += int(n)
	return n, err
}

// insert runs a statement and gives the rowid it wrote, or 0 if a conflict made it write nothing.
func (t *tx) insert(q *query, args ...any) (int64, error) {
	res, err := t.conn.exec(q, args)
	if err != nil {
		return 0, t.fail(err)
	}
	n, err := res.RowsAffected()
	if err != nil || n == 0 {
		return 0, err
	}
	t.writes += int(n)
	return res.LastInsertId()
}

// each calls fn for every row. fn must not use the transaction.
func (t *tx) each(q *query, fn func(scanner) error, args ...any) error {
	return t.fail(t.conn.each(q, fn, args))
}

// fail remembers an error that SQLite itself gave. On a full disk, for one, it rolls back everything and goes on statement by
// statement: nothing of the batch may be committed then.
func (t *tx) fail(err error) error {
	var e *sqlite.Error
	if t.failed == nil && errors.As(err, &e) {
		t.failed = err
	}
	return err
}

// one scans the first row; ok is false when there is none.
func (t *tx) one(q *query, dest []any, args ...any) (ok bool, err error) {
	err = t.each(q, func(s scanner) error {
		ok = true
		return s.Scan(dest...)
	}, args...)
	return ok, err
}

// wake notes that a lane of the pool is due at ms. A pool that is not known counts as due: it must stay so, or its other
// lanes would sleep until ms.
func (t *tx) wake(p corebot.Pool, ms int64) {
	if known, ok := t.wakes[p]; ok && ms < known {
		t.wakes[p] = ms
	}
}

// writeConn is the write connection at driver level: database/sql would cost a fifth of the throughput.
type writeConn struct {
	conn driver.Conn
	stmt map[*query]driver.Stmt
	args []driver.NamedValue
	row  values
}

func newWriteConn(c driver.Conn) *writeConn {
	return &writeConn{conn: c, stmt: make(map[*query]driver.Stmt)}
}

// prepare finds or makes the prepared statement and fills in the arguments.
func (c *writeConn) prepare(q *query, args []any) (driver.Stmt, error) {
	s := c.stmt[q]
	if s == nil {
		var err error
		if s, err = c.conn.Prepare(q.sql); err != nil {
			return nil, fmt.Errorf("prepare %q: %w", q.sql, err)
		}
		c.stmt[q] = s
	}
	c.args = c.args[:0]
	for i, a := range args {
		v, err := value(a)
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s, nil
}

func (c *writeConn) exec(q *query, args []any) (driver.Result, error) {
	s, err := c.prepare(q, args)
	if err != nil {
		return nil, err
	}
	// A context that can be cancelled would cost a goroutine a statement; the writer runs on its own.
	return s.(driver.StmtExecContext).ExecContext(context.Background(), c.args)
}

func (c *writeConn) each(q *query, fn func(scanner) error, args []any) (err error) {
	s, err := c.prepare(q, args)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), c.args)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	n := len(rows.Columns())
	if cap(c.row) < n {
		c.row = make(values, n)
	}
	row := c.row[:n]
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := fn(row); err != nil {
			return err
		}
	}
}

// Close finalizes the statements and closes the connection.
func (c *writeConn) Close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, s := range c.stmt {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.conn.Close())...)
}
