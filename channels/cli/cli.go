package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/mention"
)

// Channel is the channel's part of keys and principals.
const Channel = corebot.TerminalChannel

// DefaultAccount is the account of this machine's terminals.
const DefaultAccount = corebot.TerminalAccount

// Kind describes terminals.
func Kind() channels.Kind {
	return channels.Kind{Name: Channel, Account: DefaultAccount, Owner: true, People: true, AnyAgent: true}
}

// Options say whose terminal it is and how it looks.
type Options struct {
	In  io.Reader // what the user types. Interactive: an *os.File
	Out io.Writer // what the user sees. Interactive: an *os.File
	Err io.Writer // complaints of plain mode, apart from the replies on Out. Interactive: not used

	Agent    string // default [corebot.DefaultAgent]
	Chat     string // default "main"
	UserID   string // the principal's id: the uid of whoever runs the terminal. An empty id cannot hold a grant.
	UserName string // display only

	Interactive bool // In and Out are a terminal that can be drawn on
	NoColor     bool // neither colors nor other text styles
	// Charset is the character set that the locale names, if that is not UTF-8. Its terminal cannot show all letters,
	// and the screen warns about that.
	Charset string

	// Watch gives the events of a conversation until stop is called, which closes the channel. Nil: nothing streams.
	Watch       func(corebot.Key) (events <-chan live.Event, stop func())
	ModelName   string // for the header
	HistoryFile string // where typed prompts are kept, made with mode 0600. Empty: they are kept in memory.

	Files mention.Reader // reads the user's files for @file. Plain mode attaches none.

	// Output gives the result of a tool call. The message is the one that the turn answers, and position is the call's
	// place in the journal of that message. Nil: no result is known.
	Output func(ctx context.Context, message string, position int) (corebot.ToolResult, error)

	Rename func(ctx context.Context, name string) error // gives the chat a name. Nil: it can have none.

	// Session gives the conversation of the chat's session, oldest entry first. Nil: nothing can be exported.
	Session func(context.Context) ([]corebot.HistoryEntry, error)

	// Past is the latest part of the conversation, oldest entry first. The screen shows it first; plain mode does not.
	Past []corebot.HistoryEntry
}

// CLI is the [Terminal] of a user: a full screen, or plain lines if it is not interactive.
type CLI struct {
	opts  Options
	key   corebot.Key
	stage stage
}

// Terminal is one terminal with one open chat. Run publishes what the user types, and Send shows a message of the chat.
// A terminal is not a channel: [Remote] is the channel, and passes each message to the terminals that have its chat
// open.
type Terminal interface {
	Run(ctx context.Context, door channels.Accepter) error
	Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error)
}

var _ Terminal = (*CLI)(nil)

// New checks the options and fills in their defaults. It touches neither the terminal nor the history file.
func New(o Options) (*CLI, error) {
	if o.In == nil || o.Out == nil {
		return nil, errors.New("cli: input and output are needed")
	}
	if o.Err == nil && !o.Interactive {
		return nil, errors.New("cli: plain mode needs somewhere to complain")
	}
	o.Agent = orDefault(o.Agent, corebot.DefaultAgent)
	o.Chat = orDefault(o.Chat, "main")
	key := corebot.Key{Agent: o.Agent, Channel: Channel, Account: DefaultAccount, Chat: o.Chat}
	if err := key.Validate(); err != nil {
		return nil, fmt.Errorf("cli: %w", err)
	}
	return &CLI{opts: o, key: key}, nil
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// Run talks with the user until they leave or ctx ends, and then returns nil. On a screen the only error is a screen
// that cannot be set up. In plain mode Run returns an error if the door refused a line, or if ctx ended while accepted
// messages still waited for their answers.
func (c *CLI) Run(ctx context.Context, door channels.Accepter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mail := courier{door: door, opts: c.opts}
	if !c.opts.Interactive {
		p := newPlain(c.opts, mail)
		c.stage.enter(p)
		defer c.stage.leave()
		return p.run(ctx)
	}
	s, err := newScreen(ctx, c.opts, c.key, mail)
	if err != nil {
		return err
	}
	c.stage.enter(s)
	defer c.stage.leave()
	return s.run(cancel)
}

// Attended says that a person opens and closes its chats.
func (*CLI) Attended() {}

// Send shows m and returns once m is written. Before Run it waits for Run. Every error is a [*corebot.Failure]. The
// failure is transient if the terminal failed. It is cancelled, and no attempt is counted, if the chat of m is not open
// here, if the user has left, or if ctx ended.
func (c *CLI) Send(ctx context.Context, m channels.Outbound) (channels.Receipt, error) {
	if m.Key != c.key {
		return channels.Receipt{}, notHere(m)
	}
	s, err := c.stage.wait(ctx)
	if err != nil {
		return channels.Receipt{}, err
	}
	return channels.Receipt{}, s.show(ctx, m)
}

// Connection shows the user a text about the connection to Corebot. gone says that there is none at the moment. Without
// a running Run, nothing is shown.
func (c *CLI) Connection(text string, gone bool) {
	if now := c.stage.session(); now != nil {
		now.connection(text, gone)
	}
}

// retryUnseen is the time until the next attempt to show a message that no terminal could show. A terminal that opens
// the chat does not wait for it: [Remote.Attach] makes the chat's waiting messages due at once.
const retryUnseen = time.Minute

// notHere is the failure of a message whose chat is not open here. No attempt is counted: the message stays in the
// queue until a terminal opens the chat.
func notHere(m channels.Outbound) error {
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: retryUnseen, Err: corebot.WithHint(
		fmt.Errorf("chat %s is not open in this terminal", m.Key), "open it with: corebot chat --chat "+m.Key.Chat)}
}
