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
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/observability"
	"github.com/corebot/corebot/storage"
)

// Status is what /status and `corebot status` show.
type Status struct {
	Version          string                 `json:"version,omitempty"`
	Model            string                 `json:"model,omitempty"`
	Models           []chain.ModelState     `json:"models,omitempty"` // that may be asked, in order; a running Corebot knows them
	Since            time.Time              `json:"since,omitzero"`
	Chats            int64                  `json:"chats"`
	Queue            map[string]QueueStatus `json:"queue"`
	DeadLetters      map[string]int64       `json:"deadLetters"`
	OldestUnanswered time.Time              `json:"oldestUnanswered,omitzero"`
	ApprovalsWaiting int64                  `json:"approvalsWaiting,omitempty"` // calls of tools that wait for an admin's word
	Parked           map[string]int64       `json:"parked,omitempty"`           // messages that left their lanes for a time, by reason
	SetAside         []SetAside             `json:"setAside,omitempty"`         // chats whose next message cannot be read
	Unread           map[string]string      `json:"unread,omitempty"`           // figures that a damaged page keeps from being read, and why
	UsageToday       UsageToday             `json:"usageToday"`
	MCP              *mcp.Overview          `json:"mcp,omitempty"`    // a running Corebot knows it; of the first agent
	Agents           []AgentStatus          `json:"agents,omitempty"` // a running Corebot knows them
	// Degraded is what is wrong although messages are accepted and answered; a running Corebot knows it.
	Degraded []observability.Degradation `json:"degraded,omitempty"`
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
		all = append(all, AgentStatus{ID: u.entry.ID, Name: u.name(), Model: model, MCP: u.servers.Overview(), Wrong: u.notes.wrong()})
	}
	return all
}

// QueueStatus are the figures of one pool.
type QueueStatus struct {
	Messages int64 `json:"messages"`
	Lanes    int64 `json:"lanes"`
	Running  int64 `json:"running"`
	Waiting  int64 `json:"waiting"`
}

// SetAside is a lane that waits because the message at its head cannot be read from the database, or a parked message that cannot.
type SetAside struct {
	Lane  int64     `json:"lane,omitempty"`
	Life  int64     `json:"life,omitempty"` // of a parked message
	Chat  string    `json:"chat"`
	Pool  string    `json:"pool,omitempty"`
	Since time.Time `json:"since,omitzero"` // a running Corebot knows it
	Until time.Time `json:"until"`          // when it is tried again
	Error string    `json:"error,omitempty"`
}

func setAside(all []storage.Aside) (out []SetAside) {
	for _, a := range all {
		s := SetAside{Lane: a.Lane, Chat: a.Key.String(), Pool: string(a.Pool), Since: a.Since, Until: a.Until, Error: a.Error}
		if a.Lane < 0 {
			s.Lane, s.Life = 0, -a.Lane
		}
		out = append(out, s)
	}
	return out
}

// ReadStatus reads the figures of a database, beside a running daemon too.
func ReadStatus(ctx context.Context, db *storage.DB, a corebot.Accounting) (Status, error) {
	s, err := storage.NewQueue(db).Stats(ctx)
	if err != nil {
		return Status{}, err
	}
	used, err := readUsage(ctx, db, a)
	if err != nil {
		return Status{}, err
	}
	out := Status{
		ApprovalsWaiting: s.Awaited, Parked: s.Parked, SetAside: setAside(s.Aside), Unread: s.Unread, UsageToday: used,
		Chats: s.Chats, OldestUnanswered: s.OldestUnanswered, Queue: map[string]QueueStatus{},
		DeadLetters: map[string]int64{corebot.Inbound.String(): s.DeadLetters[corebot.Inbound], corebot.Outbound.String(): s.DeadLetters[corebot.Outbound]},
	}
	for pool, p := range s.Pools {
		out.Queue[string(pool)] = QueueStatus{Messages: p.Depth, Lanes: p.Lanes, Running: p.Leased, Waiting: p.Waiting}
	}
	return out, nil
}

func (a *App) observe(g prometheus.Gatherer) (*observability.Server, error) {
	return observability.NewServer(observability.Options{
		Addr: a.config.Observability.Addr, Token: a.config.Observability.Token.Reveal(), AllowedHosts: a.config.Observability.AllowedHosts.Values(), Gather: g, Log: a.log,
		Ready: a.notReady, Degraded: a.degraded,
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
func (a *App) statusNow(ctx context.Context) (Status, error) {
	s, err := ReadStatus(ctx, a.Store, a.accounting)
	if err != nil {
		return s, err
	}
	s.Version, s.Model, s.Models, s.Since = a.version, a.ModelName(), a.models.states(), a.since
	servers := a.agents.first().servers.Overview()
	s.MCP = &servers
	s.Agents = a.agentStatus()
	s.Degraded = a.degraded.Now(ctx)
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
	if err := a.Store.Ready(ctx); err != nil {
		lines := strings.Split(err.Error(), "\n") // joined errors stand on lines of their own
		if hint := corebot.HintOf(err); hint != "" {
			lines = append(lines, "hint: "+hint)
		}
		return lines
	}
	if low := a.upkeep.space.Low(); low != "" {
		return []string{low}
	}
	return nil
}
