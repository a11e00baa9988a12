package storage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// CheckpointOptions of a [Checkpoints]. The zero value is usable.
type CheckpointOptions struct {
	Mark    int64         // bytes of frames in the write-ahead log above which it begins anew; 24 MiB
	Limit   int64         // bytes of frames above which somebody should know; 64 MiB
	Every   time.Duration // between two looks at a log that is too long; 250 ms
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: the metrics are kept and not exported
}

// Checkpoints keeps the write-ahead log short. The writer copies the log into the database as it commits, and starts
// the log anew when nobody reads it. Under load there is always some reader, and the log would only grow. Checkpoints
// makes it begin anew.
//
// It first copies the log, which delays nobody. Only when nearly all is copied does it hold up the writer. It then
// waits for the running readers, for at most [patience]. New readers do not use the log at that point.
//
// The file keeps its length, because a write over existing bytes is faster. SQLite shortens a file that became longer
// than its limit. While the disk is low, Checkpoints gives the unused length back.
//
// Limits: a long read, such as a backup or a check of the whole file, keeps the log from beginning anew. Corebot's own
// reads are short: no read stays open while Corebot writes to somebody slow. The log grows until the long read ends.
// The metrics show it, and a warning is logged. The floor of the disk holds all the same.
type Checkpoints struct {
	store   *DB
	opts    CheckpointOptions
	db      *sql.DB
	results *prometheus.CounterVec
	warned  bool
}

// logUse is what the writer knows of the write-ahead log, in bytes.
type logUse struct {
	frames atomic.Int64 // up to the end of the last frame
	file   atomic.Int64
	mark   atomic.Int64              // of frames, above which somebody is called
	pause  atomic.Pointer[time.Time] // no attempt to begin the log anew before it; nil: none was in vain
	calls  chan struct{}             // wakes a [Checkpoints], so that it sleeps while nothing is written
}

func newLogUse() logUse { return logUse{calls: make(chan struct{}, 1)} }

func (u *logUse) note(frames, file int64) {
	u.frames.Store(frames)
	u.file.Store(file)
	if frames > u.mark.Load() {
		u.call()
	}
}

// call has the log looked at.
func (u *logUse) call() {
	select {
	case u.calls <- struct{}{}:
	default: // it will be
	}
}

// paused is how long nobody may hold up the writer to begin the log anew. Every [Checkpoints] keeps to it.
func (u *logUse) paused() time.Duration {
	if end := u.pause.Load(); end != nil {
		return time.Until(*end)
	}
	return 0
}

// unused is how many bytes of the file no frame is in.
func (u *logUse) unused() int64 { return u.file.Load() - u.frames.Load() }

const (
	patience   = 100         // how long the writer can be held up for readers, in milliseconds
	pauseAfter = time.Second // after an attempt in vain
	spare      = 4 << 20     // unused bytes that the file of the log keeps on a disk that is low
)

// NewCheckpoints opens a connection of its own. It starts nothing. Call Close when Run has returned.
func NewCheckpoints(store *DB, o CheckpointOptions) (*Checkpoints, error) {
	o.Mark, o.Limit, o.Every = cmp.Or(o.Mark, 24<<20), cmp.Or(o.Limit, 64<<20), cmp.Or(o.Every, 250*time.Millisecond)
	if o.Mark < 0 || o.Limit < 0 || o.Every < 0 {
		return nil, fmt.Errorf("%w: a number of the checkpoints is negative: %+v", corebot.ErrInvalid, o)
	}
	// FULL, because the log begins anew when its pages are copied.
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", patience), "trusted_schema(off)", "synchronous(FULL)",
		"wal_autocheckpoint(0)",
	}
	db, err := sql.Open("sqlite", dsn(store.path, pragmas))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	store.wal.mark.Store(o.Mark)
	c := &Checkpoints{
		store: store, opts: o, db: db,
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_store_log_cuts_total",
			Help: "Tries to begin the write-ahead log anew, by result: cut, read (somebody reads it), error.",
		}, []string{"result"}),
	}
	for _, result := range []string{"cut", "read", "error"} {
		c.results.WithLabelValues(result) // creates the series at zero
	}
	if o.Metrics == nil {
		return c, nil
	}
	if err := o.Metrics.Register(c.results); err != nil {
		return nil, errors.Join(fmt.Errorf("register the metrics of the checkpoints: %w", err), db.Close())
	}
	return c, nil
}

func (c *Checkpoints) Close() error { return c.db.Close() }

// Run watches the log until ctx ends. The writer calls when a commit has made the log too long, and [Space] when the
// disk is low. Then Run looks again and again until nothing is left to do.
func (c *Checkpoints) Run(ctx context.Context) error {
	for {
		for c.look(ctx) {
			select {
			case <-time.After(c.opts.Every):
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-c.store.wal.calls:
		case <-ctx.Done():
			return nil
		}
	}
}

// look makes the log begin anew if it has too many frames, or if its file takes room that the disk needs. It says
// whether it found something to do.
func (c *Checkpoints) look(ctx context.Context) (found bool) {
	frames := c.store.wal.frames.Load()
	giveBack := c.store.diskLow.Load() && c.store.wal.unused() > spare
	if frames <= c.opts.Mark && !giveBack {
		c.warned = false
		return false
	}
	if c.store.wal.paused() > 0 {
		return true
	}
	cut, err := c.cut(ctx, giveBack)
	switch {
	case ctx.Err() != nil:
		return true
	case err != nil:
		c.results.WithLabelValues("error").Inc()
	case cut:
		c.results.WithLabelValues("cut").Inc()
	default:
		c.results.WithLabelValues("read").Inc()
	}
	if frames > c.opts.Limit && !cut && !c.warned {
		c.warned = true // once for each time that the log becomes too long
		c.opts.Log.Warn().Err(err).Int64("bytes", frames).Msg(
			"the write-ahead log grows, because somebody reads the database for long: a backup, or a check?")
	}
	return true
}

// nearly is how many pages of the log can be uncopied when the cut begins. Readers that come and go are always a little
// behind.
const nearly = 1024

// cut copies the log and then makes it begin anew. giveBack also empties the file. If a reader needs the log, cut only
// copies what it can, and returns false.
func (c *Checkpoints) cut(ctx context.Context, giveBack bool) (bool, error) {
	left, err := c.checkpoint(ctx, `PRAGMA wal_checkpoint(PASSIVE)`)
	if err != nil || left > nearly {
		return false, err
	}
	again := `PRAGMA wal_checkpoint(RESTART)`
	if giveBack {
		again = `PRAGMA wal_checkpoint(TRUNCATE)`
	}
	// The checkpoint needs the writer's lock. A busy writer releases the lock only for moments.
	if stopped := c.store.betweenTransactions(ctx, func(*writer) {
		left, err = c.checkpoint(ctx, again)
		if err == nil && left == 0 {
			c.store.wal.begunAnew(giveBack)
		}
	}); stopped != nil {
		return false, stopped
	}
	if left > 0 { // the writer was held up in vain: wait before the next attempt
		end := time.Now().Add(pauseAfter)
		c.store.wal.pause.Store(&end)
	}
	return err == nil && left == 0, err
}

// begunAnew notes that the next commit writes to the front of the log.
func (u *logUse) begunAnew(emptied bool) {
	u.frames.Store(0)
	if emptied {
		u.file.Store(0)
	}
}

// betweenTransactions lets the writer run fn while it has no transaction.
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

// checkpoint runs one checkpoint and returns how many pages of the log are not copied.
func (c *Checkpoints) checkpoint(ctx context.Context, pragma string) (left int64, err error) {
	var busy, frames, copied int64
	if err := c.db.QueryRowContext(ctx, pragma).Scan(&busy, &frames, &copied); err != nil {
		return 0, fmt.Errorf("%s: %w", pragma, classify(err))
	}
	return max(frames-copied, busy), nil
}

var selectSynchronous = &query{`PRAGMA synchronous`}

// Synchronous asks the write connection how it syncs: "OFF", "NORMAL", "FULL" or "EXTRA". Guarantee G1 needs FULL.
// Benchmarks report it, because a figure without its durability says nothing.
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

// rotation walks through a table whose rows are in no order of time, one part in each pass. A pass begins where the
// last one ended, and every row is seen within a day. The first pass begins at a random place. Otherwise a process that
// restarts often would see the same rows again and again.
type rotation struct {
	begun bool
	next  int64 // the next pass begins behind this id
}

const (
	wholeTurn = 24 * time.Hour // every row is seen within this time
	leastTurn = 5 * sweepRows  // least rows of a pass, so that each pass sees a small table whole
)

// pass reads the pages of one pass. page reads at most [sweepRows] rows behind an id. It returns their number and the
// last id. newest returns the highest id of the table, which stands for the size of the table.
func (o *rotation) pass(ctx context.Context, r *Retention, newest *query,
	page func(after int64) (rows int, last int64, err error),
) error {
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
		if rows < sweepRows { // the table ends here
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

// A log is cut again while readers come and go: so often, and for so long.
const (
	emptied    = 50
	emptiedFor = 20 * time.Second
)

// Empty copies the write-ahead log into the database, and gives the bytes of its file back. A reader that stays for
// long, such as a backup, makes it fail.
func (c *Checkpoints) Empty(ctx context.Context) error {
	return c.again(ctx, true)
}

// again cuts the log, and tries again while somebody reads it.
func (c *Checkpoints) again(ctx context.Context, giveBack bool) error {
	until := time.Now().Add(emptiedFor)
	for i := 0; i < emptied && time.Now().Before(until); i++ {
		wait := c.store.wal.paused()
		if i > 0 {
			wait = max(wait, c.opts.Every)
		}
		if wait > 0 {
			if err := rest(ctx, wait); err != nil {
				return err
			}
		}
		cut, err := c.cut(ctx, giveBack)
		if err != nil || cut {
			return err
		}
	}
	return corebot.WithHint(fmt.Errorf("the write-ahead log keeps deleted text: somebody reads the database for long"),
		"do it again when no backup and no check runs")
}
