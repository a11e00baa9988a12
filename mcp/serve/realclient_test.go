//go:build mcpreal

package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// clientVariable makes this program our MCP client, for the conformance suite: its last argument is the server's
// address.
const clientVariable = "COREBOT_TEST_MCP_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(clientVariable) == "" {
		os.Exit(m.Run())
	}
	if err := beClient(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// adminsAll has everybody be admin.
type adminsAll struct{}

func (adminsAll) RoleOf(context.Context, corebot.Principal, corebot.Key) (corebot.Role, error) {
	return corebot.RoleAdmin, nil
}

// noStep keeps nothing.
type noStep struct{}

func (noStep) ID() string                                       { return "m/1/0" }
func (noStep) State() corebot.StepState                         { return "" }
func (noStep) Intend(context.Context, corebot.AuditEvent) error { return nil }
func (noStep) Finish(context.Context, corebot.ToolResult, corebot.AuditEvent) error {
	return nil
}

func (noStep) Apply(context.Context, corebot.Effect, corebot.ToolResult, corebot.AuditEvent) error {
	return nil
}

func (noStep) InAnswer() corebot.InAnswer { return corebot.InAnswer{} }

func (noStep) Wait(_ context.Context, w corebot.Pending, _ corebot.AuditEvent) (corebot.Pending, error) {
	return w, nil
}

func (noStep) Ask(_ context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	return corebot.ApprovalRequest{Approval: asks[0].Approval}, nil
}

// beClient connects as Corebot does, and calls each tool that it is offered once.
func beClient(address string) error {
	dir, err := os.MkdirTemp("", "mcp-client-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // of a test
	file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"suite": map[string]any{"url": address}}})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, mcp.FileName)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return err
	}
	registry, err := tools.NewRegistry()
	if err != nil {
		return err
	}
	rules, err := policy.New(policy.Options{})
	if err != nil {
		return err
	}
	box, err := tools.NewBox(registry, rules, adminsAll{}, tools.Options{})
	if err != nil {
		return err
	}
	log := zerolog.New(os.Stderr)
	manager, err := mcp.New(path, registry, mcp.Options{
		AllowedServers: []string{"*"}, AgentServers: []string{"*"},
		AllowedTools: []string{"*"}, Log: log,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for manager.Overview().Servers[0].State != mcp.Connected {
		if ctx.Err() != nil {
			return fmt.Errorf("not connected: %+v", manager.Overview())
		}
		time.Sleep(20 * time.Millisecond)
	}
	return callAll(ctx, box)
}

func callAll(ctx context.Context, box *tools.Box) error {
	who := corebot.Caller{
		Key:       corebot.Key{Agent: "main", Channel: "test", Chat: "c"},
		Principal: corebot.Principal{Channel: "test", ID: "suite"},
	}
	offered, err := box.Offer(ctx, who)
	if err != nil {
		return err
	}
	calls, err := wantedCalls(offered)
	for _, c := range calls {
		r, err := box.Call(ctx, who, c, noStep{})
		if err != nil {
			return err
		}
		fmt.Printf("%s %s: %s %.200s\n", c.Tool, c.Args, r.Outcome, r.Content)
	}
	return err
}

// wantedCalls are those that the scenario asks for, or one of each tool.
func wantedCalls(offered []llm.Tool) (calls []corebot.ToolCall, err error) {
	var wanted struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &wanted)
	for _, c := range wanted.ToolCalls {
		calls = append(calls, corebot.ToolCall{ID: "1", Tool: "mcp__suite__" + c.Name, Args: c.Arguments})
	}
	if calls != nil {
		return calls, nil
	}
	var focus json.RawMessage // the schema that is to be echoed
	for _, t := range offered {
		if strings.HasSuffix(t.Name, "json_schema_2020_12_tool") {
			focus = t.Schema
		}
	}
	for _, t := range offered {
		args, err := exampleOf(t)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(t.Name, "json_schema_echo") {
			args, _ = json.Marshal(map[string]any{"schema": focus})
		}
		calls = append(calls, corebot.ToolCall{ID: "1", Tool: t.Name, Args: args})
	}
	return calls, nil
}

// exampleOf makes up arguments that a schema takes.
func exampleOf(t llm.Tool) (json.RawMessage, error) {
	var schema struct {
		Properties map[string]struct {
			Type    any
			Default any
			Enum    []any
		}
	}
	if err := json.Unmarshal(t.Schema, &schema); err != nil {
		return nil, err
	}
	args := map[string]any{}
	for name, p := range schema.Properties {
		switch {
		case p.Default != nil:
			args[name] = p.Default
		case len(p.Enum) > 0:
			args[name] = p.Enum[0]
		case p.Type == "number", p.Type == "integer":
			args[name] = 3
		case p.Type == "boolean":
			args[name] = true
		case p.Type == "string":
			args[name] = "words"
		}
	}
	return json.Marshal(args)
}
