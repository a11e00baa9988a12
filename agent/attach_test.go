package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
)

// attaches is a tool that adds a file to the reply, named by its argument.
func attaches() tools.Tool {
	return tools.NewAttaching("history.search", "A tool of a test.", tools.Idempotent,
		func(_ context.Context, _ tools.Call, a struct {
			Text string `json:"text"`
		},
		) (corebot.Part, string, error) {
			return corebot.Part{Type: corebot.PartFile, Name: a.Text, Hash: "ab"}, "it goes with the answer", nil
		})
}

func calls(names ...string) apptest.Reply {
	var all []corebot.ToolCall
	for i, name := range names {
		args, _ := json.Marshal(map[string]string{"text": name}) // texts are always JSON
		all = append(all, corebot.ToolCall{ID: fmt.Sprint("c", i), Tool: "history.search", Args: args})
	}
	return apptest.Asks(all...)
}

func attachedTo(t *testing.T, r corebot.Result) (names []string) {
	t.Helper()
	if len(r.Replies) != 1 || r.Replies[0].Kind != corebot.KindReply {
		t.Fatalf("%+v", r.Replies)
	}
	for _, p := range corebot.Attachments(r.Replies[0].Parts) {
		names = append(names, p.Name)
	}
	return names
}

func TestTheReplyHasTheTextAndEachFileOnce(t *testing.T) {
	for text, parts := range map[string]int{"here": 3, "": 2} {
		b := newBench(t, apptest.Options{Tools: []tools.Tool{attaches()}}, calls("a", "b", "a"), apptest.Text(text))
		r, err := b.turn(t, "send them")
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(attachedTo(t, r)); got != "[a b]" || r.Replies[0].Text() != text {
			t.Errorf("the reply is %+v", r.Replies[0])
		}
		if last := r.History[len(r.History)-1]; last.Speaker != corebot.SpeakerAssistant || len(last.Parts) != parts {
			t.Errorf("the history ends with %+v", last)
		}
	}
}

func TestAReplyTakesSoManyFiles(t *testing.T) {
	var names []string
	for i := range corebot.MaxAttached + 1 {
		names = append(names, fmt.Sprint("f", i))
	}
	b := newBench(t, apptest.Options{Tools: []tools.Tool{attaches()}}, calls(names...), apptest.Text("here"))
	r, err := b.turn(t, "send them")
	if err != nil {
		t.Fatal(err)
	}
	if got := attachedTo(t, r); len(got) != corebot.MaxAttached || got[9] != "f9" {
		t.Errorf("%q", got)
	}
	refused := r.History[len(r.History)-2]
	if refused.Speaker != corebot.SpeakerTool || refused.CallID != "c10" ||
		refused.Text() != "error: the answer of this turn takes no file: it has 10 already, or goes to no chat" {
		t.Errorf("the model reads %+v", refused)
	}
}

func TestTheAnswerOfAJobTakesNoFile(t *testing.T) {
	b := newBench(t, apptest.Options{Tools: []tools.Tool{attaches()}}, calls("a"), apptest.Text("here"))
	b.Say("a", "1", "send it")
	d := b.Claim()
	d.Message.Child = &corebot.Child{
		Job: 7, Tools: []string{"history.search"}, Budget: corebot.JobBudget{Tokens: 100_000, Calls: 9},
	}
	r, err := b.Agent.Turn(t.Context(), d)
	if err != nil || len(r.Replies) != 0 || r.Outcome.Says == nil || b.model.Requests() == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	requests := b.model.Requests()
	told := requests[len(requests)-1].Messages
	if last := told[len(told)-1].Text; last !=
		"error: the answer of this turn takes no file: it has 10 already, or goes to no chat" {
		t.Errorf("the model reads %q", last)
	}
}
