package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// rig is a manager on a file of its own, with the real tools around it.
type rig struct {
	t        *testing.T
	path     string
	manager  *mcp.Manager
	registry *tools.Registry
	box      *tools.Box
	stop     func() // ends the manager and waits for it
}

// entry is a server of the test's own program.
func entry(kind string, more ...any) map[string]any {
	e := map[string]any{"command": os.Args[0], "env": map[string]string{
		serverVariable: kind,
		"GORACE":       "atexit_sleep_ms=0",
	}}
	for i := 0; i < len(more); i += 2 {
		e[more[i].(string)] = more[i+1]
	}
	return e
}

// everything lets all servers and tools pass.
func everything(o mcp.Options) mcp.Options {
	o.AllowedServers, o.AgentServers, o.AllowedTools, o.Grace = []string{"*"}, []string{"*"}, []string{"*"},
		50*time.Millisecond
	return o
}

// newRig runs a manager until the test ends.
func newRig(t *testing.T, o mcp.Options, servers map[string]map[string]any) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), mcp.FileName)}
	r.write(servers)
	var err error
	if r.registry, err = tools.NewRegistry(); err != nil {
		t.Fatal(err)
	}
	rules, err := policy.New(policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.box, err = tools.NewBox(r.registry, rules, admins{}, tools.Options{}); err != nil {
		t.Fatal(err)
	}
	if r.manager, err = mcp.New(r.path, r.registry, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.manager.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// write puts servers into the file, in one step.
func (r *rig) write(servers map[string]map[string]any) {
	r.t.Helper()
	data, err := json.MarshalIndent(map[string]any{"mcpServers": servers}, "", " ")
	if err != nil {
		r.t.Fatal(err)
	}
	r.writeText(string(data))
}

func (r *rig) writeText(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path+".new", []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.path+".new", r.path); err != nil {
		r.t.Fatal(err)
	}
}

// status is one server as it is now.
func (r *rig) status(name string) mcp.Status {
	for _, s := range r.manager.Overview().Servers {
		if s.Name == name {
			return s
		}
	}
	return mcp.Status{}
}

// patience is how long anything may take where many hostile programs and other tests share a processor or two.
const patience = time.Minute

// await waits until a server is as wanted.
func (r *rig) await(name string, wanted func(mcp.Status) bool) mcp.Status {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s := r.status(name)
		if wanted(s) {
			return s
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the server %s is %+v", name, s)
		}
	}
}

func (r *rig) awaitConnected(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.await(name, func(s mcp.Status) bool { return s.State == mcp.Connected })
	}
}

// begin is the beginning of a turn.
func (r *rig) begin() (box *tools.Box, end func()) {
	r.t.Helper()
	end = r.manager.Begin(r.t.Context(), func(func(string) bool) { box = r.box.Frozen() })
	return box, end
}

// offered are the names of the tools that a turn would be offered now.
func (r *rig) offered() string {
	r.t.Helper()
	return r.names(func(llm.Tool) bool { return true })
}

// names are those of the tools of an offer that are wanted.
func (r *rig) names(wanted func(llm.Tool) bool) string {
	r.t.Helper()
	box, end := r.begin()
	defer end()
	offered, err := box.Offer(r.t.Context(), caller())
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, t := range offered {
		if wanted(t) {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, " ")
}

// call makes one call in a turn of its own.
func (r *rig) call(tool, args string) corebot.ToolResult {
	r.t.Helper()
	return callIn(r.t.Context(), r.t, r.box, tool, args)
}

func callIn(ctx context.Context, t *testing.T, box *tools.Box, tool, args string) corebot.ToolResult {
	t.Helper()
	result, err := box.Call(ctx, caller(), corebot.ToolCall{ID: "1", Tool: tool, Args: json.RawMessage(args)}, step{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// requireCall makes one call and compares how it ended.
func (r *rig) requireCall(tool, args string, want corebot.AuditOutcome, content string) {
	r.t.Helper()
	if got := r.call(tool, args); got.Outcome != want || !strings.Contains(got.Content, content) {
		r.t.Errorf("%s: %s %.300q, want %s %q", tool, got.Outcome, got.Content, want, content)
	}
}

func caller() corebot.Caller {
	p := corebot.Principal{Channel: "test", ID: "ann"}
	return corebot.Caller{
		Key: corebot.Key{Agent: corebot.DefaultAgent, Channel: "test", Chat: "a"}, Principal: p,
		MessageID: "1",
	}
}

// admins makes everybody one.
type admins struct{}

func (admins) RoleOf(context.Context, corebot.Principal, corebot.Key) (corebot.Role, error) {
	return corebot.RoleAdmin, nil
}

// step is a place in a journal that nobody reads.
type step struct{}

func (step) ID() string                                                           { return "1/1/1" }
func (step) State() corebot.StepState                                             { return "" }
func (step) Intend(context.Context, corebot.AuditEvent) error                     { return nil }
func (step) Finish(context.Context, corebot.ToolResult, corebot.AuditEvent) error { return nil }

func (step) Apply(context.Context, corebot.Effect, corebot.ToolResult, corebot.AuditEvent) error {
	return nil
}

func (step) InAnswer() corebot.InAnswer { return corebot.InAnswer{} }

func (step) Wait(_ context.Context, w corebot.Pending, _ corebot.AuditEvent) (corebot.Pending, error) {
	return w, nil
}

func (step) Ask(_ context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	return corebot.ApprovalRequest{Approval: asks[0].Approval}, nil
}

// trail keeps the events that are noted.
type trail struct {
	mu     sync.Mutex
	events []string
}

func (t *trail) Note(_ context.Context, e corebot.AuditEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e.Event)
	return nil
}

func (t *trail) has(event string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.events, event)
}
