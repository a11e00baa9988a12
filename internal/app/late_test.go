package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// begun is a step that an earlier attempt left so.
type begun struct{ state corebot.StepState }

func (begun) ID() string                 { return "1" }
func (b begun) State() corebot.StepState { return b.state }

func (begun) Wait(_ context.Context, w corebot.Pending, _ corebot.AuditEvent) (corebot.Pending, error) {
	return w, nil
}

func (begun) InAnswer() corebot.InAnswer                       { return corebot.InAnswer{} }
func (begun) Intend(context.Context, corebot.AuditEvent) error { return nil }
func (begun) Ask(context.Context, []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	return corebot.ApprovalRequest{}, nil
}
func (begun) Finish(context.Context, corebot.ToolResult, corebot.AuditEvent) error { return nil }
func (begun) Apply(context.Context, corebot.Effect, corebot.ToolResult, corebot.AuditEvent) error {
	return nil
}

// users have no grants.
type users struct{}

func (users) RoleOf(context.Context, corebot.Principal, corebot.Key) (corebot.Role, error) {
	return corebot.RoleNormal, nil
}

func TestACallWaitsWithoutAWorkerForItsServersFirstConnection(t *testing.T) {
	registry, err := tools.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.New(policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	box, err := tools.NewBox(registry, rules, users{}, tools.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), mcp.FileName)
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"pay": {"command": "none"},
		"off": {"command": "none", "disabled": true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := mcp.New(file, registry, mcp.Options{AllowedServers: []string{"*"}, AgentServers: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop() // Begin waits a moment for servers, and no longer than its context
	turn, end := toolbox{box, servers, nil}.Begin(ctx)
	defer end()
	for _, c := range []struct {
		tool  string
		state corebot.StepState
		waits bool
	}{
		{"mcp__pay__send", corebot.StepAwaiting, true},
		{"mcp__pay__send", "", true},                     // the model knows the tool from an earlier turn
		{"mcp__pay__send", corebot.StepIntended, true},   // whether it only reads is not known
		{"mcp__pay__send", corebot.StepWaiting, false},   // its outcome comes without the server
		{"mcp__off__send", corebot.StepAwaiting, false},  // it will never be connected
		{"mcp__pays__send", corebot.StepAwaiting, false}, // the file has no such server
		{"no.such", corebot.StepAwaiting, false},
		{"mcp__off__send", "", false},
	} {
		r, err := turn.Call(t.Context(), corebot.Caller{}, corebot.ToolCall{Tool: c.tool}, begun{c.state})
		var put *corebot.Failure
		switch waits := errors.As(err, &put); {
		case waits != c.waits, !waits && (err != nil || r.Outcome != corebot.OutcomeError):
			t.Errorf("%s, %q: %+v, %v", c.tool, c.state, r, err)
		case waits && (put.Class != corebot.Cancelled || put.RetryAfter <= 0):
			t.Errorf("the turn is put off as %v for %v", put.Class, put.RetryAfter)
		}
	}
}
