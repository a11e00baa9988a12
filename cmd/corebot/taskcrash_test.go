package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/operate"
)

var taskCycles = long.Int("task.cycles", 2, 4, "how often the program is killed at a step of a due time")

// TestKilledWhileATaskIsDueItRunsOnce kills the daemon at each step of a due time, and starts it again (guarantees G1
// to G6).
func TestKilledWhileATaskIsDueItRunsOnce(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	points := []string{"tasks.fire.after", "turn.before", "tasks.fire.before", "turn.after"}
	for cycle := range taskCycles() {
		point := points[cycle%len(points)]
		t.Run(fmt.Sprintf("%s/%d", point, cycle/len(points)), func(t *testing.T) {
			t.Parallel()
			s := &service{
				t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
				env: []string{
					"COREBOT_LLM_OFFLINE=true", "COREBOT_WEBHOOK_ENABLED=false",
					"COREBOT_TASKS_TIME_ZONE=UTC",
				},
			}
			began := time.Now()
			s.output("init")
			// a busy machine takes longer to add the task; it must not wait longer for the time than wantKilled does
			lead := min(3*time.Second+4*time.Since(began), patience/2)
			due := time.Now().UTC().Add(lead).Truncate(time.Second)
			s.output("tasks", "add", "--chat", "cli:x", "--at", due.Format("2006-01-02T15:04:05"), "Reminder: look")
			usual := s.env
			s.env = append(slices.Clone(usual), "COREBOT_FAULT="+point)
			s.startAndWait()
			s.env = usual
			s.wantKilled()
			s.startAndWait()
			task := s.awaitRun()
			if task.State != "done" || len(task.Runs) != 1 || task.Runs[0].Outcome != "answered" {
				t.Errorf("the task is %+v", task)
			}
			var book bookEntry
			if err := json.Unmarshal([]byte(s.output("why", "--json", fmt.Sprintf("corebot:task/1/%d", due.Unix()))),
				&book); err != nil {
				t.Fatal(err)
			}
			if book.End != "answered" || book.replies() != 1 {
				t.Errorf("its message: %+v", book)
			}
			s.terminate()
			s.output("db", "check")
		})
	}
}

// awaitRun waits until the run of the only task has ended.
func (s *service) awaitRun() (task operate.TaskDetail) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out := s.output("tasks", "show", "--json", "1")
		if err := json.Unmarshal([]byte(out), &task); err != nil {
			s.t.Fatalf("%v: %s", err, out)
		}
		if len(task.Runs) > 0 && task.Runs[0].Outcome != "" {
			return task
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the task has not run: %+v", task)
		}
	}
}
