package main

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage"
)

// factPoints are the step boundaries of a turn that looks for facts before it summarises. The number is how often the
// model is asked for facts in all when the process is killed there.
var factPoints = map[string]int64{
	"facts.before": 1, "facts.after": 2, "step.facts.done.before": 2, "step.facts.done.after": 1, "facts.stored": 1,
	"summary.before": 1, "summary.after": 1,
}

// TestKilledWhileItLooksForFactsATurnStoresEachOnce kills the real program with SIGKILL around facts and starts it
// again.
func TestKilledWhileItLooksForFactsATurnStoresEachOnce(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	binary := realProgram(t)
	short := map[string]int64{"step.facts.done.before": 2, "facts.stored": 1}
	for point, want := range long.Or(short, factPoints) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			model := httptest.NewServer(llmtest.New(func(r llmtest.Request) llmtest.Answer {
				switch first := string(r.Messages[0].Content); {
				case strings.HasPrefix(first, "You find lasting facts"):
					asked.Add(1)
					return llmtest.Text(`{"facts":[{"message":1,"subject":"speaker","relation":"says",` +
						`"object":"hello"}]}`)
				case strings.HasPrefix(first, "You shorten a conversation"):
					return llmtest.Text(summaryText)
				}
				return twoNotes(r)
			}))
			t.Cleanup(model.Close)
			c := &crash{
				t: t, binary: binary, home: t.TempDir(), model: model.URL + "/v1",
				env: []string{"COREBOT_LLM_CONTEXT_TOKENS=30000", "COREBOT_MEMORY_FACTS=true"},
			}
			c.talkAtLength()
			c.env[0] = "COREBOT_LLM_CONTEXT_TOKENS=11000" // what was said has no room any more
			c.killedAt(point)
			c.checkAfterRestart(point)
			if n := asked.Load(); n != want {
				t.Errorf("the model was asked for facts %d times, want %d", n, want)
			}
			c.checkSummary()
			c.checkFacts()
		})
	}
}

// checkFacts: the chat has the one fact that its sender said.
func (c *crash) checkFacts() {
	c.t.Helper()
	db, err := storage.OpenReader(c.t.Context(), filepath.Join(c.home, "data"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	chats, _, err := storage.NewChats(db).Page(c.t.Context(), "", "", 10)
	if err != nil || len(chats) == 0 {
		c.t.Fatal(chats, err)
	}
	var found []corebot.Fact
	for _, chat := range chats {
		facts, err := storage.NewFacts(db).Page(c.t.Context(), chat.Key, true, 10)
		if err != nil {
			c.t.Fatal(err)
		}
		found = append(found, facts...)
	}
	if len(found) != 1 || found[0].Object != "hello" || found[0].Taint != "" {
		c.t.Errorf("the facts are %s", fmt.Sprintf("%+v", found))
	}
}
