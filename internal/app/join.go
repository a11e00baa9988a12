package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/webhook"
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
	_ router.Agent        = (*agent.Agent)(nil)
	_ router.Roles        = (*storage.Grants)(nil)
	_ channels.Publisher  = (*bus.Bus)(nil)
	_ channels.Controller = (*router.Router)(nil)
	_ channels.Queue      = (*bus.Bus)(nil)
	_ channels.Journal    = (*storage.Ledger)(nil)
	_ agent.Journal       = (*storage.Ledger)(nil)
	_ agent.History       = (*storage.History)(nil)
	_ agent.Notes         = (*notes)(nil)
	_ agent.Tools         = toolbox{}
	_ tools.Roles         = (*storage.Grants)(nil)
	_ webhook.Mailbox     = (*storage.Mailbox)(nil)
)

// toolbox is the tools as the agent sees them: its step handle is theirs too.
type toolbox struct{ *tools.Box }

func (b toolbox) Call(ctx context.Context, who corebot.Caller, call corebot.ToolCall, step agent.Step) (corebot.ToolResult, error) {
	return b.Box.Call(ctx, who, call, step)
}

// makeTools gathers the built-in tools under the policy.
func (a *App) makeTools(w *notes, p *policy.Policy, r prometheus.Registerer) (*tools.Box, error) {
	registry, err := tools.NewRegistry(builtin.Workspace(w.root, w.memory)...)
	if err != nil {
		return nil, err
	}
	artifacts, err := tools.NewFiles(w.root)
	if err != nil {
		return nil, err
	}
	return tools.NewBox(registry, p, storage.NewGrants(a.Store), tools.Options{
		Timeout: a.config.Tools.Timeout, MaxOutput: a.config.Tools.MaxOutputBytes, Artifacts: artifacts, Log: a.log, Metrics: r,
	})
}
