package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/live"
)

// Tools offers and runs tools. Call returns a result for everything that the model should see, refusals included; an error
// means that the turn cannot go on.
type Tools interface {
	Offer(ctx context.Context, who corebot.Caller) ([]llm.Tool, error)
	Call(ctx context.Context, who corebot.Caller, call corebot.ToolCall, step Step) (corebot.ToolResult, error)
}

// Step is the journal's place for one tool call, handed to whoever runs it.
type Step interface {
	// ID is the idempotency key of the call: the same in every attempt.
	ID() string
	// Intended says that an earlier attempt was about to run the call and never said how it ended.
	Intended() bool
	// Intend stores, before the call runs, that it will.
	Intend(ctx context.Context, decision corebot.AuditEvent) error
	// Finish stores how it ended.
	Finish(ctx context.Context, result corebot.ToolResult, event corebot.AuditEvent) error
}

// Journal stores steps; storage's ledger is one.
type Journal interface {
	Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error
}

// History gives what was said in the session that is in play, oldest first.
type History interface {
	Recent(ctx context.Context, k corebot.Key, limit int) ([]corebot.Entry, error)
}

// Notes are the texts of the workspace. A text that is missing is empty.
type Notes interface {
	Identity() (string, error)
	User() (string, error)
	Tools() (string, error)
	GlobalMemory() (string, error)
	ChatMemory(k corebot.Key) (string, error)
}

// Options of an [Agent]. Zero values mean the defaults.
type Options struct {
	MaxIterations int           // model calls with tools in a turn; 8
	MaxTime       time.Duration // of a turn's work, before the last call without tools; 10 min
	ContextTokens int           // of the whole prompt; 32,000
	OutputTokens  int           // reserved for the answer, and asked for; 4,096
	Tokenizer     llm.Tokenizer // required
	Live          *live.Hub
	Metrics       prometheus.Registerer
}

// Agent makes turns.
type Agent struct {
	model   llm.Model
	tools   Tools
	journal Journal
	history History
	notes   Notes
	opts    Options
	metrics *metrics
}

// New makes an agent.
func New(m llm.Model, t Tools, j Journal, h History, n Notes, o Options) (*Agent, error) {
	if o.Tokenizer == nil {
		return nil, errors.New("agent: a tokenizer is required")
	}
	o.MaxIterations = cmp.Or(o.MaxIterations, 8)
	o.MaxTime = cmp.Or(o.MaxTime, 10*time.Minute)
	o.ContextTokens = cmp.Or(o.ContextTokens, 32_000)
	o.OutputTokens = cmp.Or(o.OutputTokens, 4_096)
	if o.MaxIterations < 0 || o.MaxTime < 0 || o.OutputTokens < 0 || o.ContextTokens <= o.OutputTokens {
		return nil, fmt.Errorf("%w: agent: iterations %d, time %v, context %d and output %d tokens", corebot.ErrInvalid,
			o.MaxIterations, o.MaxTime, o.ContextTokens, o.OutputTokens)
	}
	if o.Live == nil {
		o.Live = new(live.Hub)
	}
	metrics, err := newMetrics(o.Metrics)
	return &Agent{model: m, tools: t, journal: j, history: h, notes: n, opts: o, metrics: metrics}, err
}

// Turn answers one delivery. Everything that the turn leaves behind is in the result; nothing but journal steps, and what tools did,
// has happened when it returns. On [corebot.ErrStopped] the result has the history of what was done.
func (a *Agent) Turn(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
	t := &turn{
		Agent: a, delivery: d,
		who:      corebot.Caller{Key: d.Message.Key, Principal: d.Message.Sender, Entry: entry(d), MessageID: d.Message.ID},
		deadline: time.Now().Add(a.opts.MaxTime),
	}
	// Also a turn that was stopped before it began reads its prompt: what earlier attempts did becomes history.
	if err := t.prepare(context.WithoutCancel(ctx)); err != nil {
		return corebot.Result{}, err
	}
	answer, err := t.converse(ctx)
	if err != nil {
		if errors.Is(err, corebot.ErrStopped) {
			t.settleOpenCalls()
		}
		return corebot.Result{History: t.said, Usage: t.usage}, err
	}
	if !blank(answer.Text) {
		t.say(corebot.Entry{Speaker: corebot.SpeakerAssistant, Text: answer.Text})
	}
	return corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: t.said,
		Replies: []corebot.Message{t.reply(answer.Text)},
		Usage:   t.usage,
	}, nil
}

// entry names how the turn came about, for the audit.
func entry(d corebot.Delivery) string {
	if d.Run > 1 {
		return "replay"
	}
	return "direct"
}

// reply is the turn's answer as a message. A model that says nothing is said to have said nothing: a chat is never left silent.
func (t *turn) reply(text string) corebot.Message {
	m := corebot.Message{
		ID: t.delivery.RunID() + "/1", Direction: corebot.Outbound, Key: t.delivery.Message.Key, Kind: corebot.KindReply,
		Parts: corebot.TextPart(text), InReplyTo: t.delivery.Message.ID,
	}
	if blank(text) {
		m.Kind, m.Parts = corebot.KindNotice, corebot.TextPart("(The model answered with no text.)")
	}
	return m
}

// blank: some channels refuse a message of white space, and some models such an entry in their context.
func blank(text string) bool { return strings.TrimSpace(text) == "" }
