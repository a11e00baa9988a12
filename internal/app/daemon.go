package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/chain"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/storage"
)

// Terminal names the terminal of a session in a chat. Shown is the id of the message that was fetched last, once it is
// shown; Again says that the session was attached before.
type Terminal struct {
	Agent   string `json:"agent,omitempty"` // empty: the agent that answers in the chat
	Chat    string `json:"chat"`
	Session string `json:"session"`
	Shown   string `json:"shown,omitempty"`
	Again   bool   `json:"again,omitempty"`
}

// TerminalMessage names a message that came from a terminal.
type TerminalMessage struct {
	Agent string `json:"agent,omitempty"` // as of a Terminal
	Chat  string `json:"chat"`
	ID    string `json:"id"`
}

// TerminalCall names a tool call by its place in the journal of a message that came from a terminal.
type TerminalCall struct {
	TerminalMessage
	Position int `json:"position"`
}

// The operations of terminals in other processes.
var (
	send           = operate.Declare[channels.Incoming, channels.Accepted]("send")
	TerminalLife   = operate.Declare[TerminalMessage, corebot.Life]("terminal.life")
	TerminalOutput = operate.Declare[TerminalCall, corebot.ToolResult]("terminal.output")
	AttachTerminal = operate.Declare[Terminal, operate.Done]("terminal.attach")
	FetchTerminal  = operate.Declare[Terminal, cli.Fetched]("terminal.fetch")
	DetachTerminal = operate.Declare[Terminal, operate.Done]("terminal.detach")
)

// Caller carries out, in this process, what other processes ask for through the control socket.
func (a *App) Caller() control.Caller { return a.operations() }

// operations are all that this Corebot carries out for other processes: the admin service, and what channels need that
// live in other processes.
func (a *App) operations() control.Operations {
	ops := operate.Operations(a.service, false)
	operate.Bind(send, ops, a.acceptFrom)
	operate.Bind(TerminalLife, ops, func(ctx context.Context, m TerminalMessage) (corebot.Life, error) {
		return storage.NewLives(a.Store).InChat(ctx, a.terminalKey(m.Agent, m.Chat), m.ID, corebot.Principal{})
	})
	operate.Bind(TerminalOutput, ops, a.terminalOutput)
	operate.Bind(AttachTerminal, ops, func(ctx context.Context, t Terminal) (operate.Done, error) {
		return operate.Done{Changed: 1}, a.terminals.Attach(ctx, a.terminalKey(t.Agent, t.Chat), t.Session, t.Again)
	})
	operate.Bind(FetchTerminal, ops, func(ctx context.Context, t Terminal) (cli.Fetched, error) {
		ctx, cancel := control.UntilStop(ctx)
		defer cancel()
		return a.terminals.Fetch(ctx, a.terminalKey(t.Agent, t.Chat), t.Session, t.Shown)
	})
	operate.Bind(DetachTerminal, ops, func(_ context.Context, t Terminal) (operate.Done, error) {
		a.terminals.Detach(a.terminalKey(t.Agent, t.Chat), t.Session, t.Shown)
		return operate.Done{Changed: 1}, nil
	})
	operate.Bind(clientTools, ops, func(ctx context.Context, _ struct{}) ([]serve.Tool, error) {
		return a.clients.Tools(ctx)
	})
	operate.Bind(clientCall, ops, func(ctx context.Context, c serve.Call) (serve.Result,
		error,
	) {
		return a.clients.Call(ctx, c)
	})
	return ops
}

// terminalOutput gives the result of a call, from the journal of its message. A call that has none yet is
// [corebot.ErrNotFound].
func (a *App) terminalOutput(ctx context.Context, c TerminalCall) (corebot.ToolResult, error) {
	key := a.terminalKey(c.Agent, c.Chat)
	life, err := storage.NewLives(a.Store).InChat(ctx, key, c.ID, corebot.Principal{})
	if err != nil {
		return corebot.ToolResult{}, err
	}
	for _, s := range life.Steps {
		if s.Kind == corebot.StepTool && s.Position == c.Position && s.Result != nil {
			result := *s.Result
			result.Content = outside.Unmarked(result.Content)
			return result, nil
		}
	}
	return corebot.ToolResult{}, fmt.Errorf("the output of this call: %w", corebot.ErrNotFound)
}

// terminalKey is the key of a chat that a terminal talks in. Without an agent it is the one that answers there.
func (a *App) terminalKey(agent, chat string) corebot.Key {
	k := a.routing().Key(cli.Channel, cli.DefaultAccount, chat)
	k.Agent = cmp.Or(agent, k.Agent)
	return k
}

// Accept takes a message of a terminal, which is on disk then.
func (a *App) Accept(ctx context.Context, in channels.Incoming) (channels.Accepted, error) {
	in.Channel, in.Account = cli.Channel, cli.DefaultAccount
	return a.channels.DoorOf(cli.Kind().Usual()).Accept(ctx, in)
}

// acceptFrom takes in a message of a terminal. Where the message came through the control socket, the kernel names the
// sender: the id that stands in the message counts for nothing.
func (a *App) acceptFrom(ctx context.Context, in channels.Incoming) (channels.Accepted, error) {
	if peer, served := control.PeerOf(ctx); served {
		in.SenderID = senderOf(peer)
	}
	return a.Accept(ctx, in)
}

// senderOf is the id of a peer at the terminal. Where the system does not tell who the peer is, the sender has no id,
// and so no role.
func senderOf(p control.Peer) string {
	if !p.Known {
		return ""
	}
	return strconv.Itoa(p.UID)
}

// Send gives a message of a terminal to a Corebot. Text that is not UTF-8 is refused here: JSON would carry another
// text.
func Send(ctx context.Context, c control.Caller, in channels.Incoming) (channels.Accepted, error) {
	if !utf8.ValidString(in.Text()) {
		return channels.Accepted{}, fmt.Errorf("%w: the text is not valid UTF-8", corebot.ErrInvalid)
	}
	return send.Call(ctx, c, in)
}

// openTerminals makes the channel of terminals that attach through the control socket.
func (a *App) openTerminals(context.Context, prometheus.Registerer) (channels.Channel, error) {
	a.terminals = cli.NewRemote(a.Live.Watch, storage.NewQueue(a.Store).Wake, a.files.noteOf)
	return a.terminals, nil
}

func (a *App) hello() operate.Hello {
	return operate.Hello{
		Model: a.ModelName(), Daemon: a.serves, PID: os.Getpid(), Passing: a.passing,
		Console: a.ConsoleAddr(),
	}
}

// Reload reads the settings again and applies what can be applied. Settings that cannot be read, or that are refused,
// change nothing.
func (a *App) Reload() (r operate.Reloaded, err error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	defer func() {
		result := "ok"
		if err != nil {
			result = "failed"
		}
		a.reloads.WithLabelValues(result).Inc()
	}()
	fresh, err := config.Load(a.config.Home, networkSettings(a.networks)...)
	if err != nil {
		return r, err
	}
	if err := Check(fresh); err != nil { // what holds from the next start on must not keep that from happening
		return r, err
	}
	if w := &fresh.Webhook; a.webhook != nil && !w.Enabled && w.Token.Reveal() == "" && w.Secret.Reveal() == "" {
		// it listens until the restart, and not to everybody
		w.Token, w.Secret = a.inForce.Webhook.Token, a.inForce.Webhook.Secret
	}
	applied, restart := config.Diff(a.inForce, fresh)
	r = operate.Reloaded{Applied: append([]string{}, applied...), Restart: append([]string{}, restart...)} // never null
	inForce, err := a.inForce.WithLive(fresh)
	if err != nil {
		return operate.Reloaded{}, fmt.Errorf("with the settings that need a restart: %w", err)
	}
	think, err := a.rethink(inForce)
	if err != nil {
		return operate.Reloaded{}, err
	}
	keep, err := a.upkeep.keeps(inForce, a.router, a.publishing(inForce), a.verifying(inForce))
	if err != nil {
		return operate.Reloaded{}, err
	}
	// Loading has checked all values by themselves; only this one depends on what is bound, so it goes first.
	if a.server != nil {
		if err := a.server.SetToken(fresh.Observability.Token.Reveal()); err != nil {
			return operate.Reloaded{}, err
		}
	}
	if a.webhook != nil {
		if err := a.webhook.SetCredentials(fresh.Webhook.Token.Reveal(), fresh.Webhook.Secret.Reveal()); err != nil {
			return operate.Reloaded{}, err
		}
	}
	if err := a.level.Set(fresh.Log.Level); err != nil {
		return operate.Reloaded{}, err
	}
	if err := a.redactor.Learn(fresh.Secrets()); err != nil {
		return operate.Reloaded{}, err
	}
	think()
	keep()
	for _, u := range a.agents.order {
		u.notes.renewAll()
	}
	a.inForce = inForce
	a.log.Info().Strs("applied", r.Applied).Strs("restart", r.Restart).Msg("settings reloaded")
	return r, nil
}

func newReloads(r prometheus.Registerer) (*prometheus.CounterVec, error) {
	reloads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "corebot_config_reloads_total", Help: "Reloads of the settings, by result: ok, failed (nothing changed).",
	}, []string{"result"})
	for _, result := range []string{"ok", "failed"} {
		reloads.WithLabelValues(result)
	}
	if err := r.Register(reloads); err != nil {
		return nil, fmt.Errorf("register the counter of reloads: %w", err)
	}
	return reloads, nil
}

// ReloadOn reloads the settings and the MCP servers whenever something comes from signals, until ctx ends.
func (a *App) ReloadOn(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		if _, err := a.Reload(); err != nil {
			a.log.Error().Err(err).Str("hint",
				corebot.HintOf(err)).Msg("the settings were not reloaded; nothing has changed")
		}
		a.agents.reloadServers(ctx)
	}
}

// rethinkTime bounds how long a reload looks for a model server on this machine.
const rethinkTime = 5 * time.Second

// rethink makes what answers with other settings of models, and gives the function that puts it in place. All that can
// fail has happened before.
func (a *App) rethink(inForce config.Config) (apply func(), err error) {
	fresh := inForce.LLM
	if fresh == a.inForce.LLM {
		return func() {}, nil
	}
	accounting, err := inForce.Accounting()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), rethinkTime)
	defer cancel()
	chosen, err := chooseModel(ctx, fresh, a.providers, a.files)
	if err != nil {
		return nil, err
	}
	minds := make([]*mind, len(a.agents.order))
	for i, u := range a.agents.order {
		models, err := chosen.of(u.entry)
		if err != nil {
			return nil, err
		}
		brain, err := u.mind.Load().brain.With(models.model, a.agentOptions(u.entry, models, nil))
		if err != nil {
			return nil, fmt.Errorf("the agent %s: %w", u.entry.ID, err)
		}
		minds[i] = &mind{models, brain}
	}
	return func() {
		before := a.models.Load()
		a.answerWith(chosen)
		for i, u := range a.agents.order {
			u.mind.Store(minds[i])
		}
		a.Store.SetPrices(accounting.Prices)
		before.close()
	}, nil
}

// answerWith has the process answer with a choice of models, and show its breakers.
func (a *App) answerWith(c choice) {
	shown, _ := c.model.(*chain.Chain)
	a.providers.Show(shown)
	a.models.Store(&c)
	a.log.Info().Str("model", c.model.Name()).Msg(c.why)
}

// close drops the idle connections of models that answer no new turn. A call that runs is not disturbed.
func (c choice) close() {
	for _, p := range c.each {
		for _, m := range p.Models {
			if m, ok := m.(interface{ Close() }); ok {
				m.Close()
			}
		}
	}
}

// settings are those that the parts were made of, with the settings of the models that answer now.
func (a *App) settings() config.Config {
	c := a.config
	c.LLM = a.models.Load().settings
	return c
}
