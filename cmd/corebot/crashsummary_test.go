package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// summaryPoints are the step boundaries of a turn that begins with a summary of older messages. The number is how many
// summaries the model makes in all when the process is killed there.
var summaryPoints = map[string]int64{
	"summary.before": 1, "summary.after": 2, "step.summary.done.before": 2,
	"step.summary.done.after": 1, "model.before#1": 1, "step.model.done.after#1": 1, "turn.before": 1, "turn.after": 1,
}

const summaryText = "- they greeted each other at length"

// TestKilledDuringASummaryATurnGivesOneReplyAndShowsIt kills the real program with SIGKILL around a summary and starts
// it again.
func TestKilledDuringASummaryATurnGivesOneReplyAndShowsIt(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	binary := realProgram(t)
	short := map[string]int64{"step.summary.done.before": 2, "turn.before": 1}
	for point, want := range long.Or(short, summaryPoints) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			var made, shown atomic.Int64
			model := httptest.NewServer(llmtest.New(func(r llmtest.Request) llmtest.Answer {
				if strings.HasPrefix(string(r.Messages[0].Content), "You shorten a conversation") {
					made.Add(1)
					return llmtest.Text(summaryText)
				}
				if strings.Contains(string(r.Messages[1].Content), summaryText) {
					shown.Add(1)
				}
				return twoNotes(r)
			}))
			t.Cleanup(model.Close)
			c := &crash{
				t: t, binary: binary, home: t.TempDir(), model: model.URL + "/v1",
				env: []string{"COREBOT_LLM_CONTEXT_TOKENS=30000"},
			}
			c.talkAtLength()
			if n := made.Load(); n != 0 {
				t.Fatalf("%d summaries were made before the crash", n)
			}
			c.env = []string{"COREBOT_LLM_CONTEXT_TOKENS=11000"} // what was said has no room any more
			c.killedAt(point)
			c.checkAfterRestart(point)
			if n := made.Load(); n != want {
				t.Errorf("%d summaries were made, want %d", n, want)
			}
			if shown.Load() == 0 {
				t.Error("the summary was never shown")
			}
			c.checkSummary()
		})
	}
}

// talks is how many messages talkAtLength has answered, of about 500 tokens each.
const talks = 16

func (c *crash) talkAtLength() {
	c.t.Helper()
	chat := c.command("", "chat")
	chat.Stdin = strings.NewReader(strings.Repeat("say hello "+strings.Repeat("once more ", 250)+"\n", talks))
	if out, err := chat.CombinedOutput(); err != nil {
		c.t.Fatalf("chat: %v\n%s", err, out)
	}
}

// checkSummary: the chat has one, and nothing that it covers is gone.
func (c *crash) checkSummary() {
	t := c.t
	out, err := inside(t.Context(), c.home, "chats", "list", "--json")
	if err != nil {
		c.t.Fatalf("chats list: %v", err)
	}
	var chat struct {
		Key     string
		Summary struct{ Text, Model string }
		History []struct{ Speaker string }
	}
	if err := json.Unmarshal([]byte(out), &chat); err != nil {
		c.t.Fatalf("chats list: %v\n%s", err, out)
	}
	if out, err = inside(t.Context(), c.home, "chats", "show", "--json", "--limit", "1000", chat.Key); err != nil {
		c.t.Fatalf("chats show: %v", err)
	}
	if err := json.Unmarshal([]byte(out), &chat); err != nil {
		c.t.Fatalf("chats show: %v\n%s", err, out)
	}
	if chat.Summary.Text != summaryText || chat.Summary.Model == "" {
		c.t.Errorf("the summary is %+v", chat.Summary)
	}
	for _, look := range []struct {
		args []string
		want string
	}{
		{[]string{"chats", "show", chat.Key}, "of older messages, by scripted"},
		{[]string{"why", "job"}, ": older messages were summarised by scripted"},
	} {
		if out, err := inside(t.Context(), c.home, look.args...); err != nil || !strings.Contains(out, look.want) {
			t.Errorf("%v: %v\n%s\nlacks %q", look.args, err, out, look.want)
		}
	}
	said := 0
	for _, e := range chat.History {
		if e.Speaker == "user" {
			said++
		}
	}
	if said != talks+2 {
		c.t.Errorf("%d messages of the user are in the history, want %d", said, talks+2)
	}
}
