package app

import (
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
)

func TestAnAgentHasTheQueueModeAndTheCapOfItsEntry(t *testing.T) {
	c := config.Defaults()
	c.Bus.QueueMode = string(corebot.ModeSteer)
	c.Agents = config.NewEntries(
		config.AgentEntry{ID: "main"},
		config.AgentEntry{
			ID: "helper", QueueMode: string(corebot.ModeInterrupt), Budget: config.AgentBudget{DailyTokens: 1000},
		},
	)
	q := queueing(c)
	if main, helper := q.Of("main"), q.Of("helper"); main != corebot.ModeSteer || helper != corebot.ModeInterrupt {
		t.Errorf("main waits by %q, the helper by %q", main, helper)
	}
	s, err := (&App{config: c}).spending()
	if err != nil || len(s.Agents) != 1 || s.Agents["helper"] != (corebot.Cap{Tokens: 1000}) {
		t.Errorf("the caps of agents are %+v, %v", s.Agents, err)
	}
}
