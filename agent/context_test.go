package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
)

// costOf is what a request costs by the estimate.
func costOf(r llm.Request) int {
	var count llm.Estimate
	n := 0
	for _, m := range r.Messages {
		n += 4 + count.Count(m.About) + count.Count(m.Text)
	}
	for _, t := range r.Tools {
		n += 4 + count.Count(t.Name) + count.Count(t.Description) + count.Count(string(t.Schema))
	}
	return n
}

func TestTheContextToldIsWhatTheNextRequestCarries(t *testing.T) {
	model := summarized(apptest.Text("- they count messages"), numbered())
	b := newBench(t, apptest.Options{Model: model, Agent: small, Notes: &apptest.Notes{
		IdentityText: "You are a test.", SkillsText: "- counting", Global: "- numbers are whole",
		Chats: map[corebot.Key]string{apptest.Key("a"): "- they like numbers"},
	}})
	due, made := 0, 0
	for i := range 20 {
		told, err := b.Agent.Context(t.Context(), apptest.Key("a"), apptest.Person(apptest.Sender))
		if err != nil {
			t.Fatal(err)
		}
		before := len(summaries(model))
		b.answers(t, fmt.Sprint(i), say40(i))
		last := model.Last()
		said := costOf(llm.Request{Messages: last.Messages[len(last.Messages)-1:]})
		summarizes := len(summaries(model)) > before
		switch {
		case summarizes:
			if made++; told.History+said <= told.CompactsAt {
				t.Errorf("message %d: a summary was made of %d tokens; it was told to be due at %d", i, told.History,
					told.CompactsAt)
			}
		case told.Total()+said != costOf(last):
			t.Errorf("message %d: told %d tokens and the message's %d, the request had %d: %+v", i, told.Total(), said,
				costOf(last), told.Parts)
		}
		if told.History > told.CompactsAt {
			if due++; !summarizes {
				t.Errorf("message %d: a summary was told to be due and was not made", i)
			}
		}
	}
	if made < 2 {
		t.Fatalf("%d summaries were made: the test shows nothing", made)
	}
	told, err := b.Agent.Context(t.Context(), apptest.Key("a"), apptest.Person(apptest.Sender))
	if err != nil {
		t.Fatal(err)
	}
	text := told.Describe(corebot.Accounting{})
	for _, want := range []string{
		"to scripted carries about ", " of 1000 tokens", "- pages of the agent: ", "- skills: ", "- memory: ",
		"- tools: ", "(2 of them)", "- summary: ", "- history: ", "- situation: ", "- kept free for the answer: 200",
		"The summary is of ", "This conversation so far: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
