package app

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/lifecycle"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

// upkeep is what keeps the store within its bounds, and copies of it.
type upkeep struct {
	space       *storage.Space
	checkpoints *storage.Checkpoints
	retention   *storage.Retention
	search      *storage.SearchIndex
	backups     *backup.Keeper
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
	a.upkeep.retention, err = storage.NewRetention(a.Store, storage.RetentionOptions{
		Messages: c.Retention.Messages, Dedupe: c.Bus.DedupeTTL, Audit: c.Retention.Audit, Mailbox: c.Webhook.Retention,
		Usage: c.Retention.Usage, Versions: c.Retention.Versions,
		History: c.Retention.History, HistoryEntries: c.Retention.HistoryEntries, HasFiles: hasFiles(c.Home),
		Log: a.log, Metrics: r,
	})
	return err
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

// services are in the order of starting: the disk is looked at before anything comes in.
func (u upkeep) services() []lifecycle.Service {
	return []lifecycle.Service{
		{Name: "disk", Run: u.space.Run},
		{Name: "checkpoints", Run: u.checkpoints.Run},
		{Name: "retention", Run: u.retention.Run},
		{Name: "search index", Run: u.search.Run},
		{Name: "backups", Run: u.backups.Run},
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
