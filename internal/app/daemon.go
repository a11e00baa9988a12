package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// Caller carries out, in this process, what other processes ask for through the control socket.
func (a *App) Caller() control.Caller { return a.operations() }

// operations are all changes that this Corebot carries out for commands, and what terminals ask of it.
func (a *App) operations() control.Operations {
	ops := storeOperations(a.Store, a.service)
	ops[OpHello] = control.Typed(func(context.Context, struct{}) (Hello, error) { return a.hello(), nil })
	ops[OpReload] = control.Typed(func(context.Context, struct{}) (Reloaded, error) { return a.Reload() })
	type none struct{}
	ops[OpChannels] = control.Typed(func(ctx context.Context, _ none) ([]channels.Status, error) {
		return a.ChannelStatus(ctx)
	})
	ops[OpSend] = control.Typed(a.Accept)
	ops[OpLife] = control.Typed(func(ctx context.Context, m TerminalMessage) (corebot.Life, error) {
		return storage.NewLives(a.Store).InChat(ctx, a.terminalKey(m.Agent, m.Chat), m.ID, corebot.Principal{})
	})
	ops[OpAttach] = control.Typed(func(ctx context.Context, t Terminal) (operate.Done, error) {
		return operate.Done{Changed: 1}, a.terminals.Attach(ctx, a.terminalKey(t.Agent, t.Chat), t.Session, t.Again)
	})
	ops[OpFetch] = control.Typed(func(ctx context.Context, t Terminal) (cli.Fetched, error) {
		ctx, cancel := control.UntilStop(ctx)
		defer cancel()
		return a.terminals.Fetch(ctx, a.terminalKey(t.Agent, t.Chat), t.Session, t.Shown)
	})
	ops[OpDetach] = control.Typed(func(_ context.Context, t Terminal) (operate.Done, error) {
		a.terminals.Detach(a.terminalKey(t.Agent, t.Chat), t.Session, t.Shown)
		return operate.Done{Changed: 1}, nil
	})
	a.mcpOperations(ops)
	a.skillOperations(ops)
	a.clientOperations(ops)
	return ops
}

// terminalKey is the key of a chat that a terminal talks in. Without an agent it is the one that answers there.
func (a *App) terminalKey(agent, chat string) corebot.Key {
	k := a.routing().Key(terminalChannel, cli.DefaultAccount, chat)
	k.Agent = cmp.Or(agent, k.Agent)
	return k
}

// terminalChannel is the channel of terminals.
const terminalChannel = "cli"

// Accept takes a message of a terminal, which is on disk then.
func (a *App) Accept(ctx context.Context, in channels.Incoming) (channels.Accepted, error) {
	in.Channel, in.Account = terminalChannel, cli.DefaultAccount
	return a.channels.DoorOf(channels.Account{Kind: in.Channel, Name: in.Account}).Accept(ctx, in)
}

// Send gives a message of a terminal to a Corebot. Text that is not UTF-8 is refused here: JSON would carry another
// text.
func Send(ctx context.Context, c control.Caller, in channels.Incoming) (channels.Accepted, error) {
	if !utf8.ValidString(in.Text()) {
		return channels.Accepted{}, fmt.Errorf("%w: the text is not valid UTF-8", corebot.ErrInvalid)
	}
	return control.Call[channels.Accepted](ctx, c, OpSend, in)
}

// Hello tells a process which Corebot it has reached.
type Hello struct {
	Model  string `json:"model"`
	Daemon bool   `json:"daemon"` // it serves until it is told to stop, and does not end with a terminal
	PID    int    `json:"pid"`
	// Passing says that it ends when one message has its answer.
	Passing bool `json:"passing,omitempty"`
}

// openTerminals makes the channel of terminals that attach through the control socket.
func (a *App) openTerminals() *cli.Remote {
	queue := storage.NewQueue(a.Store)
	a.terminals = cli.NewRemote(a.Live.Watch, queue.Wake)
	return a.terminals
}

func (a *App) hello() Hello {
	return Hello{Model: a.ModelName(), Daemon: a.serves, PID: os.Getpid(), Passing: a.passing}
}
