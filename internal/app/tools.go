package app

import (
	"cmp"
	"context"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// maxRedirects is how many redirects web.fetch follows.
const maxRedirects = 5

// webTools are web.fetch, and web.search if a search engine is configured. With settings of the search engine that are
// wrong it returns web.fetch and the error.
func webTools(w config.Web, docs builtin.Documents, find func(string) (tools.Tool, bool)) ([]tools.Tool, error) {
	targets, err := w.Targets()
	if err != nil {
		return nil, err
	}
	limits := egress.Options{Timeout: w.Timeout, MaxBody: w.MaxBodyBytes, Redirects: maxRedirects}
	client, err := egress.New(targets, limits)
	if err != nil {
		return nil, err
	}
	all := []tools.Tool{builtin.WebFetch(client, w.Timeout, docs)}
	if w.SearchEngine() == "mcp" {
		return append(all, builtin.WebSearchBy(w.SearchTool, find, w.Timeout)), nil
	}
	engine, err := searchEngine(w)
	if engine != nil {
		all = append(all, builtin.WebSearch(engine, w.Timeout))
	}
	return all, err
}

// searchEngine is nil if none is configured.
func searchEngine(w config.Web) (builtin.SearchEngine, error) {
	limits := egress.Options{Timeout: w.Timeout, MaxBody: w.MaxBodyBytes}
	switch w.SearchEngine() {
	case "brave":
		return orNone(builtin.NewBrave(w.BraveKey.Reveal(), limits))
	case "searxng":
		return orNone(builtin.NewSearXNG(w.SearXNGURL, limits))
	}
	return nil, nil
}

// orNone returns no engine with an error: a nil pointer in the interface would count as an engine.
func orNone[E builtin.SearchEngine](engine E, err error) (builtin.SearchEngine, error) {
	if err != nil {
		return nil, err
	}
	return engine, nil
}

const (
	searchHint = "set tools.web.searxng_url to the address of a SearXNG, which needs no key, or tools.web.brave_key " +
		"to a key of Brave: see docs/search.md"
	// noEngine answers a model that calls web.search although no search engine is configured.
	noEngine = "no search engine is set. An operator can " + searchHint
)

// searchTime is how long `corebot doctor` waits for a search engine.
const searchTime = 10 * time.Second

// checkWeb says who answers web.search. It sends SearXNG a query. It sends Brave none, since Brave bills each query.
func checkWeb(ctx context.Context, w config.Web) []Finding {
	var findings []Finding
	if err := egress.CheckLocal(); err != nil {
		findings = append(findings, fail("web.fetch", err))
	}
	if len(w.AllowPrivate.Values()) > 0 {
		findings = append(findings, warn("keep tools.web.allow_private as narrow as it can be",
			"web.fetch may reach private addresses, for whoever talks to Corebot and for each page that it reads: %s",
			w.AllowPrivate))
	}
	engine, err := searchEngine(w)
	switch which := w.SearchEngine(); {
	case err != nil:
		return append(findings, fail("web.search", err))
	case which == "mcp":
		return append(findings, ok("web.search asks the tool %s of an MCP server", w.SearchTool))
	case engine == nil:
		notOffered := ok("web.search is not offered: no search engine is set")
		notOffered.Hint = searchHint
		return append(findings, notOffered)
	case which == "brave":
		return append(findings, ok("web.search asks Brave"))
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	if _, err := engine.Search(ctx, "corebot", 1); err != nil {
		return append(findings, fail("web.search", err))
	}
	return append(findings, ok("web.search asks SearXNG, which answers"))
}

// chatTools are the tools of an agent for history, messages, tasks and other agents.
func (a *App) chatTools(u *agentUnit) []tools.Tool {
	all := []tools.Tool{
		builtin.HistorySearch(a.upkeep.vectors), builtin.MemorySummary(storage.NewHistory(a.Store)),
		builtin.MessageSend(a.destinations(), a.config.Bus.MaxMessageBytes),
	}
	all = append(all, builtin.MessageUpload(u.reach(a.disk), a.files))
	if a.config.Memory.Facts {
		all = append(all, builtin.MemoryFacts(recollection{storage.NewFacts(a.Store), a.upkeep.vectors})...)
	}
	tasks := storage.NewTasks(a.Store)
	planner := planner(a.config, a.gate)
	all = append(all, builtin.TasksSchedule(planner), builtin.TasksList(tasks), builtin.TasksUpdate(planner, tasks))
	w := a.config.Waits
	all = append(all, builtin.Waits(builtin.WaitOptions{
		Zone: planner.Default, Longest: w.MaxTime, Limits: corebot.WaitLimits{PerSender: w.PerSender, Total: w.Total},
		Webhook: a.config.Webhook.Enabled,
	})...)
	jobs := builtin.JobOptions{
		Longest: w.MaxTime,
		Limits:  corebot.WaitLimits{PerSender: a.config.Jobs.PerSender, Total: a.config.Jobs.Total},
	}
	all = append(all, builtin.AgentRun(jobs))
	if peers := a.peers(); len(peers) > 1 { // the first is this agent itself
		all = append(all, builtin.AgentList(peers), builtin.AgentSend(peers, a.config.Bus.MaxMessageBytes, jobs))
	}
	return all
}

// planner makes what parses schedules and applies the limits of tasks, for tools and commands.
func planner(c config.Config, gate scheduler.Gate) scheduler.Planner {
	t := c.Tasks
	return scheduler.Planner{
		Gate:    gate,
		Default: cmp.Or(t.TimeZone, scheduler.LocalZone()),
		Most:    corebot.TaskLimits{PerChat: t.PerChat, PerCreator: t.PerSender, Total: t.Total},
	}
}

// peers are the agents that can ask one another: all agents of the settings, this one too. If another process runs an
// agent, a message to that agent waits until that process takes it.
func (a *App) peers() (all []builtin.Peer) {
	for _, entry := range a.config.AgentList() {
		all = append(all, builtin.Peer{ID: entry.ID, Name: entry.Name})
	}
	return all
}
