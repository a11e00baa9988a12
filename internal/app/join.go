package app

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/router"
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
	_ router.Agent        = (*agent.Agent)(nil)
	_ router.Roles        = (*storage.Grants)(nil)
	_ router.Books        = (*storage.Books)(nil)
	_ router.Situations   = (*storage.Chats)(nil)
	_ agent.Choices       = (*storage.Chats)(nil)
	_ channels.Publisher  = (*bus.Bus)(nil)
	_ channels.Controller = (*router.Router)(nil)
	_ channels.Queue      = (*bus.Bus)(nil)
	_ channels.Settler    = (*bus.Bus)(nil)
	_ channels.Committer  = (*storage.Ledger)(nil)
	_ channels.Journal    = (*storage.Ledger)(nil)
	_ channels.Register   = (*storage.Chats)(nil)
	_ channels.Trail      = (*storage.Audit)(nil)
	_ agent.Journal       = (*storage.Ledger)(nil)
	_ agent.History       = (*storage.History)(nil)
	_ agent.Notes         = (*notes)(nil)
	_ agent.Tools         = toolbox{}
	_ tools.Roles         = (*storage.Grants)(nil)
	_ builtin.DeadLetters = (*storage.DeadLetters)(nil)
	_ builtin.Runner      = programs{}
	_ builtin.Sayings     = (*storage.History)(nil)
	_ webhook.Mailbox     = (*storage.Mailbox)(nil)
)

// toolbox is the tools as the agent sees them: its step handle is theirs too.
type toolbox struct{ *tools.Box }

func (b toolbox) Call(ctx context.Context, who corebot.Caller, call corebot.ToolCall, step agent.Step) (corebot.ToolResult, error) {
	return b.Box.Call(ctx, who, call, step)
}

// makeTools gathers the built-in tools under the policy.
func (a *App) makeTools(w *notes, p *policy.Policy, r prometheus.Registerer) (*tools.Box, error) {
	all := append(builtin.Workspace(w.root, w.memory), builtin.DeadLetterList(storage.NewDeadLetters(a.Store)), builtin.DeadLetterReplay(), builtin.ChatRegister(), builtin.ChatSetRole())
	web, err := webTools(a.config.Tools.Web)
	if err != nil {
		return nil, err
	}
	all = append(append(all, web...), a.chatTools()...)
	shell, err := a.shellTool()
	if err != nil {
		return nil, err
	}
	all = append(all, shell)
	registry, err := tools.NewRegistry(all...)
	if err != nil {
		return nil, err
	}
	artifacts, err := tools.NewFiles(w.root)
	if err != nil {
		return nil, err
	}
	return tools.NewBox(registry, p, storage.NewGrants(a.Store), tools.Options{
		Timeout: a.config.Tools.Timeout, MaxOutput: a.config.Tools.MaxOutputBytes, Artifacts: artifacts, Redactor: a.redactor, Log: a.log, Metrics: r,
	})
}

// learnSecrets has the redactor know the secrets of the settings: what it takes out of the log, it takes out of the audit, of what tools say and of
// what is shown.
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
	if a.config.Admin.Chat == "" {
		return a.Bus, nil
	}
	to, err := corebot.ParseKey(a.config.Admin.Chat)
	if err != nil {
		return nil, fmt.Errorf("admin.chat: %w", err)
	}
	return channels.NewReporter(a.Bus, storage.NewLedger(a.Store), to)
}
