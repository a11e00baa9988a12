package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// Channel is the channel's name, in keys and commands.
const Channel = "mcp"

// Kind describes MCP clients. They are programs: no message of theirs can approve a call.
func Kind() channels.Kind {
	return channels.Kind{Name: Channel, Taints: "what an MCP client published", AnyAgent: true}
}

// DefaultChat is the chat that a client means when it names none.
const DefaultChat = "main"

// maxOutput bounds a result, in bytes. The pages of the tools here are smaller, as JSON too.
const maxOutput = 1 << 20

// Options of a [Service]. Zero means the default.
type Options struct {
	Routing   corebot.Routing // which agent answers where
	Principal string          // the sender id for which clients act; required
	MaxWait   time.Duration   // the longest that a call may wait for a reply; 10 min

	Status   func(context.Context) (any, error) // what status.read shows, as JSON; nil: the tool is missing
	Tools    []tools.Tool                       // tools of Corebot that clients have as well
	Redactor *redact.Redactor                   // nil: one that knows the usual shapes of secrets
	Log      zerolog.Logger                     // the zero logger is silent
	Metrics  prometheus.Registerer              // nil: none
}

// Service is the channel of MCP clients, and their tools. It implements [channels.Channel], [channels.Idempotent] and
// [Backend], and is safe for use by several goroutines.
type Service struct {
	opts    Options
	store   Store
	replies *channels.Replies
	door    atomic.Pointer[channels.Door] // while Run runs
	opened  chan struct{}                 // closed when Run runs for the first time
	open    sync.Once
	box     *tools.Box
	catalog []Tool
	lines   map[string]bool // tools that say one object a line, by both names
	metrics *metrics
}

var (
	_ channels.Channel    = (*Service)(nil)
	_ channels.Idempotent = (*Service)(nil)
	_ channels.Pulled     = (*Service)(nil)
	_ Backend             = (*Service)(nil)
)

// startTime is how long a client waits for a channel that has not begun to run: hosts call as soon as their server
// speaks.
const startTime = 15 * time.Second

// errNotRunning is what a client reads of a channel that does not begin to run, and after it has ended.
var errNotRunning = errors.New("it is starting or stopping: try again")

// New makes the service. A principal that could hold no grant is [corebot.ErrInvalid].
func New(s Store, rules *policy.Policy, o Options) (*Service, error) {
	o.MaxWait = cmp.Or(o.MaxWait, 10*time.Minute)
	sv := &Service{opts: o, store: s, opened: make(chan struct{})}
	if err := sv.principal().Validate(); err != nil {
		return nil, corebot.WithHint(fmt.Errorf("mcp.serve.principal: %w", err),
			"it is the id of a sender, such as editor")
	}
	if !s.complete() || o.MaxWait < time.Second {
		return nil, fmt.Errorf("%w: an MCP service wants every part of its store, and to wait for a second at least",
			corebot.ErrInvalid)
	}
	var err error
	if sv.opts.Redactor == nil {
		if sv.opts.Redactor, err = redact.New(nil); err != nil {
			return nil, err
		}
	}
	sv.replies = channels.NewReplies(s.Mailbox)
	registry, err := tools.NewRegistry(append(sv.tools(), o.Tools...)...)
	if err != nil {
		return nil, err
	}
	sv.box, err = tools.NewBox(registry, rules, s.Roles, tools.Options{
		Timeout: sv.opts.MaxWait + 15*time.Second, MaxOutput: maxOutput, Redactor: sv.opts.Redactor, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	if sv.catalog, err = catalog(registry); err != nil {
		return nil, err
	}
	sv.lines = map[string]bool{}
	for _, t := range sv.catalog {
		sv.lines[t.Name], sv.lines[t.internal] = t.lines, t.lines
	}
	sv.metrics, err = newMetrics(o.Metrics)
	return sv, err
}

// principal is for whom clients act.
func (s *Service) principal() corebot.Principal {
	return corebot.Principal{Channel: Channel, ID: s.opts.Principal}
}

// key is a chat of the clients' own.
func (s *Service) key(chat string) corebot.Key {
	return s.opts.Routing.Key(Channel, "", cmp.Or(chat, DefaultChat))
}

// Run lets clients publish until ctx ends.
func (s *Service) Run(ctx context.Context, door channels.Door) error {
	s.door.Store(&door)
	defer s.door.Store(nil)
	s.open.Do(func() { close(s.opened) })
	<-ctx.Done()
	return nil
}

// entrance is the door, which is waited for before the channel runs for the first time.
func (s *Service) entrance(ctx context.Context) (channels.Door, error) {
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-s.opened:
	case <-late.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	door := s.door.Load()
	if door == nil {
		return nil, errNotRunning
	}
	return *door, nil
}

// Send implements [channels.Channel]: the reply waits in the mailbox.
func (s *Service) Send(ctx context.Context, m channels.Outbound) (channels.Receipt, error) {
	return channels.Receipt{}, s.replies.Send(ctx, m)
}

// Pulled implements [channels.Pulled]: clients fetch all that is said to them.
func (s *Service) Pulled() bool { return true }

// Posted implements [channels.Pulled]. It wakes the calls that wait for the reply.
func (s *Service) Posted(k corebot.Key) { s.replies.Posted(k) }

// IdempotentSend implements [channels.Idempotent]: the mailbox knows a reply by its id.
func (s *Service) IdempotentSend() {}

// caller is on whose behalf a call runs, and in which of its chats.
func (s *Service) caller(args json.RawMessage) corebot.Caller {
	k := s.key(chatOf(args))
	if k.Validate() != nil {
		k = s.key("") // the call will be refused for it
	}
	return corebot.Caller{Key: k, Principal: s.principal(), Entry: corebot.Entry{Kind: corebot.EntryClient}}
}

// chatOf looks for the chat that a call names, before anything is checked.
func chatOf(args json.RawMessage) string {
	var a struct {
		ChatID string `json:"chatId"`
	}
	_ = json.Unmarshal(args, &a)
	return a.ChatID
}

// Store is what a [Service] reads, and how it changes something. All of it is required.
type Store struct {
	Mailbox Mailbox
	Admin   Admin
	Changes Changes
	Trail   Trail
	Roles   tools.Roles
}

func (s Store) complete() bool {
	return s.Mailbox != nil && s.Admin != nil && s.Changes != nil &&
		s.Trail != nil && s.Roles != nil
}

// Mailbox keeps replies. Answers gives those behind a cursor that answer one message, oldest first.
type Mailbox interface {
	channels.Mailbox
	Answers(ctx context.Context, k corebot.Key, id string, cursor int64, limit int) ([]corebot.Posted, error)
}

// Admin is the admin service, as far as clients look at a home through it.
type Admin interface {
	ListChats(ctx context.Context, q operate.ChatsQuery) (operate.Page[operate.Chat], error)
	ReadHistory(ctx context.Context, q operate.HistoryQuery) (operate.Page[corebot.Said], error)
	Why(ctx context.Context, by operate.ByMessage) (operate.Told, error)
}

// Changes makes a change with its audit event in one commit, once for the key of its call.
type Changes interface {
	Apply(ctx context.Context, call corebot.ClientCall, effect corebot.Effect, event corebot.AuditEvent) error
}

// Trail is the audit.
type Trail interface {
	Note(ctx context.Context, e corebot.AuditEvent) error
}

// tools are the service's own.
func (s *Service) tools() []tools.Tool {
	all := []tools.Tool{s.chatList(), s.historyRead(), s.messagePublish(), s.messageReplies()}
	if s.opts.Status != nil {
		all = append(all, s.statusRead())
	}
	return all
}

// ownChat is what a call touches that names a chat of the clients' own.
func (s *Service) ownChat(chat string) policy.Target { return policy.Target{Chat: s.key(chat)} }

// page is how many are meant: so many if it is not said, and at most so many.
func page(asked, usual, most int) (int, error) {
	if asked < 0 {
		return 0, fmt.Errorf("%w: limit %d: want 1 to %d", corebot.ErrInvalid, asked, most)
	}
	return min(cmp.Or(asked, usual), most), nil
}

// timestamp is RFC 3339 in UTC with milliseconds, as in the interface of the webhook.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
