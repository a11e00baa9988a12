package main

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// TestKilledWhileAMessageIsDeferredNothingIsLostOrDoubled kills the daemon where a message over the budget leaves its
// lane, where it waits and where it comes back. At the end it lifts the budget (guarantees G1 to G6).
func TestKilledWhileAMessageIsDeferredNothingIsLostOrDoubled(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, point := range long.Every(3, []string{
		"turn.before#2", "turn.after#2", "commit.before#6", "release.before",
		"release.after", "",
	}) {
		t.Run("at "+point, func(t *testing.T) {
			t.Parallel()
			deferAndKill(t, point)
		})
	}
}

func deferAndKill(t *testing.T, point string) {
	model := httptest.NewServer(llmtest.New(llmtest.Always(llmtest.Text("done"))))
	t.Cleanup(model.Close)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none", "COREBOT_WEBHOOK_ENABLED=false",
		},
	}
	s.output("init")
	unlimited := s.env
	s.env = append(slices.Clone(unlimited), "COREBOT_BUDGET_CHAT_DAILY_TOKENS=1")
	capped := s.env
	s.env = append(slices.Clone(capped), "COREBOT_FAULT="+point)
	s.startAndWait()
	s.env = capped
	s.try("send", "--wait", "--id", "first", "one") // uses the budget up
	s.try("send", "--id", "over", "two")
	if strings.HasPrefix(point, "release") {
		s.try("deferred", "release", s.awaitDeferred("over"))
	}
	if point == "" {
		s.awaitDeferred("over")
		s.kill()
	} else {
		s.wantKilled()
	}
	s.startAndWait() // what was deferred comes back, and is deferred again
	s.try("send", "--id", "first", "one")
	s.try("send", "--id", "over", "two") // as a platform does that got no acknowledgement
	s.awaitEnds(crashStory{})
	s.kill()

	s.env = unlimited
	s.startAndWait()
	books := s.awaitEnds(crashStory{rest: map[string]string{"over": ""}})
	for id, b := range books {
		if b.End != "answered" || b.replies() != 1 || len(b.Replies) > 2 { // one notice at most says that it waited
			t.Errorf("message %s: %+v", id, b)
		}
	}
	s.terminate()
	s.output("db", "check")
}

// awaitDeferred waits until a message is deferred, and gives the id that it is released by.
func (s *service) awaitDeferred(message string) string {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		out := s.output("deferred", "list", "--json")
		for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
			var row struct {
				ID        json.Number
				MessageID string
			}
			if json.Unmarshal([]byte(line), &row) == nil && row.MessageID == message {
				return row.ID.String()
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("message %s is not deferred: %s", message, out)
		}
	}
}
