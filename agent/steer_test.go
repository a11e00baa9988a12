package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
)

// keeper keeps the journal of a turn as it grows, with what the turn merged.
type keeper struct {
	agent.Journal
	steps []corebot.Step
}

func (k *keeper) keep(s corebot.Step) {
	if s.Position == len(k.steps) {
		k.steps = append(k.steps, s)
	} else {
		k.steps[s.Position] = s
	}
}

func (k *keeper) Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error {
	k.keep(s)
	return k.Journal.Record(ctx, d, s, events...)
}

func (k *keeper) Merge(ctx context.Context, d corebot.Delivery, position int) ([]corebot.Step, error) {
	steps, err := k.Journal.Merge(ctx, d, position)
	for _, s := range steps {
		k.keep(s)
	}
	return steps, err
}

// steered is a model that asks for a search and two fetches, and then for another fetch.
func steered() *apptest.Model {
	return scriptOfTurns(
		apptest.Asks(call("c", search, "one"), call("d", fetch, "two"), call("e", fetch, "three")),
		apptest.Asks(call("c", fetch, "four")),
		apptest.Text("done"))
}

func TestATurnResumesWithWhatItTookInFromEveryPrefixOfItsJournal(t *testing.T) {
	journal := &keeper{}
	b := newBench(t, apptest.Options{Model: steered(), Journal: func(j agent.Journal) agent.Journal {
		journal.Journal = j
		return journal
	}})
	b.Say("a", "1", "go")
	d := b.Claim()
	b.during(search, func() { b.Say("a", "s", "/steer not the others") })
	full, err := b.Agent.Turn(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"user: go", `assistant: web.search({"text":"one"})web.fetch({"text":"two"})web.fetch({"text":"three"})`,
		"tool: web.search of one",
		"tool: not run: the user said something in the meantime, which follows",
		"tool: not run: the user said something in the meantime, which follows",
		"user: not the others", `assistant: web.fetch({"text":"four"})`, "tool: web.fetch of four", "assistant: done",
	}
	if got := apptest.Transcript(full.History); !slices.Equal(got, want) {
		t.Fatalf("the history is\n%q, want\n%q", got, want)
	}
	heard := slices.IndexFunc(journal.steps, func(s corebot.Step) bool { return s.Kind == corebot.StepMerge })
	if heard != 2 || len(journal.steps) != 5 {
		t.Fatalf("the journal is %+v", journal.steps)
	}
	for n := range len(journal.steps) + 1 {
		t.Run(fmt.Sprintf("after %d steps", n), func(t *testing.T) {
			b := newBench(t, apptest.Options{Model: steered()})
			b.Say("a", "1", "go")
			d := b.Claim()
			d.Journal = journal.steps[:n]
			speak := func() { b.Say("a", "s", "/steer not the others") }
			switch {
			case n < heard:
				b.during(search, speak)
			case n == heard:
				speak()
			}
			got, err := b.Agent.Turn(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if got := apptest.Transcript(got.History); !slices.Equal(got, want) {
				t.Errorf("the history is\n%q, want\n%q", got, want)
			}
			if !slices.Equal(got.Replies[0].Answers(), []string{"1", "s"}) {
				t.Errorf("the reply answers %v", got.Replies[0].Answers())
			}
		})
	}
}

func TestWhatWasTakenInIsHeardAlsoWithALowerLimitAfterARestart(t *testing.T) {
	b := newBench(t, apptest.Options{Agent: agent.Options{MaxIterations: 1}}, apptest.Text("what I have"))
	b.Say("a", "1", "go")
	d := b.Claim()
	c := call("c", search, "x")
	for i := range 2 {
		d.Journal = append(d.Journal,
			corebot.Step{
				Position: 3 * i, Kind: corebot.StepModel, State: corebot.StepDone,
				Answer: &corebot.Answer{Calls: []corebot.ToolCall{c}},
			},
			corebot.Step{
				Position: 3*i + 1, Kind: corebot.StepTool, State: corebot.StepDone, Call: &c,
				Result: &corebot.ToolResult{Content: "found"},
			},
			corebot.Step{
				Position: 3*i + 2, Kind: corebot.StepMerge, State: corebot.StepDone,
				Merged: &corebot.Merged{
					ID: fmt.Sprint("s", i), Sender: d.Message.Sender,
					Parts: corebot.TextPart(fmt.Sprint("said ", i)),
				},
			})
	}
	r, err := b.Agent.Turn(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"user: go", `assistant: web.search({"text":"x"})`, "tool: found", "user: said 0", "user: said 1",
		"assistant: what I have",
	}
	if got := apptest.Transcript(r.History); !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
}

func TestWhatWasCollectedBeforeTheTurnIsHeardAgainWhenItResumes(t *testing.T) {
	b := newBench(t, apptest.Options{}, apptest.Text("done"))
	b.Say("a", "1", "go")
	d := b.Claim()
	d.Journal = []corebot.Step{{
		Kind: corebot.StepMerge, State: corebot.StepDone,
		Merged: &corebot.Merged{ID: "2", Sender: d.Message.Sender, Parts: corebot.TextPart("and more")},
	}}
	r, err := b.Agent.Turn(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := apptest.Transcript(r.History), []string{
		"user: go", "user: and more",
		"assistant: done",
	}; !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
	if first := b.model.Requests()[0].Messages; first[len(first)-1].Text != "and more" {
		t.Errorf("the model was first shown %+v", first)
	}
}

func TestATurnThatNobodySpokeToDoesNotLookBeforeItsFirstCall(t *testing.T) {
	looks := 0
	b := newBench(t, apptest.Options{Journal: func(j agent.Journal) agent.Journal { return counter{j, &looks} }},
		apptest.Text("hi"))
	if _, err := b.turn(t, "hello"); err != nil || looks != 0 {
		t.Errorf("it looked %d times: %v", looks, err)
	}
}

// counter counts how often a turn looks whether somebody spoke.
type counter struct {
	agent.Journal
	looks *int
}

func (c counter) Merge(ctx context.Context, d corebot.Delivery, position int) ([]corebot.Step, error) {
	*c.looks++
	return c.Journal.Merge(ctx, d, position)
}

func TestWhatComesInTheLastRoundWaitsItsTurn(t *testing.T) {
	b := newBench(t, apptest.Options{Agent: agent.Options{MaxIterations: 1}}, apptest.Asks(call("c", search, "x")),
		apptest.Text("what I have"))
	b.during(search, func() { b.Say("a", "s", "/steer more") })
	r, err := b.turn(t, "go")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"user: go", `assistant: web.search({"text":"x"})`, "tool: web.search of x",
		"assistant: what I have",
	}
	if got := apptest.Transcript(r.History); !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
	b.WantEnd("s", "")
	if last := b.model.Last().Messages; last[len(last)-1].Role != llm.User {
		t.Errorf("the model was last shown %+v", last)
	}
}

func TestWhatAStoppedAnswerHasSaidStaysInTheHistory(t *testing.T) {
	for name, c := range map[string]struct {
		said []string // pieces, and "" for what is taken back
		want []string
	}{
		"nothing": {nil, []string{"user: go", "assistant: [stopped by the user]"}},
		"a part": {[]string{"The answer ", "is"}, []string{
			"user: go",
			"assistant: The answer is\n\n[stopped by the user]",
		}},
		"taken back": {[]string{"The answer", "", "No, it"}, []string{
			"user: go",
			"assistant: No, it\n\n[stopped by the user]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			b := newBench(t, apptest.Options{Model: apptest.Script(func(ctx context.Context, r llm.Request,
				onText func(string),
			) (corebot.Answer, error) {
				for _, piece := range c.said {
					if onText(piece); piece == "" {
						r.OnReset()
					}
				}
				stop(corebot.ErrStopped)
				return apptest.Hangs()(ctx, r, onText)
			})})
			b.Say("a", "1", "go")
			r, err := b.Agent.Turn(ctx, b.Claim())
			if got := apptest.Transcript(r.History); !errors.Is(err, corebot.ErrStopped) || !slices.Equal(got, c.want) {
				t.Errorf("%v, and the history is %q", err, got)
			}
		})
	}
}
