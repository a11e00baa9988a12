package storage

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot"
)

// rehearsals caches the last rehearsal, so that frequent questions cost the writer at most one rehearsal in
// [rehearseEvery].
type rehearsals struct {
	mu   sync.Mutex
	at   time.Time
	last error
}

// rehearseEvery is the greatest age of an answer of [DB.Ready].
const rehearseEvery = time.Second

// Ready says why messages cannot be accepted or answered now; nil means that they can. It takes a test message the
// whole way, from its publishing to the reply, in a transaction that is rolled back. It also reads everything that a
// turn reads. So it finds an unreadable or unwritable table or index on the way of the next message, even while nobody
// sends one.
//
// A page that only one chat needs does not count: see [DB.SetAside]. Operations that failed repeatedly of late do
// count.
func (db *DB) Ready(ctx context.Context) error {
	if err := db.Ping(ctx); err != nil {
		return fmt.Errorf("the store does not commit: %w", err)
	}
	if err := db.faults.now(time.Now()); err != nil {
		return err
	}
	r := &db.rehearsals
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= rehearseEvery || now.Before(r.at) {
		r.last, r.at = db.rehearse(ctx), now
		if isDamage(r.last) {
			r.last = errors.Join(r.last, db.SharedDamage(ctx))
		}
	}
	return r.last
}

func (db *DB) rehearse(ctx context.Context) (err error) {
	stopped := db.betweenTransactions(ctx, func(w *writer) { err = w.rehearse() })
	if stopped != nil {
		return stopped
	}
	return errors.Join(err, db.rehearseReading(ctx))
}

// rehearsed is the conversation of a rehearsal. No channel has its name.
var rehearsed = corebot.Key{Agent: corebot.DefaultAgent, Channel: "rehearsal", Chat: "rehearsal"}

// rehearse runs the operations of a message on the write connection, and rolls them back.
func (w *writer) rehearse() error {
	if err := w.ready(); err != nil {
		return err
	}
	if _, err := w.conn.exec(begin); err != nil {
		return fmt.Errorf("begin a transaction: %w", classify(err))
	}
	t := &tx{
		now: time.Now().Truncate(time.Millisecond), conn: w.conn, total: w.total, lastLife: w.lastLife, audit: w.audit,
		backAt:   math.MaxInt64,
		queueing: w.db.queueing, flows: w.flows, waiting: &w.flows.waiting,
	}
	err := rehearseTx(t)
	w.rollback()
	if err != nil {
		w.forgetPages()
	}
	return err
}

var shrinkMemory = &query{`PRAGMA shrink_memory`}

// forgetPages empties the connection's cache, so that no damaged page stays there when the file is whole again.
func (w *writer) forgetPages() {
	if w.conn == nil {
		return
	}
	if err := w.conn.each(shrinkMemory, func(scanner) error { return nil }); err != nil {
		w.db.log.Debug().Err(err).Msg("forget the cached pages")
	}
}

// rehearseTx does what one message does on its way.
func rehearseTx(t *tx) error {
	for _, step := range rehearsalOf(t) {
		if err := step.run(); err != nil {
			return fmt.Errorf("the store cannot %s: %w", step.name, classify(err))
		}
	}
	return nil
}

// rehearsalStep is a part of that way, named as an error names it.
type rehearsalStep struct {
	name string
	run  func() error
}

// rehearsalOf is the way of one message: each step works on what the steps before it have left.
func rehearsalOf(t *tx) []rehearsalStep {
	who := corebot.Principal{Channel: rehearsed.Channel, ID: "rehearsal"}
	said := corebot.TextPart("rehearsal")
	in := corebot.Message{
		ID: "rehearsal", Direction: corebot.Inbound, Kind: corebot.KindPrompt, Key: rehearsed,
		Sender: who, Parts: said,
	}
	out := corebot.Message{
		ID: "rehearsal", Direction: corebot.Outbound, Kind: corebot.KindReply, Key: rehearsed,
		Parts: said,
	}
	var life, chat int64
	publish := func(m corebot.Message) error {
		r, err := publishTx(t, &pack([]corebot.Message{m})[0], corebot.Limits{})
		if err == nil {
			life, err = r.Life, r.Err
		}
		return err
	}
	return []rehearsalStep{
		{"accept a message", func() error { return publish(in) }},
		{"find waiting messages", func() error {
			_, err := readyLanesTx(t, corebot.InboundPool, 1)
			return err
		}},
		{"journal a turn", func() error {
			done := corebot.Step{Kind: corebot.StepTool, State: corebot.StepDone}
			return recordStepTx(t, life, 1, stepRow{Step: done})
		}},
		{"end what a turn waits for", func() error { return endCallsTx(t, life) }},
		{"keep the history of a chat", func() (err error) {
			known, err := chatTx(t, rehearsed)
			if err != nil {
				return err
			}
			chat = known.ID
			_, err = t.exec(appendHistory, chat, 1, 1, 0, string(corebot.SpeakerUser), "", "", "", "", "", "", "",
				false, in.ID, t.now)
			return err
		}},
		{"note an audit event", func() error {
			return auditTx(t, []corebot.AuditEvent{{Event: "rehearsal", Key: rehearsed}})
		}},
		{"book what was used", func() error {
			_, err := t.exec(bookDay, "0000-00-00", rehearsed.Agent, rehearsed.String(), "", "", "", "", 0, 0, 0, 0, 0,
				0, 0, 0)
			return err
		}},
		{"enqueue a reply", func() error { return publish(out) }},
		{"deliver a reply", func() error { return mailTx(t, out) }},
		{"count what happened", func() error {
			_, err := readTally(t.conn)
			return err
		}},
		{"number a commit", func() error {
			_, err := t.exec(touchStore)
			return err
		}},
	}
}

// rehearseReading reads what a turn reads before it begins.
func (db *DB) rehearseReading(ctx context.Context) error {
	k := rehearsed
	for _, step := range []rehearsalStep{
		{"read the roles", func() error {
			return db.reader.each(ctx, selectRoles,
				func(scanner) error { return nil })
		}},
		{"read a chat", func() error {
			_, err := NewChats(db).Chat(ctx, k)
			return err
		}},
		{"read the history", func() error {
			_, err := NewHistory(db).Recent(ctx, k, 1)
			return err
		}},
		{"read replies that can be fetched", func() error {
			_, err := NewMailbox(db).After(ctx, k, 0, 1)
			return err
		}},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("the store cannot %s: %w", step.name, err)
		}
	}
	return nil
}

// sharedTables are small, and every chat needs every page of their indexes. So damage in them concerns all chats.
var sharedTables = []string{"store", "lanes", "totals"}

var checkTable = &query{`SELECT quick_check FROM pragma_quick_check(?)`}

// SharedDamage names the damaged tables that all chats need, and how to repair them; nil: none is damaged.
func (db *DB) SharedDamage(ctx context.Context) error {
	var damaged []string
	for _, name := range sharedTables {
		whole := true
		err := db.reader.each(ctx, checkTable, func(s scanner) error {
			var text string
			err := s.Scan(&text)
			whole = whole && text == "ok"
			return err
		}, name)
		switch {
		case err != nil && !isDamage(err):
			return fmt.Errorf("check the table %s: %w", name, err)
		case err != nil || !whole:
			damaged = append(damaged, name)
		}
	}
	if damaged == nil {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("damaged, and all chats need it: the table %s",
		strings.Join(damaged, ", the table ")), repairHint)
}

// isDamage says whether an error means that the content of the file is wrong.
func isDamage(err error) bool {
	var e sqliteError
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// faults remembers by name which operations fail. A success of the same name clears the failure, and so does time: an
// unused store is judged by its rehearsals alone.
type faults struct {
	mu     sync.Mutex
	failed map[string]failedOp // by the names of the operations in this package
}

type failedOp struct {
	times int
	at    time.Time
	err   error
}

const (
	faultTimes = 3                // failures in a row; one damaged chat among others does not reach it
	faultTime  = 30 * time.Second // a failure counts for this long
)

// note records how an operation ended. Only SQLite's own errors count as failures of the store.
func (f *faults) note(name string, err error) {
	failed := ofSQLite(err) && !errors.Is(err, corebot.ErrDiskFull) // a full disk has its own check: see [Space]
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !failed && len(f.failed) == 0, errors.Is(err, corebot.ErrClosed), errors.Is(err, context.Canceled):
	case !failed:
		delete(f.failed, name)
	default:
		if f.failed == nil {
			f.failed = map[string]failedOp{}
		}
		f.failed[name] = failedOp{f.failed[name].times + 1, time.Now(), err}
	}
}

// now returns the operations that failed repeatedly of late.
func (f *faults) now(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for name, last := range f.failed {
		if age := now.Sub(last.at); age >= faultTime || age < 0 {
			delete(f.failed, name)
		} else if last.times >= faultTimes {
			errs = append(errs, fmt.Errorf("the operation %q of the store has failed %d times in a row: %w", name,
				last.times, last.err))
		}
	}
	return errors.Join(errs...)
}

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
