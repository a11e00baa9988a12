package app

import (
	"context"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

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

// UsageToday is what was used since the day began.
type UsageToday struct {
	Day      string `json:"day"`
	Currency string `json:"currency"`
	corebot.Use
}

func readUsage(ctx context.Context, db *storage.DB, a corebot.Accounting) (UsageToday, error) {
	day := a.Day(time.Now())
	u, err := storage.NewBooks(db).Use(ctx, corebot.UseFilter{From: day, To: day})
	return UsageToday{Day: day, Currency: a.Currency, Use: u}, err
}

// The operations on what is used, and on what waits for it.
const (
	OpModel   = "chats.model"
	OpRelease = "parked.release"
	OpUnpark  = "parked.drop"
)

// ModelChange has a chat's session ask for a model, or with "" for the configured one.
type ModelChange struct {
	Key   corebot.Key `json:"key"`
	Model string      `json:"model"`
}

// Lives names messages by their life rows.
type Lives struct {
	IDs []int64 `json:"ids"`
}

// usageOperations adds the changes that concern usage to those of [storeOperations].
func usageOperations(db *storage.DB, into control.Operations) {
	chats, lot := storage.NewChats(db), storage.NewLot(db)
	into[OpModel] = control.Typed(func(ctx context.Context, m ModelChange) (operate.Done, error) {
		return operate.Done{Changed: 1}, chats.SetModel(ctx, m.Key, m.Model)
	})
	into[OpRelease] = control.Typed(func(ctx context.Context, l Lives) (operate.Done, error) {
		return each(l.IDs, func(id int64) error { return lot.Release(ctx, id) })
	})
	into[OpUnpark] = control.Typed(func(ctx context.Context, l Lives) (operate.Done, error) {
		return each(l.IDs, func(id int64) error { return lot.Drop(ctx, id) })
	})
}
