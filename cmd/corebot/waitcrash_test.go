package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
)

var waitCycles = long.Int("wait.cycles", 4, 23, "how often the program is killed at a step of a call that waits")

// waitSteps are the steps of calls that wait, in turn with the calls. The first is no step: the program is killed while
// the call waits.
func waitSteps() (steps [][2]string) {
	wakes := []string{
		"", "wait.before#2", "wait.after#2", "step.tool.done.before", "step.tool.done.after", "turn.before#2",
		"turn.after#2",
	}
	for _, s := range []struct {
		call   string
		points []string
	}{
		{`/tool wait.word {"for":"it"}`, slices.Concat(waitBegins, wordComes, wakes)},
		{`/tool wait.until {"duration":"2s"}`, slices.Concat(waitBegins[1:2], wakes)},
		{`/tool wait.until {"duration":"61s"}`, wordComes},
	} {
		for _, point := range s.points {
			steps = append(steps, [2]string{s.call, point})
		}
	}
	return steps
}

var (
	waitBegins = []string{"wait.before#1", "wait.after#1", "turn.before#1", "turn.after#1"}
	wordComes  = []string{"resume.before", "resume.after"}
)

// TestKilledWhileACallWaitsItIsWokenOnce kills the daemon where a call begins to wait, while it waits, where its word
// or its time comes, where it wakes, and where its turn ends. Each time it starts the daemon again (guarantees G1 to
// G6).
func TestKilledWhileACallWaitsItIsWokenOnce(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	steps := waitSteps()
	for cycle := range waitCycles() {
		step := steps[cycle*5%len(steps)] // of every kind, also in a short run
		call, point := step[0], step[1]
		t.Run(fmt.Sprintf("%s at %s/%d", strings.Fields(call)[1], point, cycle/len(steps)), func(t *testing.T) {
			t.Parallel()
			waitAndKill(t, call, point, slices.Contains(waitBegins, point))
		})
	}
}

func waitAndKill(t *testing.T, call, point string, early bool) {
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{"COREBOT_LLM_OFFLINE=true", "COREBOT_WEBHOOK_ENABLED=false"},
	}
	s.output("init")
	usual := s.env
	s.env = append(slices.Clone(usual), "COREBOT_FAULT="+point)
	s.startAndWait()
	s.env = usual
	s.try("send", "--id", "first", call)
	asleep := !strings.Contains(call, `"2s"`)
	if early {
		s.wantKilled()
		s.startAndWait()
		s.try("send", "--id", "first", call)
	}
	if asleep || point == "" {
		s.awaitWaiting()
	}
	if point == "" {
		s.kill()
		s.startAndWait()
	}
	if asleep {
		s.try("resume", "1", "the word")
	}
	if !early && point != "" {
		s.wantKilled()
		s.startAndWait()
		s.try("resume", "1", "the word") // as whoever saw no answer does
	}
	books := s.awaitEnds(crashStory{})
	if b := books["first"]; b.End != "answered" || b.replies() != 1 {
		t.Errorf("the message: %+v", b)
	}
	trail := s.output("audit", "--json")
	for event, most := range map[string]int{"wait.begin": 1, "wait.word": 1, "tool.result": 1} {
		n := strings.Count(trail, `"event":"`+event+`"`)
		if n > most || n == 0 && (event != "wait.word" || asleep) {
			t.Errorf("the audit has %s %d times", event, n)
		}
	}
	if all := s.output("waits", "list", "--all", "--json"); strings.Count(all, "\n") != 1 ||
		!strings.Contains(all, `"state":"over"`) {
		t.Errorf("the waits are %s", all)
	}
	s.terminate()
	s.output("db", "check")
	s.output("audit", "verify")
}

// awaitWaiting waits until a call waits, and its turn no longer runs.
func (s *service) awaitWaiting() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var b struct{ State string }
		if err := json.Unmarshal([]byte(s.output("why", "--json", "first")), &b); err == nil &&
			(b.State == "waiting: a word" || b.State == "waiting: a time") {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("nothing waits: %s", s.output("why", "first"))
		}
	}
}
