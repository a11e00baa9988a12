package app

import (
	"context"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/storage"
)

// operations are all changes that this daemon carries out for commands.
func (a *App) operations() control.Operations {
	ops := storeOperations(a.Store)
	ops[OpReload] = control.Typed(func(context.Context, struct{}) (Reloaded, error) { return a.Reload() })
	ops[OpSend] = control.Typed(func(ctx context.Context, in channels.Incoming) (channels.Accepted, error) {
		in.Channel, in.Account = "cli", cli.DefaultAccount
		return a.door.Accept(ctx, in)
	})
	ops[OpAttach] = control.Typed(func(ctx context.Context, t Terminal) (Attached, error) {
		return Attached{a.ModelName()}, a.terminals.Attach(ctx, t.Chat, t.Session)
	})
	ops[OpFetch] = control.Typed(func(ctx context.Context, t Terminal) (cli.Fetched, error) {
		return a.terminals.Fetch(ctx, t.Chat, t.Session, t.Shown)
	})
	ops[OpDetach] = control.Typed(func(_ context.Context, t Terminal) (Done, error) {
		a.terminals.Detach(t.Chat, t.Session, t.Shown)
		return Done{Changed: 1}, nil
	})
	a.mcpOperations(ops)
	a.skillOperations(ops)
	a.clientOperations(ops)
	return ops
}

// Attached tells a terminal what it talks to.
type Attached struct {
	Model string `json:"model"`
}

// openTerminals makes the channel of terminals that attach through the control socket.
func (a *App) openTerminals() *cli.Remote {
	queue := storage.NewQueue(a.Store)
	a.terminals = cli.NewRemote(corebot.DefaultAgent, a.Live.Watch, queue.Wake)
	return a.terminals
}
