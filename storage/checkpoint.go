package storage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// CheckpointOptions of a [Checkpoints]. The zero value is usable.
type CheckpointOptions struct {
	Mark    int64         // bytes of the write-ahead log above which it is cut; 24 MiB
	Limit   int64         // bytes above which somebody should know; 64 MiB
	Every   time.Duration // between two looks at its size; 250 ms
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: figures are kept and shown to nobody
}

// Checkpoints keeps the write-ahead log short. The writer copies the log into the database as it commits, and begins the log anew when
// nobody reads it. Under load, with readers that come and go, there is always one that does: then the log would only grow. This cuts it.
//
// It copies first, which holds up nobody, and only when nearly all is copied does it hold up the writer, for as long as the readers need that
// are under way: at most [patience]. New readers do not use the log any more by then.
//
// Limits: a reader that stays for long, such as a backup or a check of the whole file, keeps the log from being cut. Corebot's own are short by
// construction: a row is never held while somebody slow is written to. The log then grows until that reader is done, the metrics show it, and
// a warning says so; the floor of the disk holds all the same.
type Checkpoints struct {
	store   *DB
	opts    CheckpointOptions
	wal     string
	db      *sql.DB
	results *prometheus.CounterVec
	warned  bool
	pause   time.Time // until then it is not tried again
}

const (
	patience   = 100         // how long the writer may be held up for the sake of readers, in milliseconds
	pauseAfter = time.Second // that was in vain
)

// NewCheckpoints opens a connection of its own; it starts nothing. Call Close when Run has returned.
func NewCheckpoints(store *DB, o CheckpointOptions) (*Checkpoints, error) {
	o.Mark, o.Limit, o.Every = cmp.Or(o.Mark, 24<<20), cmp.Or(o.Limit, 64<<20), cmp.Or(o.Every, 250*time.Millisecond)
	if o.Mark < 0 || o.Limit < 0 || o.Every < 0 {
		return nil, fmt.Errorf("%w: a number of the checkpoints is negative: %+v", corebot.ErrInvalid, o)
	}
	// FULL, because the log is thrown away when its pages are copied.
	pragmas := []string{fmt.Sprintf("busy_timeout(%d)", patience), "trusted_schema(off)", "synchronous(FULL)", "wal_autocheckpoint(0)"}
	db, err := sql.Open("sqlite", dsn(store.path, pragmas))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	c := &Checkpoints{
		store: store, opts: o, wal: store.path + "-wal", db: db,
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_store_log_cuts_total", Help: "Tries to cut the write-ahead log, by result: cut, read (somebody reads it), error.",
		}, []string{"result"}),
	}
	for _, result := range []string{"cut", "read", "error"} {
		c.results.WithLabelValues(result) // shown from the start
	}
	if o.Metrics == nil {
		return c, nil
	}
	if err := o.Metrics.Register(c.results); err != nil {
		return nil, errors.Join(fmt.Errorf("register the metrics of the checkpoints: %w", err), db.Close())
	}
	return c, nil
}

// Close closes the connection.
func (c *Checkpoints) Close() error { return c.db.Close() }

// Run looks at the log until ctx ends.
func (c *Checkpoints) Run(ctx context.Context) error {
	tick := time.NewTicker(c.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.look(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// look cuts the log if it is too long.
func (c *Checkpoints) look(ctx context.Context) {
	size, err := c.size()
	if err != nil {
		c.results.WithLabelValues("error").Inc()
		c.warn(err, size, "the length of the write-ahead log cannot be read, so that it is not cut")
		return
	}
	if size <= c.opts.Mark {
		c.warned = false
		return
	}
	if time.Now().Before(c.pause) {
		return
	}
	cut, err := c.cut(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		c.results.WithLabelValues("error").Inc()
	case cut:
		c.results.WithLabelValues("cut").Inc()
	default:
		c.results.WithLabelValues("read").Inc()
	}
	if size > c.opts.Limit && !cut {
		c.warn(err, size, "the write-ahead log grows, because somebody reads the database for long: a backup, or a check?")
	}
}

// warn tells once of each time that the log is not what it should be.
func (c *Checkpoints) warn(err error, size int64, what string) {
	if !c.warned {
		c.warned = true
		c.opts.Log.Warn().Err(err).Int64("bytes", size).Msg(what)
	}
}

// size is that of the log in bytes; one that is not there has none.
func (c *Checkpoints) size() (int64, error) {
	info, err := os.Stat(c.wal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return info.Size(), nil
}

// nearly all of the log has been copied when so many pages of it have not: readers that come and go are always a little behind.
const nearly = 1024

// cut copies the log and then begins it anew. It says false, and has only copied what could be, when a reader needs the log.
func (c *Checkpoints) cut(ctx context.Context) (bool, error) {
	left, err := c.checkpoint(ctx, `PRAGMA wal_checkpoint(PASSIVE)`)
	if err != nil || left > nearly {
		return false, err
	}
	// It needs the writer's lock, which a busy writer leaves for moments only.
	if stopped := c.store.betweenTransactions(ctx, func(*writer) { left, err = c.checkpoint(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`) }); stopped != nil {
		return false, stopped
	}
	if left > 0 { // the writer was held up in vain: not again at once
		c.pause = time.Now().Add(pauseAfter)
	}
	return err == nil && left == 0, err
}

// betweenTransactions has the writer run fn while it has no transaction.
func (db *DB) betweenTransactions(ctx context.Context, fn func(*writer)) error {
	done := make(chan struct{})
	select {
	case db.between <- func(w *writer) { defer close(done); fn(w) }:
		<-done
		return nil
	case <-db.stopped:
		return corebot.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// checkpoint runs one and says how many pages of the log are left.
func (c *Checkpoints) checkpoint(ctx context.Context, pragma string) (left int64, err error) {
	var busy, frames, copied int64
	if err := c.db.QueryRowContext(ctx, pragma).Scan(&busy, &frames, &copied); err != nil {
		return 0, fmt.Errorf("%s: %w", pragma, classify(err))
	}
	return max(frames-copied, busy), nil
}

var selectSynchronous = &query{`PRAGMA synchronous`}

// Synchronous reads back from the write connection how it syncs: "OFF", "NORMAL", "FULL" or "EXTRA". Guarantee G1 needs FULL. It
// is for those who report figures: a figure without its durability says nothing.
func (db *DB) Synchronous(ctx context.Context) (string, error) {
	var level int
	err := db.write(ctx, "synchronous", func(t *tx) error {
		_, err := t.one(selectSynchronous, []any{&level})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read how the database syncs: %w", err)
	}
	names := [...]string{"OFF", "NORMAL", "FULL", "EXTRA"}
	if level < 0 || level >= len(names) {
		return "", fmt.Errorf("read how the database syncs: SQLite says %d", level)
	}
	return names[level], nil
}

// rotation looks at a table whose rows are in no order of time, a part of it in each pass: where one pass ends the
// next goes on, and all rows are seen within a day. The first pass begins anywhere, so that a process that is started
// often does not see the same rows again and again.
type rotation struct {
	begun bool
	next  int64 // the id behind which the next pass begins
}

const (
	wholeTurn = 24 * time.Hour // in which each row is looked at once
	leastTurn = 5 * sweepRows  // rows of a pass: a small table is seen whole by each
)

// pass hands over the pages of one pass. page reads the rows behind an id, [sweepRows] of them at most, and says how
// many there were and the id of the last. newest gives the highest id of the table, which stands for its size.
func (o *rotation) pass(ctx context.Context, r *Retention, newest *query, page func(after int64) (rows int, last int64, err error)) error {
	var ids int64
	if _, err := r.db.reader.one(ctx, newest, []any{&ids}); err != nil {
		return err
	}
	if !o.begun && ids > leastTurn {
		o.next = rand.Int64N(ids)
	}
	o.begun = true
	share := max(leastTurn, int(float64(ids)*r.opts.Every.Hours()/wholeTurn.Hours())+1)
	begin, wrapped := o.next, o.next == 0
	for seen := 0; seen < share; {
		rows, last, err := page(o.next)
		if err != nil {
			return err
		}
		seen += rows
		o.next = last
		if rows < sweepRows { // the end of the table
			if o.next = 0; wrapped {
				return nil
			}
			wrapped = true
		} else if wrapped && begin > 0 && o.next >= begin {
			return nil
		}
	}
	return nil
}
