package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// TestKilledWhileACallWaitsForAnApprovalItRunsOnceIfAtAll kills the daemon where a call asks for an approval, where it
// waits, where it is approved, and where it then runs. Each time it starts the daemon again (guarantees G1 to G6).
func TestKilledWhileACallWaitsForAnApprovalItRunsOnceIfAtAll(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	type step struct {
		point string
		least int // how often it has run at least; never more than once
	}
	for _, c := range long.Every(4, []step{
		{"ask.before", 1},
		{"ask.after", 1},
		{"turn.before#1", 1},
		{"turn.after#1", 1},
		{"", 1},
		{"approve.before", 1},
		{"approve.after", 1},
		{"step.tool.intended.before", 1},
		{"tool.before", 0},
		{"tool.after#2", 1},
		{"step.tool.done.after#2", 1},
		{"turn.before#2", 1},
		{"turn.after#2", 1},
	}) {
		t.Run("at "+c.point, func(t *testing.T) {
			t.Parallel()
			askAndKill(t, c.point, c.least)
		})
	}
}

// listThenNote looks at the workspace, which taints the turn, and then writes into the memory that every prompt has.
func listThenNote(r llmtest.Request) llmtest.Answer {
	switch toolResults(r) {
	case 0:
		return llmtest.ToolCalls(llmtest.Call{ID: "a", Name: "fs_search", Args: `{"pattern":"."}`})
	case 1:
		return llmtest.ToolCalls(llmtest.Call{
			ID: "b", Name: "memory_write",
			Args: `{ "scope": "global", "content": "NOTE <b>" }`,
		})
	}
	return llmtest.Text("done")
}

func askAndKill(t *testing.T, point string, least int) {
	model := httptest.NewServer(llmtest.New(listThenNote))
	t.Cleanup(model.Close)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none", "COREBOT_WEBHOOK_ENABLED=false",
		},
	}
	s.output("init")
	s.output("admin", "grant", "cli:local:"+strconv.Itoa(os.Getuid()))
	usual := s.env
	s.env = append(slices.Clone(usual), "COREBOT_FAULT="+point)
	s.startAndWait()
	s.env = usual
	s.try("send", "--id", "first", "look around")
	early := strings.HasPrefix(point, "ask.") || strings.HasSuffix(point, "#1")
	if early {
		s.wantKilled()
		s.startAndWait()
		s.try("send", "--id", "first", "look around")
	}
	s.awaitAsked()
	if point == "" {
		s.kill()
		s.startAndWait()
	}
	s.try("approvals", "approve", "1")
	if !early && point != "" {
		s.wantKilled()
		s.startAndWait()
		s.try("approvals", "approve", "1") // as whoever saw no answer does
	}
	books := s.awaitEnds(crashStory{})
	if b := books["first"]; b.End != "answered" || b.replies() != 1 || len(b.Replies) != 2 { // the call was shown once
		t.Errorf("the message: %+v", b)
	}
	memory, err := os.ReadFile(filepath.Join(s.home, "workspace", "memory", "MEMORY.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(memory), "NOTE <b>"); n < least || n > 1 {
		t.Errorf("it ran %d times, want %d to 1", n, least)
	}
	trail := s.output("audit", "--json")
	for _, event := range []string{"approval.request", "approval.approve"} {
		if n := strings.Count(trail, `"event":"`+event+`"`); n != 1 {
			t.Errorf("the audit has %s %d times", event, n)
		}
	}
	s.terminate()
	s.output("db", "check")
	s.output("audit", "verify")
}

// awaitAsked waits until a call waits for an approval, and its turn no longer runs.
func (s *service) awaitAsked() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var b struct{ State string }
		if err := json.Unmarshal([]byte(s.output("why", "--json", "first")), &b); err == nil &&
			b.State == "waiting: approval" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("nothing waits: %s", s.output("why", "first"))
		}
	}
}

// TestKilledWhileAnApprovalIsBoundItIsBoundOnce kills the daemon around the commit of an answer that lasts, and around
// the call that it lets run. The answer, its rule and the end of the wait are one commit.
func TestKilledWhileAnApprovalIsBoundItIsBoundOnce(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, point := range long.Every(3, []string{
		"approve.before", "approve.after", "step.tool.intended.before", "tool.before",
	}) {
		t.Run("at "+point, func(t *testing.T) {
			t.Parallel()
			s := newHome(t)
			usual := append(slices.Clone(s.env), "COREBOT_WEBHOOK_ENABLED=false", "COREBOT_APPROVALS_ALWAYS=fs.write")
			s.env = usual
			s.output("init")
			s.env = append(slices.Clone(usual), "COREBOT_FAULT="+point)
			s.startAndWait()
			s.env = usual
			s.try("send", "--id", "first", `/tool fs.write {"path":"notes/a.md","content":"one"}`)
			s.awaitAsked()
			s.try("approvals", "approve", "1", "--always")
			s.wantKilled()
			if rules := strings.Count(s.output("approvals", "rules", "--json"), `"id":1`); rules > 1 {
				t.Errorf("after the crash there are %d rules", rules)
			}
			s.startAndWait()
			s.try("approvals", "approve", "1", "--always") // as whoever saw no answer does
			if b := s.awaitEnds(crashStory{})["first"]; b.End != "answered" {
				t.Errorf("the message: %+v", b)
			}
			s.output("send", "--wait", `/tool fs.write {"path":"notes/b.md","content":"two"}`)
			if two, err := os.ReadFile(filepath.Join(s.home, "workspace", "notes", "b.md")); string(two) != "two" {
				t.Errorf("the rule lets nothing run: %q, %v", two, err)
			}
			trail := s.output("audit", "--json")
			for _, event := range []string{"approval.request", "approval.approve", "approval.bind"} {
				if n := strings.Count(trail, `"event":"`+event+`"`); n != 1 {
					t.Errorf("the audit has %s %d times", event, n)
				}
			}
			if rules := s.output("approvals", "rules", "--json"); strings.Count(rules, "\n") != 1 {
				t.Errorf("the rules are %s", rules)
			}
			s.terminate()
			s.output("db", "check")
			s.output("audit", "verify")
		})
	}
}

// TestKilledAroundADetachedRequestItsCallRunsOnceIfAtAll kills the daemon at each step of a detached request: where it
// is asked, detached, answered and approved, and where its own turn then runs the call.
func TestKilledAroundADetachedRequestItsCallRunsOnceIfAtAll(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	type step struct {
		point string
		late  bool // only the approval leads there
		least int  // how often the call has run at least; never more than once
	}
	for _, c := range long.Every(7, []step{
		{"turn.after#1", false, 1},
		{"ask.before#2", false, 1},
		{"ask.after#2", false, 1},
		{"step.tool.done.before#2", false, 1},
		{"step.tool.done.after#2", false, 1},
		{"turn.before#2", false, 1},
		{"turn.after#2", false, 1},
		{"", true, 1},
		{"approve.before", true, 1},
		{"approve.after", true, 1},
		{"ask.before#3", true, 1},
		{"ask.after#3", true, 1},
		{"step.tool.intended.before", true, 1},
		{"tool.before", true, 0},
		{"tool.after#3", true, 1},
		{"step.tool.done.after#3", true, 1},
		{"turn.before#3", true, 1},
		{"turn.after#3", true, 1},
	}) {
		t.Run("at "+c.point, func(t *testing.T) {
			t.Parallel()
			detachAndKill(t, c.point, c.late, c.least)
		})
	}
}

// runsDetached is the message whose turn makes the calls of the first request.
const runsDetached = "corebot:approval/1/run"

func detachAndKill(t *testing.T, point string, late bool, least int) {
	model := httptest.NewServer(llmtest.New(func(r llmtest.Request) llmtest.Answer {
		if strings.Contains(lastUser(r), "[corebot] Approval 1") {
			return llmtest.Text("told")
		}
		return listThenNote(r)
	}))
	t.Cleanup(model.Close)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none", "COREBOT_WEBHOOK_ENABLED=false", "COREBOT_APPROVALS_ANSWER_AFTER=500ms",
		},
	}
	s.output("init")
	s.output("admin", "grant", "cli:local:"+strconv.Itoa(os.Getuid()))
	usual := s.env
	s.env = append(slices.Clone(usual), "COREBOT_FAULT="+point)
	s.startAndWait()
	s.env = usual
	s.try("send", "--id", "first", "look around")
	if !late {
		s.wantKilled()
		s.startAndWait()
		s.try("send", "--id", "first", "look around")
	}
	if b := s.awaitEnds(crashStory{})["first"]; b.End != "answered" || b.replies() != 1 {
		t.Errorf("the message: %+v", b)
	}
	if point == "" {
		s.kill()
		s.startAndWait()
	}
	if listed := s.output("approvals", "list", "--json"); strings.Count(listed, `"detached":true`) != 1 {
		t.Errorf("what waits is %s", listed)
	}
	s.try("approvals", "approve", "1")
	if late && point != "" {
		s.wantKilled()
		s.startAndWait()
		s.try("approvals", "approve", "1") // as whoever saw no answer does
	}
	runs := s.awaitEnds(crashStory{rest: map[string]string{runsDetached: ""}})[runsDetached]
	if runs.End != "answered" || runs.replies() != 1 {
		t.Errorf("the message of the request: %+v", runs)
	}
	memory, _ := os.ReadFile(filepath.Join(s.home, "workspace", "memory", "MEMORY.md"))
	if n := strings.Count(string(memory), "NOTE <b>"); n < least || n > 1 {
		t.Errorf("it ran %d times, want %d to 1", n, least)
	}
	trail := s.output("audit", "--json")
	for _, event := range []string{"approval.request", "approval.detach", "approval.approve"} {
		if n := strings.Count(trail, `"event":"`+event+`"`); n != 1 {
			t.Errorf("the audit has %s %d times", event, n)
		}
	}
	s.terminate()
	s.output("db", "check")
	s.output("audit", "verify")
}
