package storage

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// ceilingBatch is how many pairs of rows share a commit. With so many, the fsync no longer matters.
const ceilingBatch = 1_000

// Ceiling measures the best that the engine can do, as a reference for the bus. It inserts pairs of rows: an id in one
// table, and a body of bodyBytes in another. One goroutine inserts them by prepared statements, in batches of 1,000,
// with the pragmas of the real write connection (synchronous=FULL). It uses no lanes, no index, no duplicates and no
// reads. So no queue that keeps promises can reach this rate.
//
// Ceiling creates its own database file in dir and leaves it there. The caller must throw dir away, and dir must not
// have such a file yet. Ceiling ends early with the cause of ctx.
func Ceiling(ctx context.Context, dir string, pairs, bodyBytes int) (perSecond float64, err error) {
	path := filepath.Join(dir, "ceiling.db")
	c, err := openCeiling(path)
	if err != nil {
		return 0, fmt.Errorf("measure raw inserts in %s: %w", path, classify(err))
	}
	defer func() { err = errors.Join(err, c.close()) }()
	body := bytes.Repeat([]byte("x"), bodyBytes)
	started := time.Now()
	for first := 0; first < pairs; first += ceilingBatch {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err := c.batch(first, min(first+ceilingBatch, pairs), body); err != nil {
			return 0, fmt.Errorf("measure raw inserts in %s: %w", path, classify(err))
		}
	}
	return float64(pairs) / time.Since(started).Seconds(), nil
}

// ceiling uses the bare driver, not [prepared], so that changes of [prepared] do not move the reference.
type ceiling struct {
	conn                                driver.Conn
	begin, commit, insertID, insertBody driver.Stmt
}

func openCeiling(path string) (_ *ceiling, err error) {
	conn, err := (&sqlite.Driver{}).Open(dsn(path, writePragmas))
	if err != nil {
		return nil, err
	}
	c := &ceiling{conn: conn}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for _, table := range []string{
		`CREATE TABLE ids (n INTEGER PRIMARY KEY, id TEXT NOT NULL) STRICT`,
		`CREATE TABLE bodies (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT`,
	} {
		if err := c.once(table); err != nil {
			return nil, err
		}
	}
	for _, s := range []struct {
		to  *driver.Stmt
		sql string
	}{
		{&c.begin, `BEGIN IMMEDIATE`},
		{&c.commit, `COMMIT`},
		{&c.insertID, `INSERT INTO ids (n, id) VALUES (?, ?)`},
		{&c.insertBody, `INSERT INTO bodies (n, body) VALUES (?, ?)`},
	} {
		if *s.to, err = conn.Prepare(s.sql); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// batch inserts the pairs from first up to, but without, last in one commit.
func (c *ceiling) batch(first, last int, body []byte) error {
	if err := execute(c.begin); err != nil {
		return err
	}
	for n := first; n < last; n++ {
		// The ids are as long as the time-ordered ids of messages.
		if err := execute(c.insertID, int64(n), fmt.Sprintf("%036d", n)); err != nil {
			return err
		}
		if err := execute(c.insertBody, int64(n), body); err != nil {
			return err
		}
	}
	return execute(c.commit)
}

// once prepares, runs and forgets a statement.
func (c *ceiling) once(sql string) error {
	s, err := c.conn.Prepare(sql)
	if err != nil {
		return err
	}
	return errors.Join(execute(s), s.Close())
}

func execute(s driver.Stmt, args ...driver.Value) error {
	named := make([]driver.NamedValue, len(args))
	for i, a := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	// A context that can be cancelled would cost one goroutine for each statement.
	_, err := s.(driver.StmtExecContext).ExecContext(context.Background(), named)
	return err
}

func (c *ceiling) close() error {
	var errs []error
	for _, s := range []driver.Stmt{c.begin, c.commit, c.insertID, c.insertBody} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, c.conn.Close())...)
}
