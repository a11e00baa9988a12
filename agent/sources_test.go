package agent_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
)

// saysAs runs the turn of one message of somebody, and commits it.
func (b *bench) saysAs(t *testing.T, who, id, text string) {
	t.Helper()
	b.SayAs(who, "a", id, text)
	d := b.Claim()
	r, err := b.Agent.Turn(t.Context(), d)
	if err == nil {
		err = b.Ledger.Commit(t.Context(), d, r)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// callsWhatIsNamed calls the tool that the last message names behind "call ", once, and else answers at length.
func callsWhatIsNamed() *apptest.Model {
	return summarized(apptest.Text("- they count messages"),
		func(ctx context.Context, r llm.Request, on func(string)) (corebot.Answer, error) {
			last := r.Messages[len(r.Messages)-1]
			tool := ""
			if _, err := fmt.Sscanf(last.Text, "call %s", &tool); err == nil && last.Role == llm.User {
				return apptest.Asks(call("c", tool, "x"))(ctx, r, on)
			}
			return apptest.Text(say40(0))(ctx, r, on)
		})
}

// TestASummaryIsAsCleanAsWhatItIsMadeOf has a session summarised, once or twice, before a turn that is asked what has
// tainted it. Of the session before the summary nothing else is left in the prompt.
func TestASummaryIsAsCleanAsWhatItIsMadeOf(t *testing.T) {
	const ofOthers = "a summary of what other people said before"
	for name, c := range map[string]struct {
		first, who string // what is said first, and by whom
		off        bool   // nothing is summarised: it is left out
		until      int    // messages of root
		want       string
	}{
		"the own words":             {"hello", "root", false, 14, ""},
		"the own words, twice":      {"hello", "root", false, 24, ""},
		"a result from outside":     {"call skills.read", "root", false, 14, "a summary of what was said before"},
		"the same, twice":           {"call skills.read", "root", false, 24, "a summary of what was said before"},
		"another's words":           {"hello", "bob", false, 14, ofOthers},
		"the same of others, twice": {"hello", "bob", false, 24, ofOthers},
		"a sender without an id":    {"hello", "", false, 14, ofOthers},
		"what is left out":          {"hello", "root", true, 14, ""},
		"what came of a result that is left out": {
			"call skills.read", "root", true, 14,
			"an answer of an earlier turn that had read such text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var taints []string
			o := small
			o.Compaction = agent.Compaction{Off: c.off}
			b := newBench(t, apptest.Options{
				Model: callsWhatIsNamed(), Agent: o, Tools: []tools.Tool{outsiders(), spy(&taints)},
			})
			b.saysAs(t, c.who, "first", c.first)
			for i := range c.until {
				b.saysAs(t, "root", fmt.Sprint(i), say40(i))
			}
			s := b.summary(t)
			if s.Through == 0 != c.off {
				t.Fatalf("the summary is %+v", s)
			}
			for _, e := range b.Said("a") { // what the summary does not cover is as clean as can be
				if !c.off && e.Seq > s.Through && e.Text() == c.first {
					t.Fatal("the first message is not in the summary")
				}
			}
			b.saysAs(t, "root", "last", "call "+spied)
			if len(taints) != 1 || taints[0] != c.want {
				t.Errorf("tainted by %q, want %q", taints, c.want)
			}
		})
	}
}
