package backup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
)

// Options of a [Keeper].
type Options struct {
	Dir   string        // of the backups
	Every time.Duration // between two backups; 0: they are made on request only
	Keep  int           // how many backups in Dir are kept, at least one
	// Note tells the audit that a backup was made. Nil: nobody is told.
	Note    func(ctx context.Context, path string, m Manifest, scheduled bool) error
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: the metrics are kept and not exported
}

// Made is a backup that was just made.
type Made struct {
	Path string `json:"path"`
	Manifest
	Seconds float64  `json:"seconds"`
	Removed []string `json:"removed"` // old backups that made room
}

// Keeper makes the backups of a home, one at a time.
type Keeper struct {
	home    Home
	opts    Options
	busy    chan struct{} // has a value while a backup is made
	made    chan struct{} // signals that a backup was made; holds one signal
	results *prometheus.CounterVec

	mu      sync.Mutex // guards the fields below
	last    Manifest   // of the newest backup in Dir; zero: there is none
	took    time.Duration
	failure string // why the last scheduled backup failed; empty: it did not
}

// NewKeeper looks for the newest backup. It starts nothing.
func NewKeeper(ctx context.Context, h Home, o Options) (*Keeper, error) {
	if o.Every < 0 || o.Dir == "" {
		return nil, fmt.Errorf("%w: backups every %v in %q", corebot.ErrInvalid, o.Every, o.Dir)
	}
	k := &Keeper{
		home: h, opts: o, busy: make(chan struct{}, 1), made: make(chan struct{}, 1),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_backups_total", Help: "Backups in the directory of backups, by result: made, failed.",
		}, []string{"result"}),
	}
	if err := Outside(h.Trees, o.Dir); err != nil {
		return nil, fmt.Errorf("the directory of backups: %w", err)
	}
	if err := k.look(ctx); err != nil { // backups can be made all the same, or it is told then why not
		o.Log.Warn().Err(err).Msg("it is not known when the last backup was made")
	}
	return k, k.register(o.Metrics)
}

// look finds the newest backup of the database.
func (k *Keeper) look(ctx context.Context) error {
	id, err := k.home.Database.Identity(ctx)
	if err != nil {
		return err
	}
	all, err := List(k.opts.Dir)
	if err != nil {
		return err
	}
	for _, f := range all {
		if f.Database == id {
			k.last = f.Manifest
			return nil
		}
	}
	return nil
}

// Make makes a backup at a path. An empty path means the directory of backups, where old backups make room.
func (k *Keeper) Make(ctx context.Context, to string) (Made, error) {
	made, err := k.make(ctx, to, false)
	if err == nil && to == "" {
		err = k.prune(&made)
	}
	return made, err
}

func (k *Keeper) make(ctx context.Context, to string, scheduled bool) (made Made, err error) {
	select {
	case k.busy <- struct{}{}:
		defer func() { <-k.busy }()
	default:
		return made, corebot.WithHint(fmt.Errorf("%w: another backup is being made", corebot.ErrConflict),
			"wait until it is done")
	}
	began := time.Now()
	kept := to == ""
	if kept {
		id, err := k.home.Database.Identity(ctx)
		if err != nil {
			return made, err
		}
		to = filepath.Join(k.opts.Dir, NameOf(began, id))
	}
	made = Made{Path: to, Removed: []string{}}
	made.Manifest, err = Make(ctx, k.home, to)
	took := time.Since(began)
	made.Seconds = took.Seconds()
	if kept && ctx.Err() == nil {
		k.count(made.Manifest, took, err)
	}
	if err != nil {
		return made, err
	}
	if k.opts.Note != nil {
		if err := k.opts.Note(ctx, to, made.Manifest, scheduled); err != nil { // the backup is whole all the same
			k.opts.Log.Warn().Err(err).Str("backup", to).Msg("the audit does not name the backup")
		}
	}
	k.opts.Log.Info().Str("backup", to).Int64("files", made.Total.Files).Int64("bytes", made.Total.Bytes).
		Dur("took_ms", took).Msg("a backup was made")
	return made, nil
}

// prune removes old backups from the directory of backups.
func (k *Keeper) prune(made *Made) error {
	removed, err := Prune(k.opts.Dir, made.Database, k.opts.Keep)
	made.Removed = append(made.Removed, removed...)
	if err != nil {
		return fmt.Errorf("%s is made, but old backups stay: %w", made.Path, err)
	}
	return nil
}

// count notes how a backup in the directory of backups ended.
func (k *Keeper) count(m Manifest, took time.Duration, err error) {
	if err != nil {
		k.results.WithLabelValues(failed).Inc()
		return
	}
	k.results.WithLabelValues(succeeded).Inc()
	k.mu.Lock()
	k.last, k.took, k.failure = m, took, ""
	k.mu.Unlock()
	select {
	case k.made <- struct{}{}:
	default: // a signal is pending already
	}
}

// Results of a backup.
const (
	succeeded = "made"
	failed    = "failed"
)

// settle is how long after the start a backup is made that is overdue.
const settle = time.Minute

// retries are the pauses after backups that failed.
var retries = backoff.Policy{Base: time.Minute, Max: 30 * time.Minute}

// Run makes backups on schedule until ctx ends. Between two of them it waits for one timer.
func (k *Keeper) Run(ctx context.Context) error {
	if k.opts.Every == 0 {
		<-ctx.Done()
		return nil
	}
	timer := time.NewTimer(max(k.wait(), min(settle, k.opts.Every)))
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.made: // also by somebody's request
			failures = 0
		case <-timer.C:
			if k.scheduled(ctx) {
				failures = 0
			} else {
				failures++
			}
		}
		pause := k.wait()
		if failures > 0 {
			pause = min(retries.Ceiling(failures), k.opts.Every)
		}
		timer.Reset(pause)
	}
}

// scheduled makes a backup. It says whether the next one waits for its time, and not for a try after a failure.
func (k *Keeper) scheduled(ctx context.Context) bool {
	made, err := k.make(ctx, "", true)
	whole := err == nil
	if whole {
		err = k.prune(&made)
	}
	if ctx.Err() != nil || errors.Is(err, corebot.ErrConflict) { // the other backup may be of another place
		return whole
	}
	k.mu.Lock()
	k.failure = ""
	if err != nil {
		k.failure = err.Error()
	}
	k.mu.Unlock()
	if err != nil {
		k.opts.Log.Error().Err(err).Str("hint", corebot.HintOf(err)).Msg("a scheduled backup failed")
	}
	return whole
}

// wait is how long it is until the next backup is due. A clock that was set back delays it by one period at most.
func (k *Keeper) wait() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.MadeAt.IsZero() {
		return 0
	}
	return min(max(time.Until(k.last.MadeAt.Add(k.opts.Every)), 0), k.opts.Every)
}

// Failing says why the last scheduled backup failed; empty: it did not, or none was tried.
func (k *Keeper) Failing(context.Context) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

func (k *Keeper) register(r prometheus.Registerer) error {
	for _, result := range []string{succeeded, failed} {
		k.results.WithLabelValues(result) // creates the series at zero
	}
	if r == nil {
		return nil
	}
	gauge := func(name, help string, value func() float64) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			k.mu.Lock()
			defer k.mu.Unlock()
			return value()
		}))
	}
	err := errors.Join(r.Register(k.results),
		gauge("corebot_backup_last_success_timestamp_seconds",
			"When the newest backup in the directory of backups was made; 0: there is none.", func() float64 {
				if k.last.MadeAt.IsZero() {
					return 0
				}
				return float64(k.last.MadeAt.UnixMilli()) / 1000
			}),
		gauge("corebot_backup_last_bytes", "Size of the files of that backup.",
			func() float64 { return float64(k.last.Total.Bytes) }),
		gauge("corebot_backup_last_duration_seconds",
			"How long the last backup of this process took; 0: none was made.",
			func() float64 { return k.took.Seconds() }))
	if err != nil {
		return fmt.Errorf("register the metrics of backups: %w", err)
	}
	return nil
}
