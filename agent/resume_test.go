package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
)

// recorder keeps what is journaled, in order.
type recorder struct {
	agent.Journal
	steps []corebot.Step
}

func (r *recorder) Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error {
	r.steps = append(r.steps, s)
	return r.Journal.Record(ctx, d, s, events...)
}

// after is the journal as the first n records left it.
func (r *recorder) after(n int) (journal []corebot.Step) {
	for _, s := range r.steps[:n] {
		if s.Position == len(journal) {
			journal = append(journal, s)
		} else {
			journal[s.Position] = s
		}
	}
	return journal
}

// scriptOfTurns answers by how many of the model's answers are in the context: the same in every attempt.
func scriptOfTurns(replies ...apptest.Reply) *apptest.Model {
	return apptest.Always(func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
		n := 0
		for _, m := range r.Messages {
			if m.Role == llm.Assistant {
				n++
			}
		}
		return replies[n](ctx, r, onText)
	})
}

func TestATurnResumesFromEveryPrefixOfItsJournal(t *testing.T) {
	script := func() *apptest.Model {
		return scriptOfTurns(
			apptest.Asks(call("c", search, "one"), call("d", fetch, "two")),
			apptest.Asks(call("c", fetch, "three")), // the model uses an id again
			apptest.Text("done"))
	}
	journal := &recorder{}
	whole := newBench(t, apptest.Options{Model: script(), Journal: func(j agent.Journal) agent.Journal {
		journal.Journal = j
		return journal
	}})
	full, err := whole.turn(t, "go")
	if err != nil {
		t.Fatal(err)
	}
	if len(journal.steps) != 7 {
		t.Fatalf("%d records, want 2 answers, 1 search and twice 2 for a fetch", len(journal.steps))
	}
	for n := range len(journal.steps) + 1 {
		t.Run(fmt.Sprintf("after %d records", n), func(t *testing.T) { resume(t, script(), journal.after(n), full) })
	}
}

// resume runs the turn again from a journal and compares it with the turn that was never interrupted.
func resume(t *testing.T, model *apptest.Model, journal []corebot.Step, full corebot.Result) {
	b := newBench(t, apptest.Options{Model: model})
	b.Say("a", "1", "go")
	d := b.Claim()
	d.Journal = journal
	got, err := b.Agent.Turn(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	want := apptest.Transcript(full.History)
	models, ran, unknown := 0, map[string]int{}, ""
	for _, s := range journal {
		switch {
		case s.Kind == corebot.StepModel:
			models++
		case s.State == corebot.StepDone:
			ran[s.Call.Tool]++
		default:
			ran[s.Call.Tool]++
			unknown = "tool: " + s.Call.Tool + " of " + strings.Split(string(s.Call.Args), `"`)[3]
		}
	}
	history := apptest.Transcript(got.History)
	for i, line := range want {
		if line == unknown { // its intent is on disk and its outcome is not
			line = "tool: unknown: "
			history[i] = history[i][:min(len(line), len(history[i]))]
			want[i] = line
		}
	}
	if !slices.Equal(history, want) {
		t.Errorf("the history is\n%q, want\n%q", history, want)
	}
	if n := len(model.Requests()); n != 3-models {
		t.Errorf("the model was asked %d times with %d answers in the journal", n, models)
	}
	if n := b.runs[search] + ran[search]; n != 1 {
		t.Errorf("the search ran %d times", n)
	}
	if n := b.runs[fetch] + ran[fetch]; n != 2 {
		t.Errorf("the fetches ran %d times", n)
	}
	if !slices.Equal(got.Spent, full.Spent) {
		t.Errorf("beside the journal it spent %+v, want %+v", got.Spent, full.Spent)
	}
}

func TestAnIntendedCallIsHandedOverAsIntended(t *testing.T) {
	var seen []bool
	b := newBench(t, apptest.Options{}, apptest.Asks(call("c", fetch, "x")), apptest.Text("done"))
	b.Say("a", "1", "go")
	d := b.Claim()
	c := call("c", fetch, "x")
	answer := corebot.Answer{Calls: []corebot.ToolCall{c}}
	d.Journal = []corebot.Step{
		{Position: 0, Kind: corebot.StepModel, State: corebot.StepDone, Answer: &answer},
		{Position: 1, Kind: corebot.StepTool, State: corebot.StepIntended, Call: &c},
	}
	a, err := agent.New(agent.Parts{
		Model: b.model, Tools: &witness{seen: &seen}, Journal: b.Ledger, History: b.History,
		Notes: &apptest.Notes{}, Roles: b.Grants,
	}, agent.Options{Tokenizer: llm.Estimate{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Turn(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	// The journaled call is intended; the one that the model makes after it is new.
	if !slices.Equal(seen, []bool{true, false}) {
		t.Errorf("the calls were handed over as intended: %v", seen)
	}
}

// witness notes whether calls are handed over as intended.
type witness struct{ seen *[]bool }

func (w *witness) Begin(context.Context) (agent.Toolset, func()) { return w, func() {} }

func (w *witness) Offer(context.Context, corebot.Caller) ([]llm.Tool, error) { return nil, nil }

func (w *witness) Call(_ context.Context, _ corebot.Caller, _ corebot.ToolCall,
	s agent.Step,
) (corebot.ToolResult, error) {
	*w.seen = append(*w.seen, s.State() == corebot.StepIntended)
	if want := fmt.Sprintf("1/1/%d", 2*len(*w.seen)-1); s.ID() != want {
		return corebot.ToolResult{}, fmt.Errorf("step %s, want %s", s.ID(), want)
	}
	return corebot.ToolResult{Outcome: corebot.OutcomeSuccess, Content: "ok"}, nil
}

func TestALowerLimitAfterARestartTakesNoJournaledStepForTheLastWord(t *testing.T) {
	b := newBench(t, apptest.Options{Agent: agent.Options{MaxIterations: 1}}, apptest.Text("what I have"))
	b.Say("a", "1", "go")
	d := b.Claim()
	for i := range 2 { // two rounds were made when two were allowed
		c := call("c", search, fmt.Sprint(i))
		d.Journal = append(d.Journal,
			corebot.Step{
				Position: 2 * i, Kind: corebot.StepModel, State: corebot.StepDone,
				Answer: &corebot.Answer{Calls: []corebot.ToolCall{c}},
			},
			corebot.Step{
				Position: 2*i + 1, Kind: corebot.StepTool, State: corebot.StepDone, Call: &c,
				Result: &corebot.ToolResult{Content: "found"},
			})
	}
	r, err := b.Agent.Turn(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"user: go", `assistant: web.search({"text":"0"})`, "tool: found", "assistant: what I have"}
	if got := apptest.Transcript(r.History); !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
}
