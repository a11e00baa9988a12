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
	In  io.Reader // what the user types; a terminal is an *os.File
	Out io.Writer // what the user sees; a terminal is an *os.File
	Err io.Writer // plain mode: complaints, apart from the replies on Out

	Agent    string // default [corebot.DefaultAgent]
	Chat     string // default "main"
	UserID   string // the principal's id: the uid of whoever runs the terminal. Empty can hold no grant.
	UserName string // display only

	Interactive bool // In and Out are a terminal that can be drawn on
	NoColor     bool // neither colors nor other text styles
	// the character set that the locale names, if it is another than UTF-8: a terminal of it cannot show all letters
	Charset string

	// Watch gives the events of a conversation until stop is called, which closes the channel. Nil: nothing streams.
	Watch       func(corebot.Key) (events <-chan live.Event, stop func())
	ModelName   string // for the header
	HistoryFile string // where typed prompts are remembered, readable by its owner only. Empty: in memory.

	Files mention.Reader // of the user, for @file. Plain mode attaches none.

	// Output gives the result of a call by the message of its turn and its place in the journal. Nil: none is known.
	Output func(ctx context.Context, message string, position int) (corebot.ToolResult, error)

	Rename func(ctx context.Context, name string) error // gives the chat a name. Nil: it can have none.

	// Session gives what was said in the chat's session, oldest first. Nil: nothing can be exported.
	Session func(context.Context) ([]corebot.HistoryEntry, error)

	// Past is what was said in the chat lately, oldest first. It is shown before the chat begins, if Interactive.
	Past []corebot.HistoryEntry
}

// CLI is the terminal as a channel.
type CLI struct {
	opts  Options
	key   corebot.Key
	stage stage
}

// Terminal is one terminal at one chat: what is typed goes to a door, and Send shows what the chat is told. It is no
// channel of its own. [Remote] is the channel, and gives every open terminal what is for its chat.
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

// Run talks with the user until they leave or ctx ends, and then returns nil. In plain mode it returns an error if the
// door refused a line, or if ctx ended while accepted messages still waited for their answers.
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

// Send shows m and returns after it was written. Before Run it waits for Run. Its errors are a [*corebot.Failure]. The
// failure is transient if the terminal failed. It is cancelled, and not counted, if m belongs to a chat that is not
// open here, the user has left or ctx ended.
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

// Connection tells the user, while Run runs, what became of the connection to Corebot. gone says that there is none at
// the moment.
func (c *CLI) Connection(text string, gone bool) {
	if now := c.stage.session(); now != nil {
		now.connection(text, gone)
	}
}

// patience is how long a message waits for its chat to be opened in this process. Another process tries at once.
const patience = time.Minute

// notHere is nobody's fault: the message waits, uncounted, until its chat is open in a terminal.
func notHere(m channels.Outbound) error {
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: patience, Err: corebot.WithHint(
		fmt.Errorf("chat %s is not open in this terminal", m.Key), "open it with: corebot chat --chat "+m.Key.Chat)}
}
