package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/internal/lifecycle"
	"github.com/corebot/corebot/storage"
)

// upkeep is what keeps the store within its bounds.
type upkeep struct {
	space       *storage.Space
	checkpoints *storage.Checkpoints
	retention   *storage.Retention
	search      *storage.SearchIndex
}

// makeUpkeep makes it of the settings.
func (a *App) makeUpkeep(r prometheus.Registerer) (err error) {
	c := a.config
	if a.upkeep.space, err = storage.NewSpace(a.Store, storage.SpaceOptions{Floor: c.Storage.DiskFloor, Log: a.log, Metrics: r}); err != nil {
		return err
	}
	if a.upkeep.checkpoints, err = storage.NewCheckpoints(a.Store, storage.CheckpointOptions{Log: a.log, Metrics: r}); err != nil {
		return err
	}
	a.opened("checkpoints", a.upkeep.checkpoints)
	if a.upkeep.search, err = storage.NewSearchIndex(a.Store, storage.SearchIndexOptions{Log: a.log, Metrics: r}); err != nil {
		return err
	}
	a.upkeep.retention, err = storage.NewRetention(a.Store, storage.RetentionOptions{
		Messages: c.Retention.Messages, Dedupe: c.Bus.DedupeTTL, Audit: c.Retention.Audit, Mailbox: c.Webhook.Retention, Usage: c.Retention.Usage,
		History: c.Retention.History, HistoryEntries: c.Retention.HistoryEntries, Log: a.log, Metrics: r,
	})
	return err
}

// services are in the order of starting: the disk is looked at before anything comes in.
func (u upkeep) services() []lifecycle.Service {
	return []lifecycle.Service{
		{Name: "disk", Run: u.space.Run},
		{Name: "checkpoints", Run: u.checkpoints.Run},
		{Name: "retention", Run: u.retention.Run},
		{Name: "search index", Run: u.search.Run},
	}
}
