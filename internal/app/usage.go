package app

import (
	"github.com/corebot/corebot"
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
