package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/storage/engine"
)

// tx is the writer's transaction. Its operations get it one after the other, and must not keep it.
type tx struct {
	now      time.Time     // one time for the whole commit, in whole milliseconds
	stepped  time.Duration // a step of the wall clock that the stored times do not follow yet
	conn     *prepared
	writes   int   // rows changed so far in this transaction
	failed   error // the first error of SQLite's own, which can have ended the whole transaction
	total    totals
	lastLife int64            // the number of the newest life
	audit    link             // the newest event of the audit trail
	diskLow  bool             // inbound messages are refused
	said     bool             // the history has grown, or a page of memory has changed
	granted  bool             // the grants have changed
	admitted bool             // what is set about who may talk in a chat has changed
	posted   []corebot.Key    // conversations whose mailbox got a message
	stopped  []int64          // lives of jobs that were stopped
	clients  MailClients      // of the mailbox; nil: none
	planned  bool             // due times of tasks have changed
	grouped  bool             // a chat is to be told of several dead letters at once
	keeper   *corebot.Keeper  // of the database
	queueing corebot.Queueing // where a chat has no setting of its own
	tally    *tally           // the counters as of the last commit; nil: nothing is counted
	counted  map[series]int64 // what this transaction adds to them

	stored     []Aside                // lanes whose rows now say that they are set aside
	readmitted []int64                // lanes that were set aside and go on
	deleting   *deleting              // conversations in which no turn begins now
	flows      *flows                 // running and held turns of principals
	waiting    *waiting               // waiting messages of senders
	wakes      map[corebot.Pool]int64 // earliest wake_at of each pool that can be due; see waitingClaims

	// when the first deferred message comes back, or earlier, in unix milliseconds; math.MaxInt64: none
	backAt     int64
	lanePlaces int64 // most deferred messages of a lane; 0: any number
	taskEnds   int   // failed runs in a row that pause a task; 0: any number
	taskLate   time.Duration
}

// totals counts what waits in all lanes together, by direction, and the tasks that are not done. It follows the tables
// and is never stored.
type totals struct {
	depth [4]int64
	bytes int64
	tasks int64
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(q *query, args ...any) (int64, error) {
	n, err := t.conn.exec(q, args...)
	if err != nil {
		return 0, t.fail(err)
	}
	t.writes += int(n)
	return n, nil
}

// insert runs a statement and returns the rowid that it wrote; 0 if a conflict made it write nothing.
func (t *tx) insert(q *query, args ...any) (int64, error) {
	n, err := t.exec(q, args...)
	if err != nil || n == 0 {
		return 0, err
	}
	return t.conn.db.LastInsertID(), nil
}

// each calls fn for every row. fn must not use the transaction.
func (t *tx) each(q *query, fn func(scanner) error, args ...any) error {
	return t.fail(t.conn.each(q, fn, args...))
}

// fail remembers an error of SQLite itself. On a full disk, for example, SQLite rolls back everything and then
// continues statement by statement. Nothing of the batch must be committed then.
func (t *tx) fail(err error) error {
	if err != nil && t.failed == nil && ofSQLite(err) {
		t.failed = err
	}
	return err
}

// one scans the first row; ok is false if there is none.
func (t *tx) one(q *query, dest []any, args ...any) (ok bool, err error) {
	err = t.each(q, func(s scanner) error {
		ok = true
		return s.Scan(dest...)
	}, args...)
	return ok, err
}

// wake notes that a lane of the pool is due at ms. An unknown pool counts as due and stays unknown. Otherwise its other
// lanes would sleep until ms.
func (t *tx) wake(p corebot.Pool, ms int64) {
	if known, ok := t.wakes[p]; ok && ms < known {
		t.wakes[p] = ms
	}
}

// prepared is a connection with its prepared statements.
type prepared struct {
	db   *engine.Conn
	stmt map[*query]*engine.Stmt
	// trouble runs before each statement (after is false) and after it. Tests make statements fail with it.
	trouble func(sql string, after bool) error
}

func newPrepared(c *engine.Conn) *prepared {
	return &prepared{db: c, stmt: make(map[*query]*engine.Stmt)}
}

func (c *prepared) prepare(q *query) (*engine.Stmt, error) {
	s := c.stmt[q]
	if s == nil {
		var err error
		if s, err = c.db.Prepare(q.sql); err != nil {
			return nil, fmt.Errorf("prepare %q: %w", q.sql, err)
		}
		c.stmt[q] = s
	}
	return s, c.ask(q, false)
}

func (c *prepared) ask(q *query, after bool) error {
	if c.trouble == nil {
		return nil
	}
	return c.trouble(q.sql, after)
}

func (c *prepared) exec(q *query, args ...any) (int64, error) {
	s, err := c.prepare(q)
	if err != nil {
		return 0, err
	}
	n, err := s.Exec(args...)
	if err != nil {
		return 0, err
	}
	return n, c.ask(q, true)
}

func (c *prepared) each(q *query, fn func(scanner) error, args ...any) error {
	s, err := c.prepare(q)
	if err != nil {
		return err
	}
	return s.Query(func(s *engine.Stmt) error { return fn(s) }, args...)
}

// Close finalizes the statements and closes the connection.
func (c *prepared) Close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, s := range c.stmt {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.db.Close())...)
}

// query is one SQL statement. Its address identifies its prepared statement.
type query struct{ sql string }

// scanner is a row of the writer or of a reader.
type scanner interface{ Scan(dest ...any) error }

// fromMillis reads what [engine.Millis] wrote.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// moment scans a stored time.
type moment struct{ to *time.Time }

func (m moment) Scan(v any) error {
	ms, ok := v.(int64)
	if !ok && v != nil {
		return fmt.Errorf("storage: a time is stored as %T", v)
	}
	*m.to = fromMillis(ms)
	return nil
}

// sqliteError is an error of SQLite itself, from the writer's engine or from the readers' driver.
type sqliteError interface {
	error
	Code() int // extended result code
}

func ofSQLite(err error) bool {
	_, ok := asSQLite(err)
	return ok
}

func asSQLite(err error) (e sqliteError, ok bool) {
	if err == nil {
		return nil, false
	}
	ok = errors.As(err, &e)
	return e, ok
}

// classify turns SQLite's errors into the errors that callers decide on. It uses codes, not texts.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var e sqliteError
	if !errors.As(err, &e) {
		return err
	}
	switch code := e.Code(); code & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return shortOfRoom(code, err)
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return fmt.Errorf("%w: %w", corebot.ErrUnstorable, err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return corebot.WithHint(err, "make the directory of the database, and the files there, writable for the user "+
			"who runs Corebot")
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return corebot.WithHint(fmt.Errorf("the database is damaged: %w", err), repairHint)
	}
	return err
}

const repairHint = "nothing was changed; run `corebot db check`, and if it agrees, `corebot db restore` with the " +
	"newest backup of data/backups"

// metrics are the writer's metrics.
type metrics struct {
	commits       prometheus.Counter
	failedCommits prometheus.Counter
	batch         prometheus.Histogram
	seconds       prometheus.Histogram
	rows          prometheus.Counter
	clockSteps    prometheus.Counter
}

func newMetrics(r prometheus.Registerer, db *DB) (*metrics, error) {
	m := &metrics{
		commits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_store_commits_total",
			Help: "Transactions that the writer ended.",
		}),
		failedCommits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_store_commit_errors_total",
			Help: "Commits that failed and had to be looked up.",
		}),
		rows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_store_rows_written_total",
			Help: "Rows inserted, updated or deleted.",
		}),
		clockSteps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_clock_steps_total", Help: "Steps of the wall clock that stored times had to follow; a " +
				"machine that was suspended makes one, too.",
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "corebot_store_batch_operations", Help: "Operations and claims that shared a commit.",
			Buckets: prometheus.ExponentialBuckets(1, 8, 3),
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "corebot_store_commit_seconds", Help: "Time of a transaction, fsync included.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.commits, m.failedCommits, m.rows, m.clockSteps, m.batch, m.seconds,
		collector{NewQueue(db)},
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the store's metrics: %w", err)
		}
	}
	return m, db.tally.register(r)
}

func (m *metrics) observe(operations, rows int, d time.Duration) {
	m.commits.Inc()
	m.rows.Add(float64(rows))
	m.batch.Observe(float64(operations))
	m.seconds.Observe(d.Seconds())
}

// reader is a pool of query-only connections. They are opened on demand, up to a number, and stay open.
type reader struct {
	path  string
	slots chan struct{} // one for each query that can run at once
	mu    sync.Mutex
	idle  []*prepared // the connection that was used last comes first: its cache has the pages
	over  bool
}

// openReader takes over a connection that is open already. Otherwise it opens the first one at once, so that an
// unreadable file is found at once.
func openReader(path string, conns int, first *prepared) (_ *reader, err error) {
	r := &reader{path: path, slots: make(chan struct{}, conns)}
	if first == nil {
		if first, err = r.open(); err != nil {
			return nil, classify(err)
		}
	}
	r.idle = append(r.idle, first)
	return r, nil
}

var readPragmas = append(slices.Clone(pragmas), "query_only(on)", "cache_size(-2048)")

func (r *reader) open() (*prepared, error) {
	c, err := engine.Open(fileURI(r.path, nil), readPragmas)
	if err != nil && isAtRest(r.path, err) {
		c, err = openAtRest(r.path)
	}
	if err != nil {
		return nil, err
	}
	return newPrepared(c), nil
}

// each calls fn for every row. ctx counts until a connection is free; the reads here are short.
func (r *reader) each(ctx context.Context, q *query, fn func(scanner) error, args ...any) error {
	return r.use(ctx, func(c *prepared) error { return c.each(q, fn, args...) })
}

// whole is each for a read that takes long: the read ends when ctx ends.
func (r *reader) whole(ctx context.Context, q *query, fn func(scanner) error, args ...any) error {
	err := r.use(ctx, func(c *prepared) error {
		defer c.db.InterruptWhen(ctx)()
		return c.each(q, fn, args...)
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

var (
	beginRead = &query{`BEGIN`}
	endRead   = &query{`COMMIT`}
)

// view lets fn read the database as of one moment. One view costs less than several reads, because a separate read
// begins with an empty cache after any commit. The callback fn must only read, and must wait for nobody: the
// write-ahead log cannot be cut meanwhile.
func (r *reader) view(ctx context.Context, fn func(*prepared) error) error {
	return r.use(ctx, func(c *prepared) (err error) {
		if _, err := c.exec(beginRead); err != nil {
			return err
		}
		defer func() {
			if _, e := c.exec(endRead); err == nil {
				err = e
			}
		}()
		return fn(c)
	})
}

// use lends fn a connection.
func (r *reader) use(ctx context.Context, fn func(*prepared) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.slots }()
	c, err := r.take()
	if err != nil {
		return classify(err)
	}
	if err = fn(c); isDamage(err) {
		_ = c.Close() // its cache can hold damaged pages; the next connection reads the file
		return classify(err)
	}
	r.put(c)
	return classify(err)
}

// one scans the first row; ok is false if there is none.
func (r *reader) one(ctx context.Context, q *query, dest []any, args ...any) (ok bool, err error) {
	err = r.each(ctx, q, func(s scanner) error {
		ok = true
		return s.Scan(dest...)
	}, args...)
	return ok, err
}

func (r *reader) take() (*prepared, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, corebot.ErrClosed
	}
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return c, nil
	}
	return r.open()
}

func (r *reader) put(c *prepared) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || c.db.InTransaction() { // a transaction that could not be ended would show the same moment for ever
		_ = c.Close() // the answer has been read
		return
	}
	r.idle = append(r.idle, c)
}

// Close closes the connections. A connection in use is closed when its query ends.
func (r *reader) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	var errs []error
	for _, c := range r.idle {
		errs = append(errs, c.Close())
	}
	r.idle = nil
	return errors.Join(errs...)
}

// cursor spells the place of a row in a list: the fields that the list is ordered by.
func cursor(list string, place ...any) string {
	raw, _ := json.Marshal(append([]any{list}, place...)) // of strings and numbers: cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// behind reads the place that a cursor of a list spells. An empty cursor leaves the place as it is: the beginning. A
// cursor that the list never gave is [corebot.ErrInvalid].
func behind(after, list string, place ...any) error {
	if after == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(after)
	var fields []json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	var of string
	into := append([]any{&of}, place...)
	if err != nil || len(fields) != len(into) {
		return badCursor(after)
	}
	for i, field := range fields {
		if json.Unmarshal(field, into[i]) != nil {
			return badCursor(after)
		}
	}
	if of != list {
		return badCursor(after)
	}
	return nil
}

func badCursor(after string) error {
	return fmt.Errorf("%w: %q is no cursor of this list: send what an earlier page gave, or leave it out",
		corebot.ErrInvalid, runes.Head(after, 100))
}

// nextPage is the cursor behind the last row of a page. A page that is not full has none: nothing is left.
func nextPage[T any](found []T, limit int, at func(T) string) string {
	if len(found) < limit || len(found) == 0 {
		return ""
	}
	return at(found[len(found)-1])
}
