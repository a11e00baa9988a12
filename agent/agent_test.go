package agent_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
)

const (
	search = "web.search" // read-only in these tests
	fetch  = "web.fetch"  // with side effects
)

// bench is an agent with two tools that count their runs.
type bench struct {
	*apptest.Kit
	model *apptest.Model
	runs  map[string]int
	took  time.Duration // of each run
	more  string        // behind each result
	then  map[string]func()
}

func newBench(t *testing.T, o apptest.Options, replies ...apptest.Reply) *bench {
	b := &bench{model: apptest.Script(replies...), runs: map[string]int{}}
	if o.Model == nil {
		o.Model = b.model
	} else if m, ok := o.Model.(*apptest.Model); ok {
		b.model = m
	}
	for name, traits := range map[string]tools.Traits{search: tools.ReadOnly, fetch: tools.SideEffect} {
		o.Tools = append(o.Tools, apptest.Tool(name, traits, func(_ context.Context, text string) (string, error) {
			b.runs[name]++
			time.Sleep(b.took)
			if then := b.then[name]; then != nil {
				then()
			}
			return name + " of " + text + b.more, nil
		}))
	}
	b.Kit = apptest.New(t, o)
	return b
}

// during has something happen while a tool runs.
func (b *bench) during(tool string, then func()) { b.then = map[string]func(){tool: then} }

// turn publishes a prompt and runs its turn, without committing it.
func (b *bench) turn(t *testing.T, text string) (corebot.Result, error) {
	t.Helper()
	b.Say("a", "1", text)
	return b.Agent.Turn(t.Context(), b.Claim())
}

// answers runs a turn that must be answered, and commits it.
func (b *bench) answers(t *testing.T, id, text string) corebot.Result {
	t.Helper()
	b.Say("a", id, text)
	d := b.Claim()
	r, err := b.Agent.Turn(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Ledger.Commit(t.Context(), d, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func call(id, tool, text string) corebot.ToolCall {
	return apptest.Call(id, tool, fmt.Sprintf(`{"text":%q}`, text))
}

// results are the tool messages of a request, as "id: text".
func results(r llm.Request) []string {
	var out []string
	for _, m := range r.Messages {
		if m.Role == llm.ToolRole {
			out = append(out, m.CallID+": "+m.Text)
		}
	}
	return out
}

func TestToolResultsReachTheModelInOrderUnderTheIdsOfTheirCalls(t *testing.T) {
	b := newBench(t, apptest.Options{},
		apptest.Asks(call("x", search, "one"), call("y", fetch, "two"), call("z", search, "three")),
		apptest.Text("done"))
	r, err := b.turn(t, "go")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := results(b.model.Last()), []string{
		"x: web.search of one", "y: web.fetch of two",
		"z: web.search of three",
	}; !slices.Equal(got, want) {
		t.Errorf("the model saw %q, want %q", got, want)
	}
	want := []string{
		"user: go", `assistant: web.search({"text":"one"})web.fetch({"text":"two"})web.search({"text":"three"})`,
		"tool: web.search of one", "tool: web.fetch of two", "tool: web.search of three", "assistant: done",
	}
	if got := apptest.Transcript(r.History); !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
	if len(r.Replies) != 1 || r.Replies[0].ID != "1/1/1" || r.Replies[0].InReplyTo != "1" ||
		r.Replies[0].Kind != corebot.KindReply {
		t.Errorf("the replies are %+v", r.Replies)
	}
	if want := []corebot.ModelUsage{{Model: "scripted", Usage: corebot.Usage{
		InputTokens:  10,
		OutputTokens: 5,
	}}}; !slices.Equal(r.Spent, want) {
		t.Errorf("beside the journal it spent %+v, want the final answer's %+v", r.Spent, want)
	}
}

func TestWhatAModelGetsWrongIsAResultThatItSees(t *testing.T) {
	for name, c := range map[string]struct {
		call corebot.ToolCall
		want string
	}{
		"a tool that does not exist":      {apptest.Call("x", "no.such", `{}`), "unknown_tool"},
		"arguments that are not JSON":     {apptest.Call("x", search, `{"text":`), "invalid_args"},
		"arguments that nobody asked for": {apptest.Call("x", search, `{"text":"a","more":1}`), "invalid_args"},
		"no arguments at all":             {apptest.Call("x", search, ``), "invalid_args"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, apptest.Options{}, apptest.Asks(c.call), apptest.Text("I see"))
			if _, err := b.turn(t, "go"); err != nil {
				t.Fatal(err)
			}
			if got := results(b.model.Last()); len(got) != 1 || !strings.HasPrefix(got[0], "x: "+c.want) {
				t.Errorf("the model saw %q, want %s", got, c.want)
			}
			if len(b.runs) != 0 {
				t.Errorf("tools ran: %v", b.runs)
			}
		})
	}
}

func TestMoreThan64CallsOfOneAnswerAreRefused(t *testing.T) {
	var calls []corebot.ToolCall
	for i := range 70 {
		calls = append(calls, call(fmt.Sprint("c", i), search, fmt.Sprint(i)))
	}
	b := newBench(t, apptest.Options{}, apptest.Asks(calls...), apptest.Text("done"))
	if _, err := b.turn(t, "go"); err != nil {
		t.Fatal(err)
	}
	got := results(b.model.Last())
	if len(got) != 70 || b.runs[search] != 64 || got[63] != "c63: web.search of 63" ||
		!strings.HasPrefix(got[64], "c64: not run") {
		t.Errorf("%d ran, the results are %q", b.runs[search], got)
	}
	if steps := b.Life("1").Steps; len(steps) != 65 {
		t.Errorf("%d steps are journaled, want the answer and 64 calls", len(steps))
	}
}

// wantLastWord fails the test unless the model was asked n times with tools, then once without.
func wantLastWord(t *testing.T, m *apptest.Model, n int) {
	t.Helper()
	all := m.Requests()
	if len(all) != n+1 {
		t.Fatalf("the model was asked %d times, want %d and a last one", len(all), n)
	}
	for i, r := range all {
		if last := i == n; (len(r.Tools) == 0) != last {
			t.Errorf("request %d offers %d tools", i, len(r.Tools))
		}
	}
	if text := m.Last().Messages[len(m.Last().Messages)-1].Text; !strings.HasPrefix(text,
		"[corebot] No more tool calls") {
		t.Errorf("the last request ends with %q", text)
	}
}

// different asks for another call each time, and has words and a call when no tool is left.
func different() *apptest.Model {
	n := 0
	return apptest.Always(func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
		if len(r.Tools) == 0 {
			return corebot.Answer{Text: "what I have", Calls: []corebot.ToolCall{call("late", fetch, "late")}}, nil
		}
		n++
		return apptest.Asks(call(fmt.Sprint("c", n), search, fmt.Sprint(n)))(ctx, r, onText)
	})
}

func TestAfterTheLastIterationTheModelIsAskedOnceWithoutTools(t *testing.T) {
	b := newBench(t, apptest.Options{Model: different(), Agent: agent.Options{MaxIterations: 5}})
	r, err := b.turn(t, "go")
	if err != nil {
		t.Fatal(err)
	}
	wantLastWord(t, b.model, 5)
	if r.Replies[0].Text() != "what I have" || b.runs[fetch] != 0 {
		t.Errorf("the reply is %q, tools ran %v", r.Replies[0].Text(), b.runs)
	}
}

func TestTheSameCallWithTheSameResultThreeTimesEndsTheTools(t *testing.T) {
	same := apptest.Always(func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
		if len(r.Tools) == 0 {
			return corebot.Answer{Text: "I am stuck"}, nil
		}
		return apptest.Asks(call("c", search, "again"))(ctx, r, onText)
	})
	b := newBench(t, apptest.Options{Model: same, Agent: agent.Options{MaxIterations: 8}})
	r, err := b.turn(t, "go")
	if err != nil {
		t.Fatal(err)
	}
	wantLastWord(t, same, 3)
	if r.Replies[0].Text() != "I am stuck" {
		t.Errorf("the reply is %q", r.Replies[0].Text())
	}
}

func TestTheWallClockEndsTheToolsAlsoInTheMiddleOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := apptest.Always(func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
			if len(r.Tools) == 0 {
				return corebot.Answer{Text: "out of time"}, nil
			}
			return apptest.Asks(call("1", search, "a"), call("2", search, "b"), call("3", search, "c"))(ctx, r, onText)
		})
		b := newBench(t, apptest.Options{Model: many, Agent: agent.Options{MaxTime: 15 * time.Second}})
		b.took = 10 * time.Second
		r, err := b.turn(t, "go")
		if err != nil {
			t.Fatal(err)
		}
		wantLastWord(t, many, 1)
		if got := results(many.Last()); len(got) != 3 || b.runs[search] != 2 ||
			!strings.HasPrefix(got[2], "3: not run") {
			t.Errorf("%d calls ran, the results are %q", b.runs[search], got)
		}
		if r.Replies[0].Text() != "out of time" {
			t.Errorf("the reply is %q", r.Replies[0].Text())
		}
	})
}

func TestAModelThatSaysNothingIsSaidToHaveSaidNothing(t *testing.T) {
	for _, text := range []string{"", " \n\t"} {
		b := newBench(t, apptest.Options{}, apptest.Text(text))
		r, err := b.turn(t, "go")
		if err != nil {
			t.Fatal(err)
		}
		if m := r.Replies[0]; m.Kind != corebot.KindNotice || m.Text() != "(The model answered with no text.)" {
			t.Errorf("on %q the reply is %s %q", text, m.Kind, m.Text())
		}
		if got := apptest.Transcript(r.History); !slices.Equal(got, []string{"user: go"}) {
			t.Errorf("the history is %q", got)
		}
	}
}

func TestAFailureOfTheModelIsTheTurnsAndKeepsItsClass(t *testing.T) {
	b := newBench(t, apptest.Options{}, apptest.Fails(&corebot.Failure{
		Class:      corebot.RateLimited,
		RetryAfter: time.Minute, Err: errors.New("slow down"),
	}))
	_, err := b.turn(t, "go")
	var f *corebot.Failure
	if !errors.As(err, &f) || f.Class != corebot.RateLimited || f.RetryAfter != time.Minute {
		t.Errorf("the turn failed with %v", err)
	}
}

func TestALostLeaseEndsTheTurnAtItsNextStep(t *testing.T) {
	b := newBench(t, apptest.Options{}, apptest.Asks(call("x", fetch, "a")), apptest.Text("never"))
	b.Say("a", "1", "go")
	d := b.Claim()
	d.Epoch-- // somebody else has claimed it since
	if _, err := b.Agent.Turn(t.Context(), d); !errors.Is(err, corebot.ErrLeaseLost) {
		t.Errorf("the turn ended with %v", err)
	}
	if len(b.runs) != 0 {
		t.Errorf("tools ran: %v", b.runs)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	parts := agent.Parts{
		Model: apptest.Script(), Tools: &witness{}, Journal: k.Ledger, History: k.History,
		Notes: &apptest.Notes{}, Roles: k.Grants,
	}
	for name, o := range map[string]agent.Options{
		"no tokenizer":        {},
		"negative iterations": {Tokenizer: llm.Estimate{}, MaxIterations: -1},
		"negative time":       {Tokenizer: llm.Estimate{}, MaxTime: -1},
		"no room for input":   {Tokenizer: llm.Estimate{}, ContextTokens: 100, OutputTokens: 100},
	} {
		if _, err := agent.New(parts, o); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for field := range reflect.TypeFor[agent.Parts]().Fields() {
		if field.Name == "Facts" { // which is optional
			continue
		}
		p := parts
		reflect.ValueOf(&p).Elem().FieldByIndex(field.Index).SetZero()
		if _, err := agent.New(p, agent.Options{Tokenizer: llm.Estimate{}}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("without %s: %v", field.Name, err)
		}
	}
}
