package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/lifecycle"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/watchdog"
	"github.com/corebot/corebot/internal/witness"
	"github.com/corebot/corebot/observability"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

// upkeep is what keeps the store within its bounds, and copies of it.
type upkeep struct {
	space       *storage.Space
	checkpoints *storage.Checkpoints
	retention   *storage.Retention
	search      *storage.SearchIndex
	vectors     *storage.Vectors
	daily       *atomic.Pointer[corebot.Cap] // of all usage together
	backups     *backup.Keeper
	witness     *witness.Publisher
	checker     *witness.Checker
}

// auditKeys makes keys that sign the heads of a home's audit trail.
type auditKeys struct {
	home  string
	trail *storage.Audit
}

// NewKey implements [operate.Witness].
func (k auditKeys) NewKey(ctx context.Context) (string, error) {
	key, err := witness.Make(k.home)
	if err == nil {
		err = k.trail.NoteKey(ctx, key.ID)
	}
	return key.ID, err
}

// inHome is a path of the settings: a relative one begins at the home, and an empty one stays empty.
func inHome(home, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(home, path)
}

// publishing says when and where a process publishes heads: only `corebot serve` does.
func (a *App) publishing(c config.Config) witness.Options {
	o := witness.Options{File: AuditFile(c), URL: c.Audit.URL, Token: c.Audit.Token.Reveal()}
	if a.serves {
		o.Every = c.Audit.PublishEvery
	}
	return o
}

// verifying says how often a process verifies the audit trail: only `corebot serve` does.
func (a *App) verifying(c config.Config) time.Duration {
	if !a.serves {
		return 0
	}
	return c.Audit.VerifyEvery
}

// makeUpkeep makes it of the settings.
func (a *App) makeUpkeep(r prometheus.Registerer) (err error) {
	c := a.config
	if a.upkeep.space, err = storage.NewSpace(a.Store, storage.SpaceOptions{
		Floor: c.Storage.DiskFloor, Log: a.log,
		Metrics: r,
	}); err != nil {
		return err
	}
	if a.upkeep.checkpoints, err = storage.NewCheckpoints(a.Store,
		storage.CheckpointOptions{Log: a.log, Metrics: r}); err != nil {
		return err
	}
	a.opened("checkpoints", a.upkeep.checkpoints)
	if a.upkeep.search, err = storage.NewSearchIndex(a.Store, storage.SearchIndexOptions{
		Log:     a.log,
		Metrics: r,
	}); err != nil {
		return err
	}
	heads := a.publishing(c)
	heads.Log, heads.Metrics = a.log, r
	if a.upkeep.witness, err = witness.New(c.Home, storage.NewAudit(a.Store), heads); err != nil {
		return err
	}
	admins, err := adminChat(c.Admin)
	if err != nil {
		return err
	}
	if a.upkeep.checker, err = witness.NewChecker(storage.NewAudit(a.Store), witness.CheckOptions{
		Every: a.verifying(c), Chat: admins, Log: a.log, Metrics: r,
	}); err != nil {
		return err
	}
	keep := retention(c)
	keep.HasFiles, keep.SweepFiles, keep.Log, keep.Metrics = hasFiles(c.Home), a.files.Sweep, a.log, r
	a.upkeep.retention, err = storage.NewRetention(a.Store, keep)
	return err
}

// retention is how long what is kept, by the settings.
func retention(c config.Config) storage.RetentionOptions {
	return storage.RetentionOptions{
		Messages: c.Retention.Messages, Dedupe: c.Bus.DedupeTTL, Audit: c.Retention.Audit, Mailbox: c.Webhook.Retention,
		Usage: c.Retention.Usage, Versions: c.Retention.Versions,
		History: c.Retention.History, HistoryEntries: c.Retention.HistoryEntries, Keeper: c.Chats.Keeper(),
	}
}

// hasFiles says whether a chat has anything in its folder of the workspace: memory, artifacts, files. They are
// people's, and retention takes none of them.
func hasFiles(home string) func(corebot.Key) bool {
	return func(k corebot.Key) bool {
		dir, err := os.Open(filepath.Join(place{home, k.Agent}.workspace(), filepath.FromSlash(rootfs.ChatDir(k))))
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist) // what cannot be looked at may be there
		}
		defer dir.Close() //nolint:errcheck // only read
		_, err = dir.Readdirnames(1)
		return !errors.Is(err, io.EOF)
	}
}

// keeps gives the function that puts other settings of budgets, retention and published heads in place. All that can
// fail has happened before.
func (u upkeep) keeps(c config.Config, turns *router.Router, heads witness.Options,
	verify time.Duration,
) (apply func(), err error) {
	caps, err := c.Budget.Caps()
	if err != nil {
		return nil, err
	}
	keep, err := u.retention.Prepare(retention(c))
	if err != nil {
		return nil, err
	}
	return func() {
		keep()
		u.daily.Store(&caps.Total)
		u.witness.Set(heads)
		u.checker.Set(verify)
		if turns != nil {
			turns.SetBudget(caps)
		}
	}, nil
}

// services are in the order of starting: the disk is looked at before anything comes in.
func (u upkeep) services() []lifecycle.Service {
	return []lifecycle.Service{
		{Name: "disk", Run: u.space.Run},
		{Name: "checkpoints", Run: u.checkpoints.Run},
		{Name: "retention", Run: u.retention.Run},
		{Name: "search index", Run: u.search.Run},
		{Name: "vectors", Run: u.vectors.Run},
		{Name: "backups", Run: u.backups.Run},
		{Name: "audit heads", Run: u.witness.Run},
		{Name: "audit verification", Run: u.checker.Run},
	}
}

// spending is what the router knows of usage and its caps.
func (a *App) spending() (router.Spending, error) {
	caps, err := a.config.Budget.Caps()
	if err != nil {
		return router.Spending{}, err
	}
	of := map[string]corebot.Cap{}
	for _, entry := range a.config.AgentList() {
		daily, err := entry.DailyCap()
		if err != nil {
			return router.Spending{}, err
		}
		if !daily.None() {
			of[entry.ID] = daily
		}
	}
	return router.Spending{Books: storage.NewBooks(a.Store), Accounting: a.accounting, Budget: caps, Agents: of}, nil
}

// The parts that the watchdog watches, as metrics and /ready name them.
const (
	partWriter    = "writer"
	partRouter    = "router"
	partOutbox    = "outbox"
	partScheduler = "scheduler"
	partChannels  = "channels"
)

// neededToAnswer are the parts without which nothing is accepted or answered.
var neededToAnswer = []string{partWriter, partRouter, partOutbox}

// makeWatchdog watches the parts of a Corebot that answers.
func (a *App) makeWatchdog(r prometheus.Registerer) (err error) {
	own := func(overdue func() string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return overdue(), nil }
	}
	a.watchdog, err = watchdog.New(watchdog.Options{
		After: a.config.Observability.StuckAfter, Log: a.log, Metrics: r,
		Parts: []watchdog.Part{
			{Name: partWriter, Probe: a.probeWriter},
			{Name: partRouter, Needs: partWriter, Probe: a.probeRouter},
			{Name: partOutbox, Needs: partWriter, Probe: a.probeOutbox},
			{Name: partScheduler, Needs: partWriter, Probe: own(a.scheduler.Overdue)},
			{Name: partChannels, Needs: partWriter, Probe: a.channels.Overdue},
		},
	})
	a.degraded.Watch(observability.PartStuck, a.stuckBeside)
	return err
}

// probeWriter waits until the writer has taken an operation. A writer that answers with an error goes on: /ready has
// the error, and a restart would not mend it.
func (a *App) probeWriter(ctx context.Context) (string, error) {
	if err := a.Store.Ping(ctx); err != nil && ctx.Err() != nil {
		return "", errors.New("it has taken no operation")
	}
	return "", nil
}

// probeRouter looks at the workers, and at the queue while a worker waits.
func (a *App) probeRouter(ctx context.Context) (string, error) {
	if mark := a.router.Overdue(); mark != "" || !a.router.Free() {
		return mark, nil
	}
	return a.overdue(ctx, corebot.InboundPool), nil
}

// probeOutbox looks at the workers and at the queues of the kinds that this process serves.
func (a *App) probeOutbox(ctx context.Context) (string, error) {
	mark := a.outbox.Overdue()
	for _, s := range a.channels.Status() {
		mark = cmp.Or(mark, a.overdue(ctx, corebot.OutboundPool(s.Kind)))
	}
	return mark, nil
}

// overdue names the lane that nobody claims. Where the lanes cannot be read, the writer cannot claim them either:
// /ready says so, and a restart would not mend it.
func (a *App) overdue(ctx context.Context, pool corebot.Pool) string {
	mark, err := storage.NewQueue(a.Store).Overdue(ctx, pool)
	if err != nil && ctx.Err() == nil {
		a.log.Debug().Err(err).Str("pool", string(pool)).Msg("the watchdog cannot read the queue")
	}
	return mark
}

// stuckLines tell /ready of the parts that stand still and without which nothing is accepted or answered.
func (a *App) stuckLines() (lines []string) {
	for _, s := range a.watchdog.Stuck() {
		if slices.Contains(neededToAnswer, s.Part) {
			lines = append(lines, fmt.Sprintf("the %s has stood still for %s", s.Part, forSeconds(s.Since)))
		}
	}
	if len(lines) > 0 {
		lines = append(lines, "hint: /status and the log name the work that is left; a restart loses nothing")
	}
	return lines
}

// stuckBeside tells of the parts that stand still while messages are accepted and answered.
func (a *App) stuckBeside(context.Context) string {
	var all []string
	for _, s := range a.watchdog.Stuck() {
		if !slices.Contains(neededToAnswer, s.Part) {
			all = append(all, fmt.Sprintf("the %s for %s: %s", s.Part, forSeconds(s.Since),
				cmp.Or(s.Why, "no answer")))
		}
	}
	return strings.Join(all, "; ")
}

func forSeconds(since time.Time) time.Duration { return time.Since(since).Round(time.Second) }

// tellSystemd tells that Corebot has started, and then that it lives. A Corebot of which a part stands still does not
// say that it lives: systemd starts it anew, and the messages go on where they were.
func (a *App) tellSystemd(ctx context.Context) error {
	if a.systemd == nil {
		<-ctx.Done()
		return nil
	}
	if a.Store.Ping(ctx) != nil && ctx.Err() != nil {
		return nil // it stops before it has started
	}
	a.told(a.systemd.Ready())
	tick := time.NewTicker(cmp.Or(a.systemd.Every(), a.config.Observability.StuckAfter))
	defer tick.Stop()
	for said := ""; ; {
		stuck := a.watchdog.Stuck()
		if len(stuck) == 0 {
			a.told(a.systemd.Alive())
		}
		if now := a.oneLine(stuck); now != said {
			a.told(a.systemd.Status(now))
			said = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// oneLine says how Corebot is doing, without asking the store.
func (a *App) oneLine(stuck []watchdog.Stuck) string {
	var wrong []string
	for _, s := range stuck {
		wrong = append(wrong, "the "+s.Part+" stands still")
	}
	if low := a.upkeep.space.Low(); low != "" {
		wrong = append(wrong, low)
	}
	return cmp.Or(strings.Join(wrong, "; "), "accepts and answers")
}

// told notes that systemd could not be told. It goes on without.
func (a *App) told(err error) {
	if err != nil {
		a.log.Warn().Err(err).Msg("systemd was not told")
	}
}
