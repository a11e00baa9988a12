package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm/chain"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/signedpost"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/observability"
	"github.com/corebot/corebot/observability/slo"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// Every interface and who keeps it.
var (
	_ bus.Store           = (*storage.Queue)(nil)
	_ router.Queue        = (*bus.Bus)(nil)
	_ router.Ledger       = (*storage.Ledger)(nil)
	_ router.Letters      = (*storage.DeadLetters)(nil)
	_ router.Lives        = (*storage.Lives)(nil)
	_ router.Agent        = agents{}
	_ router.Roles        = (*storage.Grants)(nil)
	_ router.Books        = (*storage.Books)(nil)
	_ router.Situations   = (*storage.Chats)(nil)
	_ router.Choices      = (*storage.Chats)(nil)
	_ router.Versions     = (*storage.Versions)(nil)
	_ router.Reverter     = agents{}
	_ tools.VersionStore  = (*storage.Versions)(nil)
	_ router.Pairings     = (*storage.Pairings)(nil)
	_ router.Contexts     = agents{}
	_ channels.Publisher  = (*bus.Bus)(nil)
	_ channels.Controller = (*router.Router)(nil)
	_ channels.Queue      = (*bus.Bus)(nil)
	_ channels.Settler    = (*bus.Bus)(nil)
	_ channels.Committer  = (*storage.Ledger)(nil)
	_ channels.Journal    = (*storage.Ledger)(nil)
	_ channels.Register   = (*storage.Chats)(nil)
	_ channels.Trail      = (*storage.Audit)(nil)
	_ channels.Pairings   = (*storage.Pairings)(nil)
	_ agent.Journal       = (*storage.Ledger)(nil)
	_ agent.History       = (*storage.History)(nil)
	_ agent.Notes         = (*notes)(nil)
	_ agent.Roles         = (*storage.Grants)(nil)
	_ agent.Tools         = toolbox{}
	_ tools.Roles         = (*storage.Grants)(nil)
	_ tools.Approvers     = (*storage.Grants)(nil)
	_ tools.Rules         = (*storage.Approvals)(nil)
	_ router.Approvals    = (*storage.Approvals)(nil)
	_ tools.FileCharges   = (*storage.FileCharges)(nil)
	_ builtin.DeadLetters = (*operate.Service)(nil)
	_ builtin.Runner      = programs{}
	_ builtin.Documents   = pdfWorker{}
	_ builtin.Servers     = reloads{}
	_ mcp.Registry        = (*tools.Registry)(nil)
	_ mcp.Pins            = (*storage.MCPTools)(nil)
	_ mcp.Trail           = (*storage.Audit)(nil)
	_ builtin.Sayings     = (*storage.Vectors)(nil)
	_ builtin.Summaries   = (*storage.History)(nil)
	_ builtin.Facts       = recollection{}
	_ agent.Facts         = knowledge{}
	_ builtin.Tasks       = (*storage.Tasks)(nil)
	_ memory.Sources      = (*storage.Chats)(nil)
	_ router.Tasks        = (*storage.Tasks)(nil)
	_ router.Waits        = (*storage.Waits)(nil)
	_ router.Jobs         = (*storage.Jobs)(nil)
	_ webhook.Words       = (*storage.Waits)(nil)
	_ router.Planner      = scheduler.Planner{}
	_ scheduler.Store     = (*storage.Tasks)(nil)
	_ storage.MailClients = (*channels.Supervisor)(nil)
	_ channels.Mailbox    = (*storage.Mailbox)(nil)
	_ slo.Store           = (*storage.Objectives)(nil)
)

// makeRouter builds what answers: models, agents, router.
func (a *App) makeRouter(ctx context.Context, r prometheus.Registerer) (err error) {
	if a.providers, err = chain.NewMetrics(r); err != nil {
		return err
	}
	chosen, err := chooseModel(ctx, a.config.LLM, a.providers, a.files)
	if err != nil {
		return err
	}
	a.answerWith(chosen)
	if err := a.makeAgents(r); err != nil {
		return err
	}
	a.degraded.Watch(observability.PromptPage, a.agents.wrong)
	a.degraded.Watch(observability.LaneDamaged, a.damagedLanes)
	a.degraded.Watch(observability.ModelFails, a.unanswered)
	rules, err := Rules(a.config)
	if err != nil {
		return err
	}
	spending, err := a.spending()
	if err != nil {
		return err
	}
	admins, err := adminChat(a.config.Admin)
	if err != nil {
		return err
	}
	a.router, err = router.New(router.Parts{
		Queue: a.Bus, Ledger: storage.NewLedger(a.Store), Letters: storage.NewDeadLetters(a.Store),
		Lives:     storage.NewLives(a.Store),
		Approvals: storage.NewApprovals(a.Store), Agent: a.agents, Roles: storage.NewGrants(a.Store), Policy: rules,
	}, router.Options{
		// to the router, zero would mean its default
		Workers: a.config.Router.Workers, Drain: max(a.config.Bus.Drain, time.Nanosecond),
		MaxBytes: a.config.Bus.MaxMessageBytes, Spending: spending, AdminChat: admins, Owner: ownersChannel(),
		Chats: storage.NewChats(a.Store), Waits: storage.NewWaits(a.Store),
		Jobs:  storage.NewJobs(a.Store),
		Tasks: storage.NewTasks(a.Store), Planner: planner(a.config, a.gate), Agents: a.agentIDs(),
		Models: a.modelNames, Choices: storage.NewChats(a.Store), Thinks: a.thinks,
		Pairings: storage.NewPairings(a.Store), Sessions: chatSessions{storage.NewSessions(a.Store), a},
		Links: storage.NewLinks(a.Store), Rooms: rooms{a}, Skills: chatSkills{storage.NewChats(a.Store), a},
		Remembered: remembered{storage.NewFacts(a.Store), a},
		Contexts:   a.agents, Versions: a.versions(), Reverter: a.agents,
		Describe: a.describe, Accounts: a.accountLines, Live: a.Live, Work: &a.work, Log: a.log, Metrics: r,
		Tracer: a.tracer, Redact: a.redactor.Text, Programs: a.programs, Groups: a.isNetwork,
	})
	return err
}

// makeChannels builds the way in and the way out.
func (a *App) makeChannels(ctx context.Context, r prometheus.Registerer) (err error) {
	on := channels.OnAmbiguous(a.config.Channels.OnAmbiguous)
	queue, err := a.reportedQueue()
	if err != nil {
		return err
	}
	if a.outbox, err = channels.NewOutbox(queue, storage.NewLedger(a.Store), on, a.log, r); err != nil {
		return err
	}
	a.outbox.Trace(a.tracer)
	running, err := a.openChannels(ctx, r)
	if err != nil {
		return err
	}
	if err := a.openDoor(r); err != nil {
		return err
	}
	a.outbox.Stream(storage.NewDrafts(a.Store))
	if a.channels, err = channels.NewSupervisor(a.door, a.outbox, a.log, running...); err != nil {
		return err
	}
	a.Store.MailFor(a.channels)
	a.Store.OnStop(a.router.StopJob)
	pools := []corebot.Pool{corebot.InboundPool}
	for _, e := range running {
		if p, is := e.Channel.(channels.Pulled); !is || !p.Pulled() { // nothing of a pulled account waits
			pools = append(pools, corebot.OutboundPool(e.Kind))
		}
	}
	a.Store.KnowPools(pools...)
	if err := r.Register(a.channels); err != nil {
		return fmt.Errorf("register the metrics of channels: %w", err)
	}
	a.degraded.Watch(observability.ChannelFails, a.failingChannels)
	return nil
}

// makeTools gathers an agent's tools under its policy.
func (a *App) makeTools(u *agentUnit, r prometheus.Registerer) error {
	if err := u.notes.openSkills(u.entry.Skills.Values(), a.log); err != nil {
		return err
	}
	runner, err := openRunner(a.config, u.place)
	if err != nil {
		return err
	}
	a.opened("isolation", runner)
	all, err := a.builtins(u, pdfWorker{runner})
	if err != nil {
		return err
	}
	if all, err = a.withWorkers(all, u, runner); err != nil {
		return err
	}
	a.senders.Have(u.entry.ID, u.notes.root)
	charged(all, a.senders)
	registry, err := tools.NewRegistry(all...)
	if err != nil {
		return err
	}
	u.notes.registry = registry
	a.Store.KnowAgents(u.entry.ID)
	dir, err := os.OpenRoot(u.place.workspace())
	if err != nil {
		return fmt.Errorf("open the workspace: %w", err)
	}
	a.opened("files of programs", dir)
	artifacts, err := tools.NewFiles(u.reach(a.disk), dir, a.senders)
	if err != nil {
		return err
	}
	if err := a.openMCP(u, registry, artifacts, r); err != nil {
		return err
	}
	if a.config.Tools.Versions > 0 {
		u.versions = tools.NewVersions(u.reach(a.disk), a.versions())
	}
	u.box, err = tools.NewBox(registry, u.policy, storage.NewGrants(a.Store), tools.Options{
		Approvers: storage.NewGrants(a.Store), Rules: storage.NewApprovals(a.Store), Contents: artifacts,
		Versions: u.versions, Patience: a.config.Approvals.Expiry, AnswerAfter: a.answerAfter,
		Timeout: a.config.Tools.Timeout, MaxOutput: a.config.Tools.MaxOutputBytes, Artifacts: artifacts,
		Redactor: a.redactor, Log: a.log, Metrics: r, Missing: u.missing, Work: &a.work,
	})
	return err
}

// builtins are the tools that work in Corebot's own process, unless isolation.tools names them.
func (a *App) builtins(u *agentUnit, docs builtin.Documents) ([]tools.Tool, error) {
	w := u.notes
	all := append(builtin.Workspace(u.reach(a.disk), w.memory, docs), builtin.SkillsList(w.skills),
		builtin.SkillsRead(w.skills, storage.NewChats(a.Store)), builtin.SkillsEnable(w.skills),
		builtin.SkillsDisable(w.skills), builtin.SkillsEnabled(w.skills, storage.NewChats(a.Store)),
		builtin.DeadLetterList(a.service), builtin.DeadLetterReplay(), builtin.ChatRegister(), builtin.ChatSetRole())
	web, err := webTools(a.config.Tools.Web, docs, u.notes.tool)
	return slices.Concat(all, web, a.chatTools(u), []tools.Tool{builtin.MCPReload(reloads{u})}), err
}

// learnSecrets tells the redactor the secrets of the settings. The redactor takes them out of the log, the audit, the
// results of tools and everything that is shown.
func (a *App) learnSecrets(r *redact.Redactor) (err error) {
	if a.redactor = r; r == nil {
		if a.redactor, err = redact.New(nil); err != nil {
			return err
		}
	}
	return a.redactor.Learn(a.config.Secrets())
}

// reportedQueue is the bus for the outbox. With an admin chat, replies that are given up are reported there.
func (a *App) reportedQueue() (channels.Queue, error) {
	to, err := adminChat(a.config.Admin)
	if err != nil || to == (corebot.Key{}) {
		return a.Bus, err
	}
	return channels.NewReporter(a.Bus, storage.NewLedger(a.Store), to)
}

// adminChat is the chat that is told what is of an admin's business; the zero key is none.
func adminChat(c config.Admin) (k corebot.Key, err error) {
	if c.Chat == "" {
		return k, nil
	}
	if k, err = corebot.ParseKey(c.Chat); err != nil {
		return k, fmt.Errorf("admin.chat: %w", err)
	}
	return k, nil
}

// makeObjectives makes what watches the service level objectives.
func (a *App) makeObjectives(r prometheus.Registerer) (err error) {
	c := a.config.SLO
	o := slo.Options{LeastBad: int64(c.MinBad), CoolDown: c.CoolDown, Log: a.log, Metrics: r}
	for _, g := range []struct {
		objective corebot.Objective
		share     config.Number
		within    time.Duration
	}{
		{corebot.ObjectiveAccepted, c.Accepted, c.AcceptedWithin},
		{corebot.ObjectiveAnswered, c.Answered, c.AnsweredWithin},
		{corebot.ObjectiveDelivered, c.Delivered, c.DeliveredWithin},
		{corebot.ObjectiveTasks, c.Tasks, c.TasksWithin},
	} {
		if share, _ := g.share.Value(); share > 0 {
			o.Goals = append(o.Goals, slo.Goal{Objective: g.objective, Share: share, Within: g.within})
		}
	}
	if o.Chat, err = adminChat(a.config.Admin); err != nil {
		return err
	}
	if c.WebhookURL != "" {
		key, err := signedpost.ParseKey("slo.webhook_secret", c.WebhookSecret.Reveal())
		if err != nil {
			return err
		}
		target, err := signedpost.NewTarget("post an alarm to slo.webhook_url", c.WebhookURL, key.Sign)
		if err != nil {
			return err
		}
		o.Post = target.Post
	}
	var unpushed []string
	for _, kind := range kinds(a.networks) {
		if kind.Owner { // a reply waits until he opens a terminal
			unpushed = append(unpushed, kind.Name)
		}
	}
	a.objectives, err = slo.New(storage.NewObjectives(a.Store, storage.ObjectiveOptions{
		Answered: c.AnsweredWithin, Delivered: c.DeliveredWithin, Unpushed: unpushed,
	}), o)
	return err
}

func busOptions(all config.Config, r prometheus.Registerer) bus.Options {
	c, turns := all.Bus, 0
	if all.Router.Fair {
		turns = all.Router.Workers
	}
	return bus.Options{
		Turns:         turns,
		LimitPatience: cmp.Or(c.LimitPatience, -1), // to the bus, zero would mean its default

		Lease: c.Lease, MaxAttempts: c.MaxAttempts, BackoffBase: c.BackoffBase, BackoffMax: c.BackoffMax,
		MaxBytes:   c.MaxMessageBytes,
		Limits:     limits(c),
		Rate:       corebot.Rate{Every: c.RateEvery, Burst: c.RateBurst},
		Metrics:    r,
		SenderRate: corebot.Rate{Every: c.SenderEvery, Burst: c.SenderBurst},
	}
}

func limits(c config.Bus) corebot.Limits {
	return corebot.Limits{
		LaneDepth: c.LaneDepth, TotalDepth: c.TotalDepth, TotalBytes: c.TotalBytes,
		SenderDepth: c.SenderDepth, SenderBytes: c.SenderBytes, Owner: ownersChannel(),
		Control: corebot.Rate{Every: c.ControlEvery, Burst: c.ControlBurst},
	}
}

func queueing(c config.Config) corebot.Queueing {
	q := corebot.Queueing{
		Mode: corebot.QueueMode(c.Bus.QueueMode), Debounce: c.Bus.CollectDebounce,
		Agents: map[string]corebot.QueueMode{},
	}
	for _, a := range c.AgentList() {
		if a.QueueMode != "" {
			q.Agents[a.ID] = corebot.QueueMode(a.QueueMode)
		}
	}
	return q
}
