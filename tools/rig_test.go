package tools_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

var (
	chat = corebot.Key{Agent: "main", Channel: "webhook", Chat: "room"}
	who  = corebot.Caller{Key: chat, Principal: corebot.Principal{Channel: "webhook", ID: "ann"}, MessageID: "m1"}
)

// roles is server state with one role in it.
type roles struct {
	role corebot.Role
	err  error
}

func (r *roles) RoleOf(context.Context, corebot.Principal, corebot.Key) (corebot.Role, error) {
	return r.role, r.err
}

// step is a journal entry in memory. log says in which order things happened.
type step struct {
	intended  bool
	state     corebot.StepState // if it is not intended
	approval  *corebot.Approval // how the call stands
	asked     []corebot.Approval
	inAnswer  corebot.InAnswer
	stands    corebot.Pending // what the call waits for
	waitErr   error
	intendErr error
	finishErr error
	applyErr  error
	effects   []corebot.Effect
	log       *[]string
	decisions []corebot.AuditEvent
	results   []corebot.ToolResult
	rows      []corebot.AuditEvent
	finishCtx error // of the context that Finish was given
}

func newStep() *step { return &step{log: new([]string)} }

func (s *step) ID() string { return "m1/1/0" }

func (s *step) State() corebot.StepState {
	if s.intended {
		return corebot.StepIntended
	}
	return s.state
}

func (s *step) InAnswer() corebot.InAnswer { return s.inAnswer }

// Wait gives the wait that the test has put there, or begins one.
func (s *step) Wait(_ context.Context, w corebot.Pending, e corebot.AuditEvent) (corebot.Pending, error) {
	if s.waitErr != nil || s.stands.ID != 0 || w.Kind == "" {
		return s.stands, s.waitErr
	}
	*s.log = append(*s.log, "wait")
	s.decisions = append(s.decisions, e)
	w.ID = 7
	s.stands = w
	return w, nil
}

// Ask gives the approval that the test has put there, or has the call wait; one that is
// asked about anew waits again.
func (s *step) Ask(_ context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	*s.log = append(*s.log, "ask")
	for _, ask := range asks {
		s.asked, s.rows = append(s.asked, ask.Approval), append(s.rows, ask.Event)
	}
	if s.approval != nil && asks[0].Approval.Round == 0 {
		return corebot.ApprovalRequest{Approval: *s.approval}, nil
	}
	a := asks[0].Approval
	a.ID, a.Request, a.State = 1, 1, corebot.ApprovalAwaited
	return corebot.ApprovalRequest{Approval: a, All: []corebot.Approval{a}}, nil
}

func (s *step) Intend(_ context.Context, e corebot.AuditEvent) error {
	*s.log = append(*s.log, "intend")
	s.decisions = append(s.decisions, e)
	return s.intendErr
}

func (s *step) Finish(ctx context.Context, r corebot.ToolResult, e corebot.AuditEvent) error {
	*s.log = append(*s.log, "finish")
	s.finishCtx = ctx.Err()
	s.results, s.rows = append(s.results, r), append(s.rows, e)
	return s.finishErr
}

// Apply makes a change and stores the result with it.
func (s *step) Apply(ctx context.Context, effect corebot.Effect, r corebot.ToolResult, e corebot.AuditEvent) error {
	*s.log = append(*s.log, "apply")
	if s.applyErr != nil {
		return s.applyErr
	}
	s.effects = append(s.effects, effect)
	s.results, s.rows = append(s.results, r), append(s.rows, e)
	return nil
}

type noArgs struct{}

// does is a tool of a name that policy opens to all.
func does(traits tools.Traits, fn func(context.Context) (string, error), opts ...tools.Option[noArgs]) tools.Tool {
	return tools.New("web.search", "A tool for tests.", traits, func(ctx context.Context, _ tools.Call,
		_ noArgs,
	) (string, error) {
		return fn(ctx)
	}, opts...)
}

func says(out string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return out, nil }
}

func newBox(t *testing.T, r tools.Roles, o tools.Options, all ...tools.Tool) *tools.Box {
	t.Helper()
	return newBoxUnder(t, policy.Options{ShellEnabled: true}, r, o, all...)
}

func newBoxUnder(t *testing.T, under policy.Options, r tools.Roles, o tools.Options, all ...tools.Tool) *tools.Box {
	t.Helper()
	reg, err := tools.NewRegistry(all...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(under)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tools.NewBox(reg, p, r, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var normal = &roles{role: corebot.RoleNormal}

func call(tool, args string) corebot.ToolCall {
	return corebot.ToolCall{ID: "c1", Tool: tool, Args: json.RawMessage(args)}
}

func requireEnd(t *testing.T, s *step, r corebot.ToolResult, err error, want corebot.AuditOutcome, content string) {
	t.Helper()
	if err != nil || r.Outcome != want || !strings.Contains(r.Content, content) {
		t.Fatalf("got %+v, %v; want %s with %q", r, err, want, content)
	}
	if len(s.rows) != 1 || s.results[0] != r {
		t.Fatalf("the journal has %+v with rows %+v, want %+v once", s.results, s.rows, r)
	}
	e := s.rows[0]
	if e.Event != "tool.result" || e.Outcome != want || e.Key != chat || e.Principal != who.Principal || e.Role == "" ||
		e.Entry != "direct" || e.StepID != "m1/1/0" || e.At.IsZero() {
		t.Fatalf("the audit row is %+v", e)
	}
}
