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

var jobCycles = long.Int("job.cycles", 2, 8, "how often the program is killed at a step of child turns")

// jobPoints are the steps of a message whose turn gives work to three child turns. Each of these begins, calls a tool
// and ends. The parent sleeps, wakes and ends.
func jobPoints() (points []string) {
	for what, times := range map[string]int{
		"wait": 3, "step.model.done": 4, "step.tool.done": 6, "turn": 5,
	} {
		for n := 1; n <= times; n++ {
			for _, when := range []string{"before", "after"} {
				points = append(points, fmt.Sprintf("%s.%s#%d", what, when, n))
			}
		}
	}
	slices.Sort(points)
	return points
}

// TestKilledWhileChildTurnsWorkEachHasOneResult kills the daemon at a step of child turns, and starts it again
// (guarantees G1 to G6).
func TestKilledWhileChildTurnsWorkEachHasOneResult(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	points := jobPoints()
	for cycle := range jobCycles() {
		point := points[cycle*5%len(points)] // of every kind, also in a short run
		t.Run(fmt.Sprintf("%s/%d", point, cycle/len(points)), func(t *testing.T) {
			t.Parallel()
			// in the background the parent does not sleep: there are four turns
			killAtJobs(t, point, cycle%2 == 1 && !strings.HasSuffix(point, "#5"))
		})
	}
}

func killAtJobs(t *testing.T, point string, background bool) {
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{"COREBOT_LLM_OFFLINE=true", "COREBOT_WEBHOOK_ENABLED=false"},
	}
	s.output("init")
	usual := s.env
	s.env = append(slices.Clone(usual), "COREBOT_FAULT="+point)
	s.startAndWait()
	s.env = usual
	var lines []string
	for range 3 {
		args, _ := json.Marshal(map[string]any{
			"prompt": `/tool memory.read {"scope":"chat"}`, "background": background,
		})
		lines = append(lines, "/tool agent.run "+string(args))
	}
	text := strings.Join(lines, "\n")
	s.try("send", "--id", "first", text)
	s.wantKilled()
	s.startAndWait()
	s.try("send", "--id", "first", text) // as whoever saw no answer does
	if b := s.awaitEnds(crashStory{})["first"]; b.End != "answered" || b.replies() != 1 {
		t.Errorf("the message: %+v", b)
	}
	all := s.awaitJobs()
	if strings.Count(all, "\n") != 3 || strings.Count(all, `"state":"done"`) != 3 {
		t.Errorf("the jobs are %s", all)
	}
	trail := s.output("audit", "--json")
	for _, event := range []string{"job.begin", "job.end"} {
		if n := strings.Count(trail, `"event":"`+event+`"`); n != 3 {
			t.Errorf("the audit has %s %d times", event, n)
		}
	}
	if n := strings.Count(trail, `"event":"tool.result"`); n != 6 {
		t.Errorf("the audit has %d results", n)
	}
	if waits := s.output("waits", "list", "--all", "--json"); strings.Count(waits, `"state":"over"`) != 3 {
		t.Errorf("the waits are %s", waits)
	}
	s.terminate()
	s.output("db", "check")
	s.output("audit", "verify")
}

// awaitJobs waits until no job is open, and lists all.
func (s *service) awaitJobs() string {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if s.output("jobs", "list", "--json") == "" {
			return s.output("jobs", "list", "--all", "--json")
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("jobs are open: %s", s.output("jobs", "list"))
		}
	}
}
