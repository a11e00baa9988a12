package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/trace"
	"github.com/corebot/corebot/policy"
)

// DefaultMaxOutput is the longest result that the model sees whole, in bytes.
const DefaultMaxOutput = 50_000

const (
	maxToolName = 128     // bytes of a tool's name, and of what an audit row keeps of a name that a model made up
	maxAudit    = 8 << 10 // bytes of the arguments in an audit row
)

// Roles reads a principal's role in a conversation from server state; in the zero Key, the one that holds everywhere.
// It is asked anew for every call.
type Roles interface {
	RoleOf(ctx context.Context, p corebot.Principal, k corebot.Key) (corebot.Role, error)
}

// Step is the journal's place for one call. The agent owns the journal and hands out the step.
//
// Intend stores the intent and its audit row in one commit; Finish stores the result and its audit row in one commit;
// Apply makes a change of Corebot's own data in that same commit, or gives a [*corebot.Refused] and stores nothing, or
// a [*corebot.Denied] and has stored that. Any other error means that the turn cannot go on (a lost lease, trouble with
// the store).
type Step interface {
	ID() string
	State() corebot.StepState // how far an earlier attempt came; empty: nowhere
	Intend(ctx context.Context, e corebot.AuditEvent) error
	Finish(ctx context.Context, r corebot.ToolResult, e corebot.AuditEvent) error
	Apply(ctx context.Context, effect corebot.Effect, r corebot.ToolResult, e corebot.AuditEvent) error
	// InAnswer tells of the other calls of the same answer.
	InAnswer() corebot.InAnswer
	// Ask stores, in one commit with their audit rows, that calls wait for an admin, unless they do already, and gives
	// how that stands. The first is the call itself, the others are of those behind it: Position counts from the call.
	// An answer has one request; any other is [corebot.ErrNotAsked].
	Ask(ctx context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error)
	// Wait stores, in one commit with its audit row, that the call waits, and gives the wait as it stands. A wait
	// without a kind stores nothing: it asks for the wait that the call has; the zero wait is none. A wait that a rule
	// of the data forbids is a [*corebot.Refused].
	Wait(ctx context.Context, w corebot.Pending, e corebot.AuditEvent) (corebot.Pending, error)
}

// Artifacts keeps output that is too long for a model. Save returns the path under which the conversation can read it;
// the same name again replaces what was there.
type Artifacts interface {
	Save(ctx context.Context, who corebot.Caller, name, content string) (path string, err error)
}

// Options of a [Box]. Zero means the default.
type Options struct {
	Timeout   time.Duration            // of one call, for tools that name none; 30 s
	MaxOutput int                      // bytes of one result, as the model sees it; [DefaultMaxOutput]
	Artifacts Artifacts                // nil: what is over MaxOutput is lost
	Missing   func(tool string) string // what a tool that is not there lacks, for the model; empty: it is not known
	Approvers Approvers                // nil: nobody can approve anything
	Rules     Rules                    // nil: no approval lasts
	Contents  Contents                 // nil: a call that names a file cannot be approved
	Versions  *Versions                // nil: no change of a file is kept
	Patience  time.Duration            // how long an approval is awaited; 15 min
	// AnswerAfter is how long the answer of a turn waits for an approval. Then the answer comes without the call. 0
	// means as long as the approval is awaited. The argument is the kind of the channel. Nil means 0 everywhere.
	AnswerAfter func(channel string) time.Duration
	Work        *live.Work            // where tools are noted that run; nil: nowhere
	Redactor    *redact.Redactor      // nil: one that knows the usual shapes of secrets
	Log         zerolog.Logger        // the zero logger is silent
	Metrics     prometheus.Registerer // nil: none
}

// Box runs tools. It is safe for use by several goroutines.
type Box struct {
	registry *Registry
	policy   *policy.Policy
	roles    Roles
	opts     Options
	metrics  *metrics
}

// NewBox joins tools with the policy that guards them.
func NewBox(r *Registry, p *policy.Policy, roles Roles, o Options) (*Box, error) {
	if r == nil || p == nil || roles == nil || o.Timeout < 0 || o.MaxOutput < 0 || o.Patience < 0 {
		return nil, fmt.Errorf("%w: a tool box wants tools, a policy, roles, and limits that are not negative",
			corebot.ErrInvalid)
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = DefaultMaxOutput
	}
	if o.Patience == 0 {
		o.Patience = 15 * time.Minute
	}
	if o.Missing == nil {
		o.Missing = func(string) string { return "" }
	}
	if o.Redactor == nil {
		var err error
		if o.Redactor, err = redact.New(nil); err != nil {
			return nil, err
		}
	}
	m, err := newMetrics(o.Metrics, o.Redactor, r.own)
	if err != nil {
		return nil, err
	}
	return &Box{registry: r, policy: p, roles: roles, opts: o, metrics: m}, nil
}

// Offer lists the tools that the caller may ever use, sorted by name.
func (b *Box) Offer(ctx context.Context, who corebot.Caller) ([]llm.Tool, error) {
	role, err := b.role(ctx, who, who.Key)
	if err != nil {
		return nil, err
	}
	everywhere, err := b.roleEverywhere(ctx, who, role)
	if err != nil {
		return nil, err
	}
	request := policy.Request{
		Role: role, Everywhere: everywhere, Principal: who.Principal, Others: who.Others, Key: who.Key,
		Entry: who.Entry, Tools: who.Tools,
	}
	return b.registry.Offer(func(t Tool) bool {
		request.Tool, request.Privileged = t.name, t.traits.Has(Privileged)
		return b.policy.Visible(request)
	}), nil
}

// Call runs one tool call from its look-up to its result in the journal; see the package's guarantees.
//
// An error means that there is no result and the turn cannot go on. The error is the cause of ctx, one of Roles or of
// the step, a [*corebot.AwaitsApproval] or a [*corebot.Waiting].
func (b *Box) Call(ctx context.Context, who corebot.Caller, call corebot.ToolCall,
	step Step,
) (corebot.ToolResult, error) {
	if trace.From(ctx) == nil {
		return b.call(ctx, who, call, step)
	}
	name := unknownLabel // a name that the model made up is content
	if tool, ok := b.registry.find(call.Tool); ok {
		name = b.metrics.label(tool.name)
	}
	ctx, span := trace.Start(ctx, trace.Internal, "execute_tool", name)
	defer span.End()
	span.Text("gen_ai.operation.name", "execute_tool")
	span.Text("gen_ai.tool.name", name)
	span.Text("corebot.step", step.ID())
	result, err := b.call(ctx, who, call, step)
	span.Text("corebot.outcome", string(result.Outcome))
	switch waiting := (*corebot.Waiting)(nil); {
	case errors.As(err, new(*corebot.AwaitsApproval)), errors.As(err, &waiting):
		span.Text("corebot.outcome", live.Waiting)
	case err != nil:
		span.Fail(corebot.Cancelled.String())
	case result.Outcome != corebot.OutcomeSuccess:
		span.Fail(string(result.Outcome))
	}
	return result, err
}

func (b *Box) call(ctx context.Context, who corebot.Caller, call corebot.ToolCall,
	step Step,
) (corebot.ToolResult, error) {
	role, err := b.role(ctx, who, who.Key)
	if err != nil {
		return corebot.ToolResult{}, err
	}
	j := b.newJob(who, role, call, step)
	tool, ok := b.registry.find(call.Tool)
	// before anything else: whatever holds today, it may have happened
	if j.intended() && (!ok || !tool.traits.mayRepeat()) {
		return j.finishLost(ctx)
	}
	if r, done, err := j.resumeWait(ctx); done || err != nil {
		return r, err
	}
	if !ok {
		text := fmt.Sprintf("unknown_tool: there is no tool called %q", j.event.Tool)
		if lacks := b.opts.Missing(call.Tool); lacks != "" {
			text += ": " + lacks
		}
		return j.finish(ctx, corebot.OutcomeError, text)
	}
	j.label, j.event.Tool = tool.name, tool.name
	args, err := tool.bind(call.Args)
	if err != nil {
		return j.finish(ctx, corebot.OutcomeInvalidArgs, tool.refusal(err))
	}
	decision, err := j.judge(ctx, tool, args)
	if err != nil {
		return corebot.ToolResult{}, err
	}
	if !decision.Allow {
		j.howToAllow = decision.Opens
		return j.finish(ctx, corebot.OutcomeDenied, "denied: "+decision.Reason)
	}
	if tool.attach && step.InAnswer().Attaches <= 0 {
		return j.finish(ctx, corebot.OutcomeError, failure(errAttachesNone))
	}
	if j.intended() && (tool.attach || j.fileChange(args).Path != "") && b.policy.NeedsApproval(tool.name, decision,
		j.weigh(tool, args)) != "" {
		return j.finishLost(ctx) // its file may be another by now than the one that an admin was shown
	}
	if !j.intended() {
		if err := args.able(j.call); err != nil {
			return j.finish(ctx, corebot.OutcomeError, failure(err))
		}
		if r, done, err := j.decided(ctx, tool, args, decision); done || err != nil {
			return r, err
		}
	}
	return j.run(ctx, tool, args)
}

// judge asks the policy whether the call may run.
func (j *job) judge(ctx context.Context, tool Tool, args bound) (policy.Decision, error) {
	b, who, role, target := j.box, j.call.Caller, j.event.Role, args.target(j.call)
	there, err := b.roleThere(ctx, who, role, target)
	if err != nil {
		return policy.Decision{}, err
	}
	everywhere, err := b.roleEverywhere(ctx, who, role)
	if err != nil {
		return policy.Decision{}, err
	}
	decision := b.policy.Authorize(policy.Request{
		Tool: tool.name, Privileged: tool.traits.Has(Privileged), Role: role, There: there, Everywhere: everywhere,
		Principal: who.Principal, Others: who.Others, Key: who.Key, Target: target, Entry: who.Entry,
		Tools: who.Tools,
	})
	j.event.Rule, j.privileged, j.beyond = decision.Rule, decision.Privileged, decision.Beyond
	return decision, nil
}

// roleEverywhere is the role that holds in all conversations. An admin of one chat is not an admin of all.
func (b *Box) roleEverywhere(ctx context.Context, who corebot.Caller, here corebot.Role) (corebot.Role, error) {
	if here != corebot.RoleAdmin {
		return here, nil
	}
	return b.role(ctx, who, corebot.Key{})
}

// roleThere is the role in what a call acts on. The zero key names no conversation: what holds there holds everywhere.
func (b *Box) roleThere(ctx context.Context, who corebot.Caller, here corebot.Role,
	target policy.Target,
) (corebot.Role, error) {
	if target.Chat == who.Key || target.Chat == (corebot.Key{}) && !target.Everywhere {
		return here, nil
	}
	return b.role(ctx, who, target.Chat)
}

// role is the lowest role, as of now, of all whose text is in the turn. Nobody may use another's turn to do more than
// his own role allows.
func (b *Box) role(ctx context.Context, who corebot.Caller, in corebot.Key) (corebot.Role, error) {
	lowest, err := b.roleOf(ctx, who.Principal, in)
	for _, p := range who.Others {
		if err != nil {
			break
		}
		var role corebot.Role
		if role, err = b.roleOf(ctx, p, in); role != corebot.RoleAdmin {
			lowest = role
		}
	}
	return lowest, err
}

func (b *Box) roleOf(ctx context.Context, p corebot.Principal, k corebot.Key) (corebot.Role, error) {
	role, err := b.roles.RoleOf(ctx, p, k)
	if err != nil {
		return "", fmt.Errorf("read the role of %s: %w", p, err)
	}
	return role, nil
}

// metrics times calls by kind of tool. Labels are bounded: the kinds of the registry's own tools, one word for those of
// MCP servers, and one for tools that do not exist. An MCP server names its tools as it likes, so names in rows are
// redacted: who reads them may be nobody who may know the secret in one.
type metrics struct {
	hide     *redact.Redactor
	duration *prometheus.SummaryVec
}

func newMetrics(r prometheus.Registerer, hide *redact.Redactor, own []Tool) (*metrics, error) {
	m := &metrics{
		hide: hide,
		duration: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "corebot_tool_duration_seconds", Help: "How long tool calls took, from look-up to result, by " +
				"kind of tool: the part of its name before the dot, mcp, or unknown.",
		}, []string{"kind"}),
	}
	m.duration.WithLabelValues(kindMCP)
	m.duration.WithLabelValues(unknownLabel)
	for _, t := range own {
		m.duration.WithLabelValues(kindOf(t.Name()))
	}
	if r == nil {
		return m, nil
	}
	if err := r.Register(m.duration); err != nil {
		return nil, fmt.Errorf("register the metrics of tools: %w", err)
	}
	return m, nil
}

const (
	kindMCP = "mcp"
)

// kindOf is the kind of a tool that exists, or of the unknown one.
func kindOf(tool string) string {
	if strings.HasPrefix(tool, "mcp__") {
		return kindMCP
	}
	kind, _, _ := strings.Cut(tool, ".")
	return kind
}

// label is how rows name a tool.
func (m *metrics) label(tool string) string { return m.hide.Text(tool) }

// took notes how long a call took. How it ended is counted where its result is stored.
func (m *metrics) took(tool string, d time.Duration) {
	m.duration.WithLabelValues(kindOf(tool)).Observe(d.Seconds())
}
