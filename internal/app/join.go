package app

import (
	"fmt"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/mcp"
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
	_ builtin.Sayings     = (*storage.History)(nil)
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
)

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
		Versions: u.versions, Patience: a.config.Approvals.Expiry,
		Timeout: a.config.Tools.Timeout, MaxOutput: a.config.Tools.MaxOutputBytes, Artifacts: artifacts,
		Redactor: a.redactor, Log: a.log, Metrics: r, Missing: map[string]string{"web.search": noEngine},
	})
	return err
}

// builtins are the tools that work in Corebot's own process, unless isolation.tools names them.
func (a *App) builtins(u *agentUnit, docs builtin.Documents) ([]tools.Tool, error) {
	w := u.notes
	all := append(builtin.Workspace(u.reach(a.disk), w.memory, docs), builtin.SkillsList(w.skills),
		builtin.SkillsRead(w.skills),
		builtin.DeadLetterList(a.service), builtin.DeadLetterReplay(), builtin.ChatRegister(), builtin.ChatSetRole())
	web, err := webTools(a.config.Tools.Web, docs, u.notes.tool)
	return slices.Concat(all, web, a.chatTools(), []tools.Tool{builtin.MCPReload(reloads{u})}), err
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
