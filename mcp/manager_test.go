package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/mcp"
)

type servers = map[string]map[string]any

func TestTheToolsOfAServerCanBeCalled(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{
		"one": entry("good"),
		"two": entry("good", "readOnlyTools", []string{"d*"}),
	})
	if got := r.offered(); got != "mcp__one__do mcp__two__do" {
		t.Fatalf("the first turn is offered %q", got)
	}
	r.requireCall("mcp__one__do", `{"x":"y"}`, corebot.OutcomeSuccess, `do {"x":"y"}`)
	r.requireCall("mcp__two__do", ``, corebot.OutcomeSuccess, `do {}`)
	r.requireCall("mcp__one__do", `{"x":1}`, corebot.OutcomeInvalidArgs, `x`)
	r.requireCall("mcp__one__other", `{}`, corebot.OutcomeError, `unknown_tool`)
}

func TestAModelIsToldWhyAToolOfAServerIsNotThere(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{
		"one": entry("good"), "bad": entry("exits"), "off": entry("good", "disabled", true), "slow": entry("hangs"),
	})
	r.awaitConnected("one")
	r.await("bad", func(s mcp.Status) bool { return s.State == mcp.Failed })
	for tool, want := range map[string]string{
		"mcp__one__other": "the MCP server one is connected and offers no such tool",
		"mcp__bad__do":    "the MCP server bad is not connected (",
		"mcp__slow__do":   "the MCP server slow is not connected (connecting)",
		"mcp__off__do":    "the MCP server off is disabled",
	} {
		if got := r.manager.Lacking(tool); !strings.HasPrefix(got, want) || strings.Contains(got, "no module x") {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
	if got := r.manager.Lacking("no.such") + r.manager.Lacking("mcp__two__do"); got != "" {
		t.Errorf("of tools of no server it says %q", got)
	}
}

func TestAServerSeesNothingOfOurEnvironmentThatIsNotLetThrough(t *testing.T) {
	t.Setenv("COREBOT_ADMIN_BOOTSTRAP_KEY", "hush-hush-hush")
	t.Setenv("PASSED", "of the settings")
	t.Setenv("PASSED_TOO", "of the entry")
	e := entry("env", "passEnv", []string{"PASSED_TOO", "NOT_SET"})
	e["env"].(map[string]string)["OWN"] = "${PASSED}, ${NOT_SET:-else}"
	r := newRig(t, everything(mcp.Options{PassEnv: []string{"PASSED"}}), servers{"one": e})
	r.awaitConnected("one")
	got := r.call("mcp__one__do", `{}`).Content
	var names []string
	for line := range strings.Lines(got) {
		if name, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "<") { // which frames it
			names = append(names, name)
		}
	}
	if want := "COREBOT_MCP_SERVER GORACE HOME LANG MCP_TEST_SERVER OWN PASSED PASSED_TOO PATH"; strings.Join(names,
		" ") != want {
		t.Errorf("it sees %s, want %s", strings.Join(names, " "), want)
	}
	if !strings.Contains(got, "OWN=of the settings, else\n") {
		t.Errorf("got %s", got)
	}
}

func TestOnlyWhatTheSettingsAndTheEntryAllowIsOffered(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers []string
		tools   []string
		entry   map[string]any
		want    string
		agent   []string // the servers that the agent's own list names; all, if it is left out
	}{
		{"everything", []string{"*"}, []string{"*"}, entry("good"), "mcp__one__do", nil},
		{"no server", nil, []string{"*"}, entry("good"), "", nil},
		{"another server", []string{"on", "two*"}, []string{"*"}, entry("good"), "", nil},
		{"no tool", []string{"*"}, nil, entry("good"), "", nil},
		{"a tool by its whole name", []string{"o*"}, []string{"mcp__one__do"}, entry("good"), "mcp__one__do", nil},
		{"a tool with its server", []string{"one"}, []string{"one/d*"}, entry("good"), "mcp__one__do", nil},
		{"a tool of any server", []string{"one"}, []string{"do"}, entry("good"), "mcp__one__do", nil},
		{"another tool", []string{"one"}, []string{"d", "two/do", "mcp__two__*"}, entry("good"), "", nil},
		{"not by the entry", []string{"*"}, []string{"*"}, entry("good", "allowTools", []string{"x*"}), "", nil},
		{"denied by the entry", []string{"*"}, []string{"*"}, entry("good", "allowTools", []string{"*"}, "denyTools",
			[]string{"do"}), "", nil},
		{"disabled", []string{"*"}, []string{"*"}, entry("good", "disabled", true), "", nil},
		{"the agent has it", []string{"*"}, []string{"*"}, entry("good"), "mcp__one__do", []string{"two", "o*"}},
		{"the agent has another", []string{"*"}, []string{"*"}, entry("good"), "", []string{"two", "on"}},
		{"the agent has none", []string{"*"}, []string{"*"}, entry("good"), "", []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := c.agent
			if own == nil {
				own = []string{"*"}
			}
			r := newRig(t, mcp.Options{AllowedServers: c.servers, AgentServers: own, AllowedTools: c.tools},
				servers{"one": c.entry})
			if got := r.offered(); got != c.want {
				t.Errorf("offered %q, want %q", got, c.want)
			}
		})
	}
}

// Each page of a list is a message of its own, so the bound of a message does not bound the list.
func TestAListOfToolsIsBoundedOverAllItsPages(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{"one": entry("huge-pages", "connectTimeout", patience.String())})
	r.await("one", func(s mcp.Status) bool {
		return strings.Contains(s.LastError, "the list has more than 16777216 bytes")
	})
}

func TestAServerThatDiesIsConnectedAgain(t *testing.T) {
	trail := &trail{}
	r := newRig(t, everything(mcp.Options{Trail: trail}), servers{"one": entry("dies")})
	r.awaitConnected("one")
	began := r.status("one").Since
	r.requireCall("mcp__one__do", `{}`, corebot.OutcomeUnknown, "exit status 3")
	s := r.await("one", func(s mcp.Status) bool { return s.State == mcp.Connected && s.Since.After(began) })
	if len(s.Tools) != 1 || s.LastError != "" {
		t.Errorf("it is %+v", s)
	}
	if got := r.offered(); got != "mcp__one__do" { // the tools stay meanwhile
		t.Errorf("offered %q", got)
	}
	for _, event := range []string{"mcp.connect", "mcp.lost"} {
		if !trail.has(event) {
			t.Errorf("the audit has no %s", event)
		}
	}
}

func TestAServerThatDoesNotAnswerIsConnectedAgain(t *testing.T) {
	r := newRig(t, everything(mcp.Options{PingEvery: 10 * time.Millisecond, PingTime: 50 * time.Millisecond}),
		servers{"one": entry("hangs-ping")})
	s := r.await("one", func(s mcp.Status) bool { return s.State == mcp.Failed })
	if !strings.Contains(s.LastError, "does not answer") || len(s.Tools) != 1 {
		t.Errorf("it is %+v", s)
	}
}

func TestCallsOfAServerWaitTheirTurnAndNoLongerThanACallMayTake(t *testing.T) {
	t.Parallel()
	r := newRig(t, everything(mcp.Options{}), servers{
		"one": entry("slow", "maxCalls", 1, "timeout", "1500ms"),
		"two": entry("good"),
	})
	r.awaitConnected("one", "two")
	results := make(chan corebot.ToolResult, 3)
	for range 3 {
		go func() { results <- r.call("mcp__one__do", `{}`) }()
	}
	r.requireCall("mcp__two__do", `{}`, corebot.OutcomeSuccess, "do")
	ends := map[corebot.AuditOutcome]int{}
	for range 3 {
		ends[(<-results).Outcome]++
	}
	// the third has waited too long, and was never made
	if ends[corebot.OutcomeSuccess] != 2 || ends[corebot.OutcomeError] != 1 {
		t.Errorf("they ended as %v", ends)
	}
}

func TestACallThatTakesTooLongIsGivenUpAndTheServerIsTold(t *testing.T) {
	var log logLines
	r := newRig(t, everything(mcp.Options{Log: log.logger()}), servers{"one": entry("slow", "timeout", "100ms",
		"maxTime", "100ms")})
	r.awaitConnected("one")
	r.requireCall("mcp__one__do", `{}`, corebot.OutcomeUnknown, "too long")
	log.await(t, "cancelled ")
}

func TestProgressExtendsTheTimeOfACallUpToALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, everything(mcp.Options{}), servers{
		"patient": entry("progress", "timeout", "2s", "maxTime", "2m"),
		"limited": entry("progress", "timeout", "2s", "maxTime", "3s"),
	})
	r.awaitConnected("patient", "limited")
	limited := make(chan corebot.ToolResult, 1)
	began := time.Now()
	go func() { limited <- r.call("mcp__limited__do", `{"x":"never"}`) }()
	r.requireCall("mcp__patient__do", `{}`, corebot.OutcomeSuccess, "do") // which takes three seconds
	got := <-limited
	if took := time.Since(began); got.Outcome != corebot.OutcomeUnknown || !strings.Contains(got.Content, "too long") ||
		took < 3*time.Second || took > patience {
		t.Errorf("%s %q after %v", got.Outcome, got.Content, took)
	}
}

func TestATurnThatIsStoppedGivesItsCallUp(t *testing.T) {
	var log logLines
	r := newRig(t, everything(mcp.Options{Log: log.logger()}), servers{"one": entry("slow")})
	r.awaitConnected("one")
	ctx, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { stop(corebot.ErrStopped) })
	_, err := r.box.Call(ctx, caller(), corebot.ToolCall{ID: "1", Tool: "mcp__one__do"}, step{})
	if !errors.Is(err, corebot.ErrStopped) {
		t.Fatal(err)
	}
	log.await(t, "cancelled ")
}

func TestWhatAToolSaysOfItsFailureIsAResult(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{"one": entry("errors"), "two": entry("refuses")})
	r.awaitConnected("one", "two")
	r.requireCall("mcp__one__do", `{}`, corebot.OutcomeError, "error: no such city")
	r.requireCall("mcp__two__do", `{}`, corebot.OutcomeError, "bad arguments")
}

func TestAServerWhoseCallsHaveNoAnswerRestsForAWhile(t *testing.T) {
	trail := &trail{}
	r := newRig(t, everything(mcp.Options{Trail: trail}), servers{"one": entry("hangs-call", "timeout", "30ms",
		"maxTime", "30ms")})
	r.awaitConnected("one")
	for range 5 {
		r.requireCall("mcp__one__do", `{}`, corebot.OutcomeUnknown, "too long")
	}
	r.requireCall("mcp__one__do", `{}`, corebot.OutcomeError, "the next one is made in")
	if s := r.status("one"); s.State != mcp.Resting || !strings.Contains(s.LastError, "no calls until") {
		t.Errorf("it is %+v", s)
	}
	if !trail.has("mcp.breaker") {
		t.Error("the audit does not know")
	}
}

func TestAServerMayChangeItsToolsAndATurnKeepsThoseThatItBeganWith(t *testing.T) {
	t.Parallel()
	// the entry's own counts, each time
	r := newRig(t, everything(mcp.Options{ConnectTimeout: time.Nanosecond}),
		servers{"one": entry("changes", "connectTimeout", "1m")})
	if got := r.offered(); got != "mcp__one__do1" {
		t.Fatalf("offered %q", got)
	}
	box, end := r.begin()
	defer end()
	r.requireCall("mcp__one__do1", `{}`, corebot.OutcomeSuccess, "do1")
	r.await("one", func(s mcp.Status) bool { return len(s.Tools) == 1 && s.Tools[0] == "mcp__one__do2" })
	if got := r.offered(); got != "mcp__one__do2" {
		t.Errorf("offered %q", got)
	}
	if got := callIn(t.Context(), t, box, "mcp__one__do1", `{}`); got.Outcome != corebot.OutcomeSuccess {
		t.Errorf("the turn's tool: %+v", got)
	}
}

func TestAChangeOfTheFileIsThereWithTheNextTurn(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{
		"keeps": entry("good"), "goes": entry("good"),
		"changes": entry("good"),
	})
	if got := r.offered(); got != "mcp__changes__do mcp__goes__do mcp__keeps__do" {
		t.Fatalf("offered %q", got)
	}
	since := r.status("keeps").Since
	box, end := r.begin()
	r.write(servers{"keeps": entry("good"), "comes": entry("good"), "changes": entry("changes")})
	if got := r.offered(); got != "mcp__changes__do1 mcp__comes__do mcp__keeps__do" {
		t.Errorf("offered %q", got)
	}
	if s := r.status("keeps"); !s.Since.Equal(since) {
		t.Errorf("an unchanged server was connected again: %+v", s)
	}
	// a turn that runs keeps its tools
	for _, tool := range []string{"mcp__goes__do", "mcp__changes__do", "mcp__keeps__do"} {
		if got := callIn(t.Context(), t, box, tool, `{}`); got.Outcome != corebot.OutcomeSuccess {
			t.Errorf("%s in the turn: %+v", tool, got)
		}
	}
	end()
	requireGone(t, "goes.")
	if got := callIn(t.Context(), t, box, "mcp__goes__do", `{}`); got.Outcome != corebot.OutcomeError ||
		!strings.Contains(got.Content, "taken out") {
		t.Errorf("after the turn: %+v", got)
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if got := r.offered(); got != "" {
		t.Errorf("without a file %q is offered", got)
	}
}

func TestAnEntryThatCannotBeConnectedLeavesTheOldServerInService(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{"one": entry("good")})
	r.awaitConnected("one")
	r.write(servers{"one": entry("exits")})
	if got := r.offered(); got != "mcp__one__do" {
		t.Errorf("offered %q", got)
	}
	r.requireCall("mcp__one__do", `{}`, corebot.OutcomeSuccess, "do")
	s := r.await("one", func(s mcp.Status) bool { return s.State == mcp.Failed })
	if !strings.Contains(s.LastError, "exit status 1") || len(s.Tools) != 1 {
		t.Errorf("it is %+v", s)
	}
	r.write(servers{"one": entry("good")})
	r.offered()
	r.await("one", func(s mcp.Status) bool { return s.State == mcp.Connected })
}

func TestAReloadTriesAServerAgainThatFailed(t *testing.T) {
	flag := t.TempDir() + "/there"
	r := newRig(t, everything(mcp.Options{}), servers{"one": {
		"command": "sh",
		"args":    []string{"-c", "test -e " + flag + " && exec " + os.Args[0]},
		"env":     map[string]string{serverVariable: "good"},
	}})
	for range 3 { // so that the next attempt is far away
		r.await("one", func(s mcp.Status) bool { return s.State == mcp.Failed })
		if _, err := r.manager.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := r.manager.Reload(t.Context())
	if err != nil || len(o.Servers) != 1 || o.Servers[0].State != mcp.Connected {
		t.Errorf("after the reload: %+v, %v", o, err)
	}
}

func TestFiftyBadFilesUnderLoadCostNoCall(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{"one": entry("good")})
	r.awaitConnected("one")
	since := r.status("one").Since
	var calls, bad atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	for range 4 {
		go func() {
			for ctx.Err() == nil {
				box, end := r.begin()
				if got := callIn(t.Context(), t, box, "mcp__one__do", `{}`); got.Outcome != corebot.OutcomeSuccess {
					bad.Add(1)
				}
				calls.Add(1)
				end()
			}
			ended <- struct{}{}
		}()
	}
	for i := 0; i < 50 || calls.Load() < 50; i++ {
		r.writeText(badFiles()[i%len(badFiles())])
		if o, err := r.manager.Reload(t.Context()); err == nil || o.FileError == "" || len(o.Servers) != 1 {
			t.Errorf("file %d: %v, %+v", i, err, o)
		}
	}
	stop()
	for range 4 {
		<-ended
	}
	if bad.Load() > 0 {
		t.Errorf("%d of %d calls failed", bad.Load(), calls.Load())
	}
	if s := r.status("one"); !s.Since.Equal(since) {
		t.Errorf("it was connected again: %+v", s)
	}
	r.write(servers{"one": entry("good")})
	if o, err := r.manager.Reload(t.Context()); err != nil || o.FileError != "" {
		t.Errorf("mended: %v, %+v", err, o)
	}
}

func TestASlowServerDelaysNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, everything(mcp.Options{}), servers{"slow": entry("hangs"), "good": entry("good")})
	r.awaitConnected("good")
	r.offered() // waits a moment for the slow one, once
	began := time.Now()
	for range 20 {
		if got := r.offered(); got != "mcp__good__do" {
			t.Fatalf("offered %q", got)
		}
	}
	// if each of them waited for the slow one, it would take longer
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("20 turns have begun in %v", took)
	}
}

func TestCheckConnectsOnceAndChangesNothing(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{
		"one": entry("good"), "two": entry("exits"),
		"three": entry("good", "disabled", true),
	})
	r.stop()
	pins := &pins{}
	o, err := mcp.Check(t.Context(), r.path, everything(mcp.Options{Pins: pins}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range o.Servers {
		got = append(got, fmt.Sprintf("%s %s %d", s.Name, s.State, len(s.Tools)))
	}
	if strings.Join(got, ", ") != "one connected 1, three disabled 0, two failed 0" {
		t.Errorf("found %v", got)
	}
	if pins.asked.Load() > 0 {
		t.Error("it noted the tools")
	}
	requireGone(t, "one.")
	r.writeText("{")
	if _, err := mcp.Check(t.Context(), r.path, mcp.Options{}); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("a bad file: %v", err)
	}
}

func TestAProgramThatCannotBeStartedHarmsNobodyElse(t *testing.T) {
	noProgram := filepath.Join(t.TempDir(), "no-program")
	if err := os.WriteFile(noProgram, []byte("no system runs this"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, everything(mcp.Options{}), servers{"good": entry("good")})
	r.awaitConnected("good")
	r.write(servers{
		"good": entry("good"), "nothing": {"command": noProgram},
		"nowhere": entry("good", "cwd", filepath.Join(t.TempDir(), "missing")),
	})
	if got := r.offered(); got != "mcp__good__do" {
		t.Errorf("offered %q", got)
	}
	for name, want := range map[string]string{"nowhere": "no such file or directory", "nothing": "exec format error"} {
		failed := func(s mcp.Status) bool { return s.State == mcp.Failed }
		if s := r.await(name, failed); !strings.Contains(s.LastError, want) {
			t.Errorf("%s: %q, want %q", name, s.LastError, want)
		}
	}
	r.requireCall("mcp__good__do", `{}`, corebot.OutcomeSuccess, "do")
}

// pins counts how often it is told of tools, and knows nothing.
type pins struct{ asked atomic.Int64 }

func (p *pins) Peek(context.Context, string, map[string]string) (map[string]corebot.ToolPin, error) {
	return nil, nil
}

func (p *pins) Sight(context.Context, string, map[string]string) (map[string]corebot.ToolPin, error) {
	p.asked.Add(1)
	return nil, nil
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, o := range []mcp.Options{
		{ConnectTimeout: -1},
		{Timeout: -1},
		{Timeout: time.Hour, MaxTime: time.Minute},
		{MaxCalls: -1},
		{MaxMessage: -1},
		{PingEvery: -1},
	} {
		if _, err := mcp.New("x", nil, o); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
