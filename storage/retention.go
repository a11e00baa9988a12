package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

// RetentionOptions say how long ended records are kept. A time of zero means for ever.
type RetentionOptions struct {
	Messages time.Duration // ended lives with their journals, and lanes without any life; never a dead letter
	Dedupe   time.Duration // how long the id of a message is known at least; Messages must not be shorter
	Audit    time.Duration
	Mailbox  time.Duration
	Usage    time.Duration // the usage of each day
	Versions time.Duration // changes of files that can be undone
	History  time.Duration

	// HasFiles says whether a chat has files of its own. Such a chat is not forgotten. Nil: no chat has files.
	HasFiles func(corebot.Key) bool

	// SweepFiles removes the bytes of files that no row refers to; nil: nothing does.
	SweepFiles func(ctx context.Context) error

	Keeper *corebot.Keeper // chats that keep their history for another time, or not at all; nil: none

	HistoryEntries int // the newest so many entries of a chat are kept, whatever their age; 0: all

	Every   time.Duration // between two passes; 1 h, plus or minus a tenth
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: the metrics are kept and not exported
}

// Retention deletes records that have been over for long enough.
//
// A reader finds the rows along the primary key, and a pass ends where the rows are young. So kept rows cost a pass
// nothing, and no table needs an index of its times. The writer deletes at most [sweepRows] rows of a table in one
// operation. After each operation it is left alone for nine times as long as the operation took. So a pass takes at
// most a tenth of the writer's time.
//
// Retention deletes:
//   - Ended lives, with their steps. Retention keeps dead letters and waiting messages whatever their age. It also
//     keeps the cause of a kept life, and all that an unfinished or dead message has caused or merged. A message whose
//     life is deleted counts as new if it comes again.
//   - Lanes without any life: nobody has used them for as long. If the lane is needed again, it gets a new row with
//     another id, so that no epoch comes twice. Its places continue from the chat's history.
//   - Audit events, replies in mailboxes whether fetched or not, and old history. While a chat is in use, the newest
//     [recentEntries] of its session stay. The history of a chat that was silent for as long is deleted whole.
//   - What a chat keeps for a time of its own, by [corebot.Keeper]: entries, summaries, facts, references to files, and
//     the journals of these messages. Recent entries are no exception there. The same goes for the journals of turns
//     that left no entry, and for the words of ended approvals, waits and jobs.
//   - Changes of files that could be undone.
//   - References of messages to files, once neither the life of the message nor an entry of the history is left. Then
//     SweepFiles removes the bytes that nothing refers to.
//   - Tasks that are done, with their runs. A run whose message waits or is a dead letter keeps its task.
//   - Chats that nothing refers to: without lanes, history, mailbox and files, not registered, without settings, and
//     without roles that hold in them.
//
// Lanes, chats, tasks and references to files are in no order of time. A pass looks at a part of them, and every one is
// looked at within a day ([rotation]).
//
// After the wall clock was set ahead by [farAhead] or more, Retention deletes nothing for [doubt], because the clock
// can be wrong.
//
// The file does not shrink: SQLite uses the freed pages again. [Vacuum] gives them back to the disk. Where a chat has a
// time of its own, free pages, the search index and the write-ahead log are overwritten once a day.
type Retention struct {
	db                           *DB
	opts                         RetentionOptions
	stages                       []stage
	lanes, history, chats, tasks rotation
	ended                        rotation
	attached                     rotation
	swept                        *prometheus.CounterVec
	ran                          prometheus.Gauge
	mu                           sync.Mutex
	told                         int64             // the head of the audit trail in the last log line
	scrubbed                     time.Time         // begin of the overwriting after which only the log is left
	cuts                         CheckpointOptions // how the log is emptied; tests look at it more often
}

// stage sweeps one kind of row. A pass leaves the stage out if its rows are kept for ever.
type stage struct {
	table string
	keep  time.Duration
	sweep func(ctx context.Context, before time.Time) error
}

const (
	sweepRows = 200 // rows of a table in one operation
	restShare = 9   // the rest after an operation, as a multiple of the time that it took
	leastRest = time.Millisecond
)

// NewRetention checks the options; it starts nothing. If ids would be forgotten too early, the error is
// [corebot.ErrInvalid].
func NewRetention(db *DB, o RetentionOptions) (*Retention, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Every = cmp.Or(o.Every, time.Hour)
	r := &Retention{
		db: db, opts: o,
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_retention_rows_total", Help: "Rows that were taken away because they were old enough.",
		}, []string{"table"}),
		ran: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "corebot_retention_last_pass_timestamp_seconds",
			Help: "When the last pass ended that did all tables, as unix time; 0: none of this process has.",
		}),
	}
	r.stages = r.stagesOf(o)
	for _, s := range r.stages {
		r.swept.WithLabelValues(s.table) // creates the series at zero
	}
	if o.Metrics == nil {
		return r, nil
	}
	if err := errors.Join(o.Metrics.Register(r.swept), o.Metrics.Register(r.ran)); err != nil {
		return nil, fmt.Errorf("register the metrics of the retention: %w", err)
	}
	return r, nil
}

// check refuses options by which ids would be forgotten too early.
func (o RetentionOptions) check() error {
	for _, n := range []time.Duration{
		o.Messages, o.Dedupe, o.Audit, o.Mailbox, o.Usage, o.History, o.Versions, o.Every,
		time.Duration(o.HistoryEntries),
	} {
		if n < 0 {
			return fmt.Errorf("%w: a number of the retention is negative: %d", corebot.ErrInvalid, n)
		}
	}
	if o.Messages > 0 && o.Messages < o.Dedupe {
		return fmt.Errorf("%w: messages are kept for %v, and their ids must be known for %v", corebot.ErrInvalid,
			o.Messages, o.Dedupe)
	}
	return nil
}

func (r *Retention) stagesOf(o RetentionOptions) []stage {
	history, strict := o.History, time.Duration(0)
	if o.Keeper.Distinguishes() {
		strict = longAgo
	}
	if o.HistoryEntries > 0 || o.Keeper.Distinguishes() {
		history = cmp.Or(history, longAgo)
	}
	return []stage{
		{"message_life", o.Messages, r.sweepLives},
		{"lanes", o.Messages, r.sweepLanes},
		{"usage_days", o.Usage, r.sweepUsage},
		{"audit_events", o.Audit, r.sweepAudit},
		{"mailbox", o.Mailbox, r.sweepAged(mailboxTable)},
		{"file_versions", o.Versions, r.sweepAged(versionTable)},
		{"history", history, r.sweepHistory},
		{"message_life", strict, r.sweepWords},
		{"attached_files", o.Messages, r.sweepAttached},
		{"tasks", o.Messages, r.sweepTasks},
		{"api_keys", keyedTime, r.sweepKeys},
		{"chats", o.Messages, r.sweepChats}, // last, because the earlier stages can free chats
	}
}

// Prepare gives the function that makes the passes from now on keep to other times, and to another number of entries.
func (r *Retention) Prepare(o RetentionOptions) (apply func(), err error) {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stages, r.opts.HistoryEntries = r.stagesOf(o), o.HistoryEntries
	}, o.check()
}

// now are the stages of a pass that begins.
func (r *Retention) now() []stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stages
}

// entries is how many of the newest entries of a chat are kept; 0: all.
func (r *Retention) entries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opts.HistoryEntries
}

// longAgo is older than anything. With it, only the number of rows counts.
const longAgo = 100 * 365 * 24 * time.Hour

// startup is the time of a new process before its first pass.
const startup = time.Minute

// Run sweeps from time to time until ctx ends. A failed pass is logged, and the next pass makes up for it.
func (r *Retention) Run(ctx context.Context) error {
	for wait := fault.PutOff(startup); rest(ctx, about(wait)) == nil; wait = r.opts.Every {
		if err := r.Sweep(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, corebot.ErrClosed) {
			r.opts.Log.Warn().Err(err).Msg("take away what is old")
		}
	}
	return nil
}

// about varies a time by up to a tenth, so that many Corebots on one machine do not sweep at once.
func about(d time.Duration) time.Duration {
	return d - d/10 + rand.N(max(d/5, 1))
}

// rest sleeps; its error says why it could not.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Sweep makes one pass over every table. A table that fails does not keep the other tables from being swept. While the
// clock is in doubt there is no pass.
func (r *Retention) Sweep(ctx context.Context) error {
	var errs []error
	for _, s := range r.now() {
		if s.keep == 0 {
			continue
		}
		err := s.sweep(ctx, r.db.clock.now().Add(-s.keep))
		if errors.Is(err, errDoubt) {
			return err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", s.table, err))
			continue
		}
	}
	if r.opts.SweepFiles != nil {
		if err := r.opts.SweepFiles(ctx); err != nil {
			errs = append(errs, fmt.Errorf("sweep the files: %w", err))
		}
	}
	if err := r.overwrite(ctx); err != nil {
		errs = append(errs, fmt.Errorf("overwrite what was deleted: %w", err))
	}
	if len(errs) == 0 {
		r.ran.SetToCurrentTime()
	}
	return errors.Join(append(errs, r.tellHead(ctx))...)
}

// drop runs one operation of the writer, counts the deleted rows, and then leaves the writer alone for a while.
func (r *Retention) drop(ctx context.Context, table string, fn func(*tx) (int64, error)) error {
	began, gone := time.Now(), int64(0)
	err := r.db.write(ctx, "sweep", func(t *tx) (err error) {
		if err := undoubtedTx(t); err != nil {
			return err
		}
		gone, err = fn(t)
		return err
	})
	if err != nil {
		return err
	}
	r.swept.WithLabelValues(table).Add(float64(gone))
	return rest(ctx, max(leastRest, restShare*time.Since(began)))
}

// aged is a table whose ids are in the order of its times, unless the clock was set back.
type aged struct {
	name string
	// page lists the rows behind an id in the order of ids: the id, the time of creation, and whether the row was over
	// before a moment.
	page *query // (before, after id, limit)
	drop *query // (first id, last id, before): deletes the rows between two ids that are over
}

var mailboxTable = aged{
	name: "mailbox",
	page: &query{`SELECT cursor, created_at, created_at < ? FROM mailbox WHERE cursor > ? ORDER BY cursor LIMIT ? + 0`},
	drop: &query{`DELETE FROM mailbox WHERE cursor BETWEEN ? AND ? AND created_at < ?`},
}

// sweepAged sweeps a table whose rows nothing refers to.
func (r *Retention) sweepAged(a aged) func(context.Context, time.Time) error {
	return func(ctx context.Context, before time.Time) error {
		return r.walk(ctx, a, before, func(p page) error {
			return r.drop(ctx, a.name, func(t *tx) (int64, error) { return t.exec(a.drop, p.first, p.last, before) })
		})
	}
}

// page is the part of a table that a walk sees at once.
type page struct {
	rows        int
	first, last int64 // ids of the first and last row that is over, or of the last row of all
	over        int   // rows that are over
	young       bool  // some rows were made after the moment
	old         bool  // some rows were made before the moment
}

// walk goes along a table from its oldest row and passes on each page with rows to delete. It ends at the first page
// where every row is young. Rows of the future say nothing, because they were made under a wrong clock.
func (r *Retention) walk(ctx context.Context, a aged, before time.Time, each func(page) error) error {
	for cursor := int64(0); ; {
		p, next, err := r.look(ctx, a, before, cursor)
		if err != nil {
			return err
		}
		if p.over > 0 {
			if err := each(p); err != nil {
				return err
			}
		}
		if p.rows < sweepRows || p.young && !p.old {
			return nil
		}
		cursor = next
	}
}

// look reads the page behind an id.
func (r *Retention) look(ctx context.Context, a aged, before time.Time, after int64) (p page, last int64, err error) {
	now := r.db.clock.now()
	err = r.db.reader.each(ctx, a.page, func(s scanner) error {
		var id int64
		var at time.Time
		var over bool
		if err := s.Scan(&id, moment{&at}, &over); err != nil {
			return err
		}
		p.rows, last = p.rows+1, id
		p.old = p.old || at.Before(before)
		p.young = p.young || !at.Before(before) && !at.After(now)
		if over {
			if p.over++; p.over == 1 {
				p.first = id
			}
			p.last = id
		}
		return nil
	}, before, after, sweepRows)
	return p, last, err
}
