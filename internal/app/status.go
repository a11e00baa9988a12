package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/chain"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/watchdog"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/observability"
	"github.com/corebot/corebot/observability/slo"
	"github.com/corebot/corebot/storage"
)

// Status is what /status and `corebot status` show.
type Status struct {
	Version string             `json:"version,omitempty"`
	Model   string             `json:"model,omitempty"`
	Models  []chain.ModelState `json:"models,omitempty"` // that may be asked, in order; a running Corebot knows them
	Since   time.Time          `json:"since,omitzero"`
	operate.Status
	// Channels are the accounts that a running Corebot serves.
	Channels []operate.ChannelAccount `json:"channels,omitempty"`

	MCP    *mcp.Overview `json:"mcp,omitempty"`    // a running Corebot knows it; of the first agent
	Agents []AgentStatus `json:"agents,omitempty"` // a running Corebot knows them
	// Degraded is what is wrong although messages are accepted and answered; a running Corebot knows it.
	Degraded []observability.Degradation `json:"degraded,omitempty"`
	// Stuck are the parts that stand still; a running Corebot knows them.
	Stuck []watchdog.Stuck `json:"stuck,omitempty"`
	// Objectives are the service level objectives, as of the last minute.
	Objectives []slo.Standing `json:"objectives,omitempty"`
}

// AgentStatus is what one agent is made of at the moment.
type AgentStatus struct {
	ID    string       `json:"id"`
	Name  string       `json:"name"`
	Model string       `json:"model"`
	MCP   mcp.Overview `json:"mcp"`
	Wrong string       `json:"wrong,omitempty"` // what its prompts are without
}

// agentStatus says how the agents of this process are doing.
func (a *App) agentStatus() (all []AgentStatus) {
	for _, u := range a.agents.order {
		_, model := a.describe(u.entry.ID)
		all = append(all, AgentStatus{
			ID: u.entry.ID, Name: u.name(), Model: model, MCP: u.servers.Overview(),
			Wrong: u.notes.wrong(),
		})
	}
	return all
}

func setAside(all []storage.Aside) (out []operate.SetAside) {
	for _, a := range all {
		s := operate.SetAside{
			Lane: a.Lane, Chat: a.Key.String(), Pool: string(a.Pool), Since: a.Since, Until: a.Until,
			Error: a.Error,
		}
		if a.Lane < 0 {
			s.Lane, s.Life = 0, -a.Lane
		}
		out = append(out, s)
	}
	return out
}

// figures implements [operate.Figures] on a database.
type figures struct {
	db         *storage.DB
	accounting func() corebot.Accounting
}

// Status reads the figures.
func (f figures) Status(ctx context.Context) (operate.Status, error) {
	s, err := storage.NewQueue(f.db).Stats(ctx)
	if err != nil {
		return operate.Status{}, err
	}
	a := f.accounting()
	day := a.Day(time.Now())
	used, err := storage.NewBooks(f.db).Use(ctx, corebot.UsageFilter{From: day, To: day})
	if err != nil {
		return operate.Status{}, err
	}
	out := operate.Status{
		ApprovalsWaiting: s.Awaited, Deferred: s.Deferred, SetAside: setAside(s.Aside), Unread: s.Unread,
		UsageToday: operate.UsageToday{Day: day, Currency: a.Currency, UsageTotals: used},
		Chats:      s.Chats, OldestUnanswered: s.OldestUnanswered, Queue: map[string]operate.QueueStatus{},
		DeadLetters: map[string]int64{
			corebot.Inbound.String():  s.DeadLetters[corebot.Inbound],
			corebot.Outbound.String(): s.DeadLetters[corebot.Outbound],
		},
	}
	for pool, p := range s.Pools {
		out.Queue[string(pool)] = operate.QueueStatus{
			Messages: p.Depth, Lanes: p.Lanes, Running: p.Leased,
			Waiting: p.Waiting,
		}
	}
	return out, nil
}

func (a *App) observe(g prometheus.Gatherer) (*observability.Server, error) {
	return observability.NewServer(observability.Options{
		Addr: a.config.Observability.Addr, Token: a.config.Observability.Token.Reveal(),
		AllowedHosts: a.config.Observability.AllowedHosts.Values(), Gather: g, Log: a.log,
		Exemplars: a.tracer != nil,
		Ready:     a.notReady, Degraded: a.degraded,
		Status: func(ctx context.Context) (any, error) {
			s, err := a.statusNow(ctx)
			if err != nil {
				return nil, err
			}
			text, err := json.Marshal(s)
			return json.RawMessage(a.redactor.Text(string(text))), err
		},
	})
}

// statusNow has what only a running Corebot knows, too.
func (a *App) statusNow(ctx context.Context) (s Status, err error) {
	if s.Status, err = a.service.Status(ctx, struct{}{}); err != nil {
		return s, err
	}
	s.Version, s.Model, s.Models, s.Since = a.version, a.ModelName(), a.models.Load().states(), a.since
	servers := a.agents.first().servers.Overview()
	s.MCP = &servers
	s.Agents = a.agentStatus()
	if s.Channels, err = (running{a}).Channels(ctx); err != nil {
		return s, err
	}
	s.Degraded, s.Stuck, s.Objectives = a.degraded.Now(ctx), a.watchdog.Stuck(), a.objectives.Standings()
	return s, nil
}

// damagedLanes says which chats are set aside.
func (a *App) damagedLanes(context.Context) string {
	var chats []string
	for _, l := range a.Store.SetAside() {
		chats = append(chats, l.Key.String())
	}
	const named = 5
	if more := len(chats) - named; more > 0 {
		chats = append(chats[:named], fmt.Sprintf("%d more", more))
	}
	return strings.Join(chats, ", ")
}

// notReady gives the reasons why messages cannot be accepted or answered now.
func (a *App) notReady(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if why := a.stopping.Load(); why != nil {
		return []string{*why}
	}
	lines := a.stuckLines()
	if err := a.Store.Ready(ctx); err != nil {
		lines = append(lines, strings.Split(err.Error(), "\n")...) // joined errors stand on lines of their own
		if hint := corebot.HintOf(err); hint != "" {
			lines = append(lines, "hint: "+hint)
		}
		return lines
	}
	if low := a.upkeep.space.Low(); low != "" {
		lines = append(lines, low)
	}
	return lines
}
