package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/agent/pages"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/roots"
)

// Tools are what a turn may act with. They may change at any time.
type Tools interface {
	// Begin gives the tools as they are now: whatever becomes of them, a turn keeps those that it began with. end is
	// called once it is over.
	Begin(ctx context.Context) (now Toolset, end func())
}

// Toolset offers and runs tools. Call returns a result for everything that the model should see, refusals included; an
// error means that the turn cannot go on.
type Toolset interface {
	Offer(ctx context.Context, who corebot.Caller) ([]llm.Tool, error)
	Call(ctx context.Context, who corebot.Caller, call corebot.ToolCall, step Step) (corebot.ToolResult, error)
}

// Step is the journal's place for one tool call, handed to whoever runs it.
type Step interface {
	// ID is the idempotency key of the call: the same in every attempt.
	ID() string
	// State says how far an earlier attempt came: to an intent without an outcome, to an approval that is awaited, or
	// to a wait; empty: nowhere.
	State() corebot.StepState
	// Intend stores, before the call runs, that it will.
	Intend(ctx context.Context, decision corebot.AuditEvent) error
	// Finish stores how it ended.
	Finish(ctx context.Context, result corebot.ToolResult, event corebot.AuditEvent) error
	// Apply makes a change of Corebot's own data and stores how the call ended, in one commit.
	Apply(ctx context.Context, effect corebot.Effect, result corebot.ToolResult, event corebot.AuditEvent) error
	// InAnswer tells of the other calls of the same answer.
	InAnswer() corebot.InAnswer
	// Ask stores that the call, and others behind it, wait for an approval, unless they do already, and gives how that
	// stands.
	Ask(ctx context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error)
	// Wait stores that the call waits, unless it does already, and gives how that stands.
	Wait(ctx context.Context, w corebot.Pending, event corebot.AuditEvent) (corebot.Pending, error)
}

// Journal stores steps; storage's ledger is one.
type Journal interface {
	Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error
	Apply(ctx context.Context, d corebot.Delivery, s corebot.Step, effect corebot.Effect,
		event corebot.AuditEvent) error
	// Ask stores a step that waits for an approval, and all approvals of its request, in one commit; one that waits
	// already is given as it stands.
	Ask(ctx context.Context, d corebot.Delivery, s corebot.Step,
		asks []corebot.NewApproval) (corebot.ApprovalRequest, error)
	// Wait stores a step that waits, with what it waits for, in one commit; one that waits already is given as it
	// stands.
	Wait(ctx context.Context, d corebot.Delivery, s corebot.Step, w corebot.Pending,
		event corebot.AuditEvent) (corebot.Pending, error)
	// Merge ends the messages that wait to be merged by the turn, and stores each as a step from the position on, in
	// one commit.
	Merge(ctx context.Context, d corebot.Delivery, position int) ([]corebot.Step, error)
	// Summarize stores a summary and the step that made it, in one commit.
	Summarize(ctx context.Context, d corebot.Delivery, step corebot.Step, s corebot.Summary) error
}

// History gives what a turn finds of its chat, with at most so many undelivered replies, and what was said in the
// session behind its summary, newest first.
type History interface {
	Recall(ctx context.Context, d corebot.Delivery, undelivered int) (corebot.Recollection,
		iter.Seq2[corebot.HistoryEntry, error], error)
}

// Notes are the texts of the workspace that stand in prompts. A text that cannot be used is no error: it is left out,
// and its page says so.
type Notes interface {
	// Page is one of [workspace.Pages], as of a second ago at most. A file that is missing is an empty page.
	Page(path string) pages.Page
	// Renew has the next Page be as of now.
	Renew()
	// Skills is the index of the skills and the pages that are always there, as of a second ago at most.
	Skills() pages.Page
	// SkillsHere is what a turn is told of skills beside the index, by the choices of its chat and by its message.
	SkillsHere(k corebot.Key, choices corebot.SkillChoices, message string) string
	// ChatMemory is the page of memory of a chat, or of [corebot.Key.InChannel], in pieces, and what is missing of it
	// and why.
	ChatMemory(ctx context.Context, k corebot.Key) (pieces []memory.Piece, leftOut string)
}

// Roles reads a principal's role in a conversation; in the zero Key, the role that holds everywhere.
type Roles interface {
	RoleOf(ctx context.Context, p corebot.Principal, k corebot.Key) (corebot.Role, error)
}

// Parts are what an agent is made of. All but Facts are required.
type Parts struct {
	Model   llm.Model
	Tools   Tools
	Journal Journal
	History History
	Notes   Notes
	Roles   Roles
	Facts   Facts // nil: the agent neither finds nor recalls facts
}

func (p Parts) whole() bool {
	return p.Model != nil && p.Tools != nil && p.Journal != nil && p.History != nil && p.Notes != nil && p.Roles != nil
}

// Options of an [Agent]. Zero values mean the defaults.
type Options struct {
	MaxIterations int           // model calls with tools in a turn; 24
	MaxTime       time.Duration // of a turn's work, before the last call without tools; 10 min
	ContextTokens int           // of a whole prompt and its answer; 32,000
	OutputTokens  int           // reserved for the answer, and asked for; 4,096
	Compaction    Compaction
	SessionIdle   time.Duration // a longer pause before a message ends the session; 0: none does
	Tokenizer     llm.Tokenizer // required
	// asked for where the session asks for none, as [llm.Request].Model; empty: the preferred one
	Model string
	Voice llm.Voice
	// Untrusted names, by channel, what taints a turn from its start: its messages are written by whom nobody knows.
	Untrusted map[string]string
	// Transcriber hears recordings; nil: nobody does.
	Transcriber Transcriber
	Roots       roots.List        // the directories that tools reach beside the workspace
	Files       Files             // gives files of messages a place among those of tools; nil: they have none
	Jobs        corebot.JobBudget // of all child turns of a message together; zero: there are none
	Live        *live.Hub
	// Redactor is for what is shown of an answer while it is made; nil: one that knows the usual shapes of secrets.
	Redactor *redact.Redactor
	Metrics  prometheus.Registerer
}

// Agent makes turns.
type Agent struct {
	model   llm.Model
	tools   Tools
	journal Journal
	history History
	notes   Notes
	roles   Roles
	facts   Facts // nil: none
	opts    Options
	metrics *metrics
	prompt  atomic.Pointer[systemText]    // the last that was put together
	tooling atomic.Pointer[[]*sizedTools] // those that were offered lately
}

// New makes an agent. A part that is missing, and numbers that leave no room for a prompt, are [corebot.ErrInvalid].
func New(p Parts, o Options) (*Agent, error) {
	if !p.whole() || o.Tokenizer == nil {
		return nil, fmt.Errorf("%w: agent: a part of it, or the tokenizer, is missing", corebot.ErrInvalid)
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		model: p.Model, tools: p.Tools, journal: p.Journal, history: p.History, notes: p.Notes,
		roles: p.Roles, facts: p.Facts, opts: o, metrics: metrics,
	}
	metrics.show(a.modelName())
	return a, nil
}

// With is an agent like a, with another model and other options. It counts in the metrics of a. Turns of a go on as
// they began.
func (a *Agent) With(m llm.Model, o Options) (*Agent, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	next := &Agent{
		model: m, tools: a.tools, journal: a.journal, history: a.history, notes: a.notes, roles: a.roles,
		facts: a.facts, opts: o,
		metrics: a.metrics,
	}
	next.metrics.show(next.modelName())
	return next, nil
}

// complete puts the defaults in, and refuses numbers that leave no room for a prompt.
func (o *Options) complete() error {
	o.MaxIterations = cmp.Or(o.MaxIterations, 24)
	o.MaxTime = cmp.Or(o.MaxTime, 10*time.Minute)
	o.ContextTokens = cmp.Or(o.ContextTokens, 32_000)
	o.OutputTokens = cmp.Or(o.OutputTokens, 4_096)
	o.Compaction = o.Compaction.withDefaults(o.ContextTokens - o.OutputTokens)
	if o.MaxIterations < 0 || o.MaxTime < 0 || o.OutputTokens < 0 || o.ContextTokens <= o.OutputTokens ||
		o.SessionIdle < 0 {
		return fmt.Errorf("%w: agent: iterations %d, time %v, context %d and output %d tokens, idle %v",
			corebot.ErrInvalid,
			o.MaxIterations, o.MaxTime, o.ContextTokens, o.OutputTokens, o.SessionIdle)
	}
	if o.Live == nil {
		o.Live = new(live.Hub)
	}
	if o.Redactor == nil {
		var err error
		if o.Redactor, err = redact.New(nil); err != nil {
			return err
		}
	}
	return o.Compaction.validate(o.ContextTokens - o.OutputTokens)
}

// modelName is the preferred model's, for what no answer tells.
func (a *Agent) modelName() string { return cmp.Or(a.opts.Model, a.model.Name()) }

// Turn answers one delivery. Everything that the turn leaves behind is in the result; nothing but journal steps, a
// summary of older messages, and what tools did, has happened when it returns. On [corebot.ErrStopped] the result has
// the history of what was done.
func (a *Agent) Turn(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
	tools, end := a.tools.Begin(ctx)
	defer end()
	t := a.begin(d, tools)
	// Also a turn that was stopped before it began reads its prompt: what earlier attempts did becomes history.
	if err := t.prepare(context.WithoutCancel(ctx)); err != nil {
		return corebot.Result{}, err
	}
	answer, err := t.converse(ctx)
	if err != nil {
		if errors.Is(err, corebot.ErrStopped) {
			t.stop()
		}
		return corebot.Result{History: t.leaves(), Spent: t.spent, BeginsSession: t.beginsSession}, err
	}
	if t.alone() {
		return t.pulse(answer), nil
	}
	if parts := t.parts(answer.Text); len(parts) > 0 {
		t.say(corebot.HistoryEntry{Speaker: corebot.SpeakerAssistant, Parts: parts})
	}
	return corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered, Says: t.says(answer.Text)},
		History: t.leaves(), BeginsSession: t.beginsSession,
		Replies: t.replies(answer.Text), Detached: t.detached,
		Model: cmp.Or(answer.Model, t.modelName()),
		Spent: t.spent,
	}, nil
}

// begin is a turn that has read nothing yet.
func (a *Agent) begin(d corebot.Delivery, tools Toolset) *turn {
	return &turn{
		Agent: a, delivery: d, tools: tools,
		who:      d.Caller(),
		deadline: time.Now().Add(a.opts.MaxTime),
		meter:    newMeter(a.opts.Tokenizer), room: a.opts.ContextTokens - a.opts.OutputTokens,
	}
}

// replies are the turn's answer, and what a result of a tool had to say to the chat itself.
func (t *turn) replies(text string) (replies []corebot.Message) {
	if t.delivery.Job() == 0 { // the answer of a job is its result
		replies = append(replies, t.reply(text))
	}
	if t.notice != "" {
		replies = append(replies, corebot.TextNotice(t.who.Results(), t.delivery.RunID()+"/notice",
			t.delivery.Message.ID, t.notice, corebot.Notice{Kind: corebot.NoticeTool}))
	}
	if t.cramped > 0 {
		replies = append(replies, crampedNotice(t.who.Results(), t.cramped))
	}
	return replies
}

// reply is the turn's answer as a message. A model that says nothing is said to have said nothing: a chat is never left
// silent.
//
// An agent that asked gets the answer as a message, and goes on with it. Of a model that says nothing, people are told.
func (t *turn) reply(text string) corebot.Message {
	if m, ok := t.delivery.Answer(t.who, text); ok && !blank(text) {
		return m
	}
	m := corebot.Message{
		ID: t.delivery.RunID() + "/1", Direction: corebot.Outbound, Key: t.who.Results(), Kind: corebot.KindReply,
		Parts: t.parts(text), InReplyTo: t.delivery.Message.ID,
	}
	if len(m.Parts) == 0 {
		m.Kind, m.Parts = corebot.KindNotice, corebot.TextPart("(The model answered with no text.)")
		m.Notice = &corebot.Notice{Kind: corebot.NoticeEmpty}
	}
	for _, id := range t.mergedIDs {
		m.AddMerged(id)
	}
	return m
}

// blank: some channels refuse a message of white space, and some models such an entry in their context.
func blank(text string) bool { return strings.TrimSpace(text) == "" }
