package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// agentUnit is one agent with everything that is its own. It has a workspace with pages, memory and skills, the tools
// over that workspace, the MCP servers, and the model loop. No part of a unit knows that there are other agents.
//
// The units of a process share the store, the queue and the models with their breakers. Rows of a chat are stored under
// the chat's key, which names the agent.
type agentUnit struct {
	entry   config.AgentEntry
	place   place
	policy  *policy.Policy
	notes   *notes
	servers *mcp.Manager
	box     *tools.Box
	// changes of files, for /undo; nil: none are kept
	versions *tools.Versions
	mind     atomic.Pointer[mind]
}

// mind is what answers for an agent. A reload puts another one in its place; a turn ends with the mind that began it.
type mind struct {
	models choice // of the providers of the agent
	brain  *agent.Agent
}

// rulesOf is the policy of the process with the tools that an agent has.
func rulesOf(entry config.AgentEntry, c config.Config) (*policy.Policy, error) {
	o, err := policyOptions(c)
	if err != nil {
		return nil, err
	}
	o.Agent = policy.AgentTools{Allow: entry.Tools.Allow.Values(), Deny: entry.Tools.Deny.Values()}
	p, err := policy.New(o)
	if err != nil {
		return nil, fmt.Errorf("tools.grants: %w", err)
	}
	return p, nil
}

// reach is what the tools of the agent reach.
func (u *agentUnit) reach(d *roots.Disk) *roots.Reach { return roots.NewReach(u.notes.root, d) }

// versions keep the changes of files of all agents.
func (a *App) versions() *storage.Versions {
	t := a.config.Tools
	return storage.NewVersions(a.Store, corebot.VersionLimits{PerChat: t.Versions, Bytes: t.VersionsBytes})
}

// Revert implements [router.Reverter]: what it changes is on the sender's account, as what his turns change.
func (a agents) Revert(ctx context.Context, d corebot.Delivery, all []corebot.FileVersion) (done []string, err error) {
	u := a.all[d.Message.Key.Agent]
	if u == nil || u.versions == nil {
		return nil, fmt.Errorf("%w: the agent of this chat keeps no changes", corebot.ErrInvalid)
	}
	err = a.senders.Use(ctx, d.Caller(), true, func(ctx context.Context) (err error) {
		done, err = u.versions.Revert(ctx, all)
		return err
	})
	return done, err
}

// name is what people call the agent.
func (u *agentUnit) name() string {
	if u.entry.Name != "" {
		return u.entry.Name
	}
	return u.entry.ID
}

// makeAgents makes the agents of the settings, or the one that this process is for.
func (a *App) makeAgents(r prometheus.Registerer) error {
	a.agents = agents{all: map[string]*agentUnit{}, books: storage.NewBooks(a.Store), log: a.log}
	list, err := openRoots(a.config)
	if err != nil {
		return err
	}
	a.disk = roots.NewDisk(list, closedPaths(a.config)...)
	a.opened("directories of tools.roots", a.disk)
	a.senders = tools.NewSenderFiles(storage.NewFileCharges(a.Store), storage.NewGrants(a.Store),
		senderQuota(a.config.Tools), a.log)
	a.agents.senders = a.senders
	for _, entry := range a.config.AgentList() {
		a.agents.configured = append(a.agents.configured, entry.ID)
		if a.only != "" && entry.ID != a.only {
			continue
		}
		u, err := a.makeAgent(entry, prometheus.WrapRegistererWith(prometheus.Labels{"agent": entry.ID}, r))
		if err != nil && a.config.Agents != (config.Entries[config.AgentEntry]{}) {
			err = fmt.Errorf("the agent %s: %w", entry.ID, err)
		}
		if err != nil {
			return err
		}
		a.agents.all[entry.ID] = u
		a.agents.order = append(a.agents.order, u)
	}
	if err := a.agents.apart(); err != nil {
		return err
	}
	if len(a.agents.order) == 0 {
		return corebot.WithHint(fmt.Errorf("the agent %q: %w", a.only, corebot.ErrNotFound),
			"there are: "+strings.Join(a.agents.configured, ", "))
	}
	return nil
}

func (a *App) makeAgent(entry config.AgentEntry, r prometheus.Registerer) (u *agentUnit, err error) {
	u = &agentUnit{entry: entry, place: place{a.config.Home, entry.ID}}
	if u.policy, err = rulesOf(entry, a.config); err != nil {
		return nil, err
	}
	if u.notes, err = openWorkspace(u.place, chatQuota(a.config.Tools), storage.NewChats(a.Store), a.log); err != nil {
		return nil, err
	}
	a.opened("workspace", u.notes.root)
	u.notes.memory.FindBy(a.upkeep.vectors)
	if err := a.makeTools(u, r); err != nil {
		return nil, err
	}
	models, err := a.models.Load().of(entry)
	if err != nil {
		return nil, err
	}
	brain, err := a.brain(u, models, r)
	u.mind.Store(&mind{models, brain})
	return u, err
}

// routing names the agent that answers in a chat.
func (a *App) routing() corebot.Routing { return a.config.Routing() }

// agentIDs are the agents whose messages are accepted: all of the settings. A message of one that another process is
// for waits for it.
func (a *App) agentIDs() []string { return a.agents.configured }

// describe says for /status who answers in a chat.
func (a *App) describe(agent string) (name, model string) {
	u := a.agents.all[agent]
	if u == nil {
		return agent, ""
	}
	model = u.mind.Load().models.describe()
	if u.entry.Model != "" {
		model = u.entry.Model
	}
	if len(a.agents.configured) > 1 {
		name = u.name()
	}
	return name, model
}

// agents are the agents that this process runs. They are the router's one agent: each turn is done by the agent that
// the key of its chat names.
type agents struct {
	all        map[string]*agentUnit
	order      []*agentUnit // as the settings list them
	configured []string     // ids of all in the settings, those of other processes too
	books      *storage.Books
	log        zerolog.Logger
	senders    *tools.SenderFiles // nil: nobody has a limit
}

// elsewhere is how long a message waits before it is looked at again, where its agent runs in another process.
const elsewhere = time.Minute

// Turn implements [router.Agent].
func (a agents) Turn(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
	id := d.Message.Key.Agent
	if u := a.all[id]; u != nil {
		return u.mind.Load().brain.Turn(ctx, d)
	}
	for _, known := range a.configured {
		if known == id {
			return corebot.Result{}, &corebot.Failure{
				Class: corebot.Cancelled, RetryAfter: elsewhere,
				Err: fmt.Errorf("the agent %s does not run in this process", id),
			}
		}
	}
	plain := corebot.FaultNoAgent.Say(id)
	err := corebot.WithHint(fmt.Errorf("there is no agent %q: %w", id, corebot.ErrNotFound),
		"add it to agents, then replay the dead letter")
	return corebot.Result{}, &corebot.Failure{
		Class: corebot.Permanent,
		Err:   &corebot.Explanation{Err: err, Plain: plain},
	}
}

// Context implements [router.Contexts].
func (a agents) Context(ctx context.Context, k corebot.Key, p corebot.Principal) (corebot.ContextUse, error) {
	u := a.all[k.Agent]
	if u == nil {
		return corebot.ContextUse{}, corebot.WithHint(unknownAgent(k.Agent), "its process knows what it would ask")
	}
	use, err := u.mind.Load().brain.Context(ctx, k, p)
	if err != nil {
		return use, err
	}
	use.Spent, err = a.books.OfSession(ctx, k)
	return use, err
}

// apart refuses two agents of which one reaches the workspace of the other, by a link: what is in a workspace is its
// agent's alone.
func (a agents) apart() error {
	for _, u := range a.order {
		for _, other := range a.order {
			if u == other {
				continue
			}
			if err := apart(u.place.workspace(), other.place.workspace()); err != nil {
				return corebot.WithHint(err, "give each agent a workspace of its own")
			}
		}
	}
	return nil
}

// first is the agent that is meant where none is named.
func (a agents) first() *agentUnit {
	if u := a.all[corebot.DefaultAgent]; u != nil {
		return u
	}
	return a.order[0]
}

// named is an agent by its id; empty is the first.
func (a agents) named(id string) (*agentUnit, error) {
	if id == "" {
		return a.first(), nil
	}
	if u := a.all[id]; u != nil {
		return u, nil
	}
	return nil, corebot.WithHint(unknownAgent(id), "`corebot agents list` shows which there are")
}

func unknownAgent(id string) error { return fmt.Errorf("the agent %q: %w", id, corebot.ErrNotFound) }

// wrong says what prompts are without, in one line; empty: nothing.
func (a agents) wrong(context.Context) string {
	return a.each(func(u *agentUnit) string { return u.notes.wrong() })
}

// unanswered says which agents no model answers, of those that each of them may ask; empty: none.
func (a *App) unanswered(ctx context.Context) string {
	all := a.models.Load()
	return a.agents.each(func(u *agentUnit) string {
		own, err := all.of(u.entry)
		if err != nil {
			return err.Error()
		}
		return own.failing(ctx)
	})
}

// each joins what is to say of agents in one line.
func (a agents) each(say func(*agentUnit) string) string {
	var all []string
	for _, u := range a.order {
		if what := say(u); what != "" {
			if len(a.order) > 1 {
				what = "agent " + u.entry.ID + ": " + what
			}
			all = append(all, what)
		}
	}
	return strings.Join(all, "; ")
}

// sweep removes what crashes left in the workspaces.
func (a agents) sweep(context.Context) error {
	for _, u := range a.order {
		u.notes.sweep(a.log)
	}
	return nil
}

// runServers keeps the MCP servers of all agents connected until ctx ends.
func (a agents) runServers(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, len(a.order))
	for i, u := range a.order {
		all.Go(func() { errs[i] = u.servers.Run(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// reloadServers reads the files of MCP servers again.
func (a agents) reloadServers(ctx context.Context) {
	for _, u := range a.order {
		_, _ = u.servers.Reload(ctx) // which logs what is wrong
	}
}

// agentsOf are the agents of the settings, in their order.
func agentsOf(c config.Config) (all []operate.Agent) {
	for _, a := range c.AgentList() {
		p := place{c.Home, a.ID}
		all = append(all, operate.Agent{
			ID: a.ID, Name: cmp.Or(a.Name, a.ID), Workspace: p.workspace(), MCPFile: p.mcpFile(),
			Model: a.Model, Providers: c.LLM.ProvidersOf(a), Think: a.Think,
			Temperature: string(a.Temperature), Tools: a.Tools.Allow.Values(), Denied: a.Tools.Deny.Values(),
			MCP: a.MCP.Values(), Skills: a.Skills.Values(), DailyTokens: a.Budget.DailyTokens,
			DailyCost: a.Budget.DailyCost,
			QueueMode: cmp.Or(a.QueueMode, c.Bus.QueueMode), Routes: routesOf(c, a.ID),
		})
	}
	return all
}

func routesOf(c config.Config, agent string) []string {
	routes := []string{}
	for _, r := range c.Routes.List() {
		if r.Agent != agent {
			continue
		}
		var parts []string
		for _, p := range []struct{ name, value string }{
			{"channel", r.Channel},
			{"account", r.Account},
			{"chat", r.Chat},
		} {
			if p.value != "" {
				parts = append(parts, p.name+" "+p.value)
			}
		}
		routes = append(routes, cmp.Or(strings.Join(parts, ", "), "everything"))
	}
	if agent == c.DefaultAgent() {
		routes = append(routes, "what no route matches")
	}
	return routes
}
