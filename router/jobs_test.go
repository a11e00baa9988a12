package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

var jobBounds = builtin.JobOptions{Longest: time.Hour, Limits: corebot.WaitLimits{PerSender: 20, Total: 30}}

// family is a Corebot with one worker whose turns give work to child turns. A prompt names its script: the calls that
// its turn makes, one answer each, and then the text.
type family struct {
	counter
	mu      sync.Mutex
	scripts map[string][]apptest.Reply
	callers map[string]corebot.Caller // of the calls of web.search, by their argument
	offers  map[string][]string       // what a prompt's turn was offered last
}

func newFamily(t *testing.T, o apptest.Options, scripts map[string][]apptest.Reply) *family {
	t.Helper()
	f := &family{scripts: scripts, callers: map[string]corebot.Caller{}, offers: map[string][]string{}}
	o.Model = apptest.Always(f.reply)
	probe := tools.New("web.search", "A tool of a test.", tools.ReadOnly,
		func(_ context.Context, c tools.Call, a apptest.ToolArgs) (string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.callers[a.Text] = c.Caller
			return "seen", nil
		})
	all := []builtin.Peer{{ID: "main"}, {ID: "helper", Name: "Helper"}}
	o.Tools = append(o.Tools, builtin.AgentRun(jobBounds), builtin.AgentSend(all, 1_000, jobBounds), probe, reads())
	o.Router.Workers = max(o.Router.Workers, 1)
	f.counter.Kit = apptest.New(t, o).Start()
	f.admin(t, "root", corebot.Key{})
	return f
}

// reply plays the script of the last prompt in a request. Without a script the answer is the prompt.
func (f *family) reply(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	prompt, done := "", 0
	for _, m := range r.Messages {
		switch {
		case m.Role == llm.User && !strings.HasPrefix(m.Text, "<data") && !strings.HasPrefix(m.Text, "[corebot]"):
			prompt, done = m.Text, 0
		case m.Role == llm.Assistant && len(m.Calls) > 0:
			done++
		}
	}
	f.mu.Lock()
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	f.offers[prompt] = names
	script := f.scripts[prompt]
	f.mu.Unlock()
	if len(r.Tools) > 0 && done < len(script) {
		return script[done](ctx, r, onText)
	}
	results := ""
	for _, m := range r.Messages {
		if m.Role == llm.ToolRole {
			results += "; " + m.Text
		}
	}
	return corebot.Answer{
		Text: "done: " + prompt + results, Usage: corebot.Usage{InputTokens: 90, OutputTokens: 10},
	}, nil
}

// run is a call of agent.run, with further arguments in pairs.
func run(prompt string, more ...any) corebot.ToolCall {
	args := map[string]any{"prompt": prompt}
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	b, _ := json.Marshal(args)
	return apptest.Call("r-"+prompt, "agent.run", string(b))
}

func probe(text string) apptest.Reply {
	return apptest.Asks(apptest.Call("p", "web.search", fmt.Sprintf(`{"text":%q}`, text)))
}

// results are what the calls of a chat gave, in order.
func (f *family) results(chat string) (all []string) {
	for _, e := range f.Said(chat) {
		if e.Speaker == corebot.SpeakerTool {
			all = append(all, e.Text())
		}
	}
	return all
}

// heard are the texts that the chat gets because of a message.
func (f *family) heard(id string) (all []string) {
	for _, m := range f.Told(id) {
		if m.Direction == corebot.Outbound {
			all = append(all, m.Text())
		}
	}
	return all
}

func TestFiveChildTurnsOfOneAnswerGiveFiveResultsInOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []corebot.ToolCall
		scripts := map[string][]apptest.Reply{}
		want := []string{}
		for i := range 5 {
			part := fmt.Sprint("part-", i)
			calls = append(calls, run(part))
			scripts[part] = []apptest.Reply{apptest.After(time.Minute, probe(part))}
			want = append(want, "done: "+part+"; seen")
		}
		scripts["go"] = []apptest.Reply{apptest.Asks(calls...)}
		f := newFamily(t, apptest.Options{Router: workers(5)}, scripts)
		f.Say("a", "1", "go")
		pass(30 * time.Second)
		if life := f.Life("1"); life.State != "waiting: a job" || life.Attempts != 0 {
			t.Errorf("the parent is %q after %d attempts", life.State, life.Attempts)
		}
		pass(time.Minute) // at once, and not one after the other
		f.WantEnd("1", corebot.EndAnswered)
		if got := f.results("a"); !slices.Equal(got, want) {
			t.Errorf("the results are\n%q, want\n%q", got, want)
		}
		if claims := f.Life("1").Attempts; claims != 1 {
			t.Errorf("%d attempts", claims)
		}
		if told := f.heard("1"); len(told) != 1 {
			t.Errorf("the chat is told %d things: %q", len(told), told)
		}
	})
}

// TestAChildTurnHasNothingThatItsParentLacks looks at a child turn from inside.
func TestAChildTurnHasNothingThatItsParentLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{Tools: []tools.Tool{pays(nil)}}, map[string][]apptest.Reply{
			"all":   {apptest.Asks(run("child"))},
			"child": {probe("child")},
			"few":   {apptest.Asks(run("narrow", "tools", []string{"web.s*", "agent.*"}))},
			"narrow": {
				probe("narrow"), apptest.Asks(run("below")), apptest.Asks(run("wide", "tools", []string{"web.fetch"})),
			},
			"below": {apptest.Asks(apptest.Call("f", "web.fetch", `{"text":"x"}`))},
			"none":  {apptest.Asks(run("bare", "tools", []string{}))},
			"bare":  {probe("bare")},
		})
		f.SayAs("root", "a", "1", "all")
		pass(time.Minute)
		c := f.callers["child"]
		if c.Key != apptest.Key("a") || c.Principal != apptest.Person("root") || c.Depth != 1 || c.Taint != "" {
			t.Errorf("the child acts as %+v", c)
		}
		if !slices.Equal(f.offers["child"], f.offers["all"]) || !slices.Contains(f.offers["child"], "mcp.reload") {
			t.Errorf("the child is offered %q, its parent %q", f.offers["child"], f.offers["all"])
		}
		f.SayAs("root", "b", "2", "few")
		pass(time.Minute)
		if want := []string{"agent.run", "agent.send", "web.search"}; !slices.Equal(f.offers["narrow"], want) ||
			!slices.Equal(f.offers["below"], want) {
			t.Errorf("the narrow child is offered %q, and its own %q", f.offers["narrow"], f.offers["below"])
		}
		result := f.results("b")[0]
		for _, part := range []string{
			"denied: this turn was not given the tool", `you have no tool "web.fetch" to give`,
		} {
			if !strings.Contains(result, part) {
				t.Errorf("the result is %q, and lacks %q", result, part)
			}
		}
		f.SayAs("root", "c", "3", "none")
		pass(time.Minute)
		if f.WantEnd("3", corebot.EndAnswered); len(f.offers["bare"]) > 0 {
			t.Errorf("the bare child is offered %q", f.offers["bare"])
		}
	})
}

// TestAChildTurnHasTheRoleOfThatMoment takes the role away while the parent waits for its first child.
func TestAChildTurnHasTheRoleOfThatMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{Tools: []tools.Tool{pays(nil)}}, map[string][]apptest.Reply{
			"go":    {apptest.Asks(run("child"))},
			"child": {apptest.After(time.Minute, apptest.Asks(apptest.Call("m", "mcp.reload", `{"text":"x"}`)))},
		})
		f.admin(t, "boss", corebot.Key{})
		f.SayAs("boss", "a", "1", "go")
		pass(time.Second)
		if err := f.Grants.Revoke(t.Context(), apptest.Person("boss"), corebot.Key{}); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		if got := f.results("a"); len(got) != 1 || !strings.Contains(got[0], "denied") {
			t.Errorf("the result is %q", got)
		}
	})
}

// TestWhatAChildTurnReadsTaintsItsParent: an injection in its text has the parent ask for an approval.
func TestWhatAChildTurnReadsTaintsItsParent(t *testing.T) {
	for page, taints := range map[bool]bool{true: true, false: false} {
		t.Run(fmt.Sprint("page ", page), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				child := []apptest.Reply{}
				if page {
					child = append(child, apptest.Asks(apptest.Call("f", "web.fetch", `{"text":"x"}`)))
				}
				f := newFamily(t, apptest.Options{Tools: []tools.Tool{pays(nil)}}, map[string][]apptest.Reply{
					"go":    {apptest.Asks(run("child")), probe("after"), apptest.Asks(run("second")), hijacked()[1]},
					"child": child, "second": {probe("second")},
				})
				f.SayAs("root", "a", "1", "go")
				pass(time.Minute)
				for _, who := range []string{"after", "second"} {
					if c := f.callers[who]; (c.Taint != "") != taints {
						t.Errorf("%s: the taint is %q", who, c.Taint)
					}
				}
				if waits := f.Life("1").State == "waiting: approval"; waits != taints {
					t.Errorf("the parent is %q", f.Life("1").State)
				}
			})
		})
	}
}

const allLeft = "you have 400000 tokens and 96 calls left"

func TestAChildTurnThatAsksForTooMuchIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		call corebot.ToolCall
		want string
	}{
		"no prompt":        {run(" "), "the prompt is empty"},
		"tokens over":      {run("x", "budget", map[string]any{"tokens": 400_001}), allLeft},
		"calls over":       {run("x", "budget", map[string]any{"calls": 97}), allLeft},
		"no tokens":        {run("x", "budget", map[string]any{"tokens": 0}), "want 1 of each at least"},
		"negative calls":   {run("x", "budget", map[string]any{"calls": -1}), "want 1 of each at least"},
		"an unknown tool":  {run("x", "tools", []string{"shell.exec"}), `you have no tool "shell.exec" to give`},
		"a bad pattern":    {run("x", "tools", []string{"*.fetch"}), "you have no tool"},
		"an invisible one": {run("x", "tools", []string{"web.\u200bfetch"}), `web.\u200bfetch`},
		"a long prompt":    {run(strings.Repeat("x", corebot.MaxJobPrompt+1)), "the limit is"},
		"another argument": {run("x", "role", "admin"), "invalid_args"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFamily(t, apptest.Options{}, map[string][]apptest.Reply{"go": {apptest.Asks(c.call)}})
				f.Say("a", "1", "go")
				pass(time.Minute)
				if got := f.results("a"); len(got) != 1 || !strings.Contains(got[0], c.want) {
					t.Errorf("the model reads %q, want %q", got, c.want)
				}
				f.WantEnd("1", corebot.EndAnswered)
			})
		})
	}
}

func TestChildTurnsAreFourDeepAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string][]apptest.Reply{}
		for i := range 6 {
			scripts[fmt.Sprint("level-", i)] = []apptest.Reply{apptest.Asks(run(fmt.Sprint("level-", i+1)))}
		}
		rich := agent.Options{Jobs: corebot.JobBudget{Tokens: 1e6, Calls: 1e4}}
		f := newFamily(t, apptest.Options{Agent: rich}, scripts)
		f.Say("a", "1", "level-0")
		pass(time.Minute)
		got := f.results("a")
		if len(got) != 1 || !strings.Contains(got[0], "level-4") || strings.Contains(got[0], "done: level-5") ||
			!strings.Contains(got[0], "child turns are 4 deep at most") {
			t.Errorf("the result is %q", got)
		}
	})
}

func TestTheNinthChildTurnAtOnceIsRefusedAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []corebot.ToolCall
		for i := range 9 {
			calls = append(calls, run(fmt.Sprint("part-", i), "budget", map[string]any{"calls": 1, "tokens": 500}))
		}
		f := newFamily(t, apptest.Options{}, map[string][]apptest.Reply{"go": {apptest.Asks(calls...)}})
		f.Say("a", "1", "go")
		pass(time.Minute)
		got := f.results("a")
		if len(got) != 9 || !strings.HasPrefix(got[7], "done: part-7") || !strings.Contains(got[8], "too many jobs") {
			t.Errorf("the results are %q", got)
		}
	})
}

// TestABudgetIsOutOfTheParents: what a child was given and has not used comes back.
func TestABudgetIsOutOfTheParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{Agent: agent.Options{Jobs: corebot.JobBudget{Tokens: 1_000, Calls: 10}}},
			map[string][]apptest.Reply{
				"go": {
					apptest.Asks(run("one", "budget", map[string]any{"calls": 8, "tokens": 900}), run("two", "budget",
						map[string]any{"calls": 8, "tokens": 900})),
					probe("after"),
					apptest.Asks(run("long", "budget", map[string]any{"calls": 2, "tokens": 700})),
					probe("end"),
				},
				"one": {probe("1"), probe("2")},
				// it would go on for ever
				"long": slices.Repeat([]apptest.Reply{probe("x"), probe("y"), probe("z")}, 20),
			})
		f.Say("a", "1", "go")
		pass(time.Minute)
		got := f.results("a")
		if !strings.HasPrefix(got[0], "done: one") ||
			!strings.Contains(got[1], "you have 100 tokens and 2 calls left") {
			t.Errorf("the results are %q", got)
		}
		if left := f.callers["after"].Left; left != (corebot.JobBudget{Tokens: 870, Calls: 8}) {
			t.Errorf("after one child there is %+v left", left)
		}
		if left := f.callers["end"].Left; left != (corebot.JobBudget{Tokens: 740, Calls: 6}) {
			t.Errorf("after both there is %+v left", left)
		}
		if c := f.callers["x"]; c.Left != (corebot.JobBudget{Tokens: 685, Calls: 1}) {
			t.Errorf("the long child has %+v left in its first call", c.Left)
		}
	})
}

func TestStopInTheChatOfAParentStopsItsChildTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{Router: workers(3)}, map[string][]apptest.Reply{
			"go":    {apptest.Asks(run("child"), run("other"))},
			"child": {apptest.Asks(run("below"))},
			"below": {apptest.Hangs()}, "other": {apptest.Hangs()},
		})
		f.Say("a", "1", "go")
		pass(time.Second)
		f.Say("a", "2", "/stop")
		pass(time.Second)
		f.WantEnd("1", corebot.EndStopped)
		all, _, err := f.Jobs.Page(t.Context(), corebot.Key{}, true, "", 10)
		if err != nil || len(all) != 3 {
			t.Fatalf("%d jobs, %v", len(all), err)
		}
		for _, j := range all {
			if j.State != corebot.JobStopped {
				t.Errorf("%s is %s", j.Prompt, j.State)
			}
		}
		f.WantTold("1", "Stopped.")
	})
}

func TestASteerEndsTheWaitForChildTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{Router: workers(2)}, map[string][]apptest.Reply{
			"go": {apptest.Asks(run("child"))}, "child": {apptest.Hangs()},
		})
		f.Say("a", "1", "go")
		pass(time.Second)
		f.Say("a", "2", "/steer never mind")
		pass(time.Second)
		f.WantEnd("1", corebot.EndAnswered)
		if got := f.results("a"); len(got) != 1 || !strings.Contains(got[0], "the user said something") {
			t.Errorf("the result is %q", got)
		}
		if j, err := f.Jobs.Job(t.Context(), 1); err != nil || j.State != corebot.JobStopped {
			t.Errorf("the job is %+v, %v", j, err)
		}
	})
}

func TestAChildTurnThatFailsTellsItsParentAndNotTheChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{}, map[string][]apptest.Reply{
			"go":    {apptest.Asks(run("child"))},
			"child": {apptest.Fails(fmt.Errorf("%w: no such model", corebot.ErrInvalid))},
		})
		f.Say("a", "1", "go")
		pass(time.Hour)
		f.WantEnd("1", corebot.EndAnswered)
		if got := f.results("a"); len(got) != 1 || !strings.HasPrefix(got[0], "error: job 1 has no result: ") {
			t.Errorf("the result is %q", got)
		}
		if told := append(f.heard("1"), f.heard("corebot:job/1")...); len(told) != 1 {
			t.Errorf("the chat is told %q", told)
		}
	})
}

func TestAJobInTheBackgroundReturnsAtOnceAndItsResultIsKnownToTheNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{Router: workers(2)}, map[string][]apptest.Reply{
			"go":    {apptest.Asks(run("child", "background", true))},
			"child": {apptest.After(time.Minute, probe("x")), apptest.After(time.Minute, probe("y"))},
			"and?":  {knowsThatItSaid("Job 1 has a result:\n\ndone: child; seen; seen")},
		})
		f.Say("a", "1", "go")
		pass(time.Second)
		f.WantEnd("1", corebot.EndAnswered)
		f.Say("a", "2", "/jobs")
		if text := notice(t, f.Kit, "2"); !strings.HasPrefix(text, "Job 1 (in the background, for 1s): child\n") {
			t.Errorf("the list is %q", text)
		}
		pass(3 * time.Minute)
		f.Say("a", "3", "and?")
		pass(time.Second)
		all := f.Transcript("a")
		if i := slices.Index(all, "assistant: Job 1 has a result:\n\ndone: child; seen; seen"); i < 0 ||
			i > slices.Index(all, "user: and?") {
			t.Errorf("the history is %q", all)
		}
		f.WantTold("3", "said")
		f.Say("a", "4", "/jobs")
		if text := notice(t, f.Kit, "4"); text != "No job of this chat is open." {
			t.Errorf("the list is %q", text)
		}
	})
}

// TestAJobOfSomebodyElseTaintsTheNextSession: its result comes after /new, where nothing else tells whose words it has.
func TestAJobOfSomebodyElseTaintsTheNextSession(t *testing.T) {
	for by, taints := range map[string]bool{"eve": true, "root": false} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFamily(t, apptest.Options{Router: workers(2)}, map[string][]apptest.Reply{
					"go":    {apptest.Asks(run("child", "background", true))},
					"child": {apptest.After(time.Minute, probe("x"))},
					"and?":  {probe("after")},
				})
				f.SayAs(by, "a", "1", "go")
				pass(time.Second)
				f.SayAs("root", "a", "2", "/new")
				pass(2 * time.Minute)
				f.SayAs("root", "a", "3", "and?")
				pass(time.Second)
				f.WantEnd("3", corebot.EndAnswered)
				c := f.callers["after"]
				if (c.Taint != "") != taints || c.Overheard != taints {
					t.Errorf("the taint is %q, overheard %t; the history is %+v", c.Taint, c.Overheard, f.Said("a"))
				}
			})
		})
	}
}

func TestStopWithANumberStopsThatJobForWhoeverMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{Router: workers(2)}, map[string][]apptest.Reply{
			"go":    {apptest.Asks(run("child", "background", true))},
			"child": {apptest.Hangs()},
		})
		f.SayAs("ann", "a", "1", "go")
		pass(time.Second)
		for i, c := range []struct{ by, chat, text, want string }{
			{"eve", "a", "/stop 1", "Only the person for whom the job works, or an admin, can stop it."},
			{"ann", "b", "/stop 1", "This chat has no job 1: /jobs lists the open ones. /stop alone stops the answer " +
				"that is being made."},
			{"ann", "a", "/stop 2", "This chat has no job 2: /jobs lists the open ones. /stop alone stops the answer " +
				"that is being made."},
			{"ann", "a", "/stop", "There is nothing to stop."},
			{"ann", "a", "/stop #1", "Stopping job 1."},
			{"ann", "a", "/stop 1", "Job 1 has ended: it is stopped."},
		} {
			id := fmt.Sprint("s", i)
			f.SayAs(c.by, c.chat, id, c.text)
			pass(time.Second)
			if text := notice(t, f.Kit, id); text != c.want {
				t.Errorf("%s says %s in %s, and is told %q", c.by, c.text, c.chat, text)
			}
		}
		if all := f.Transcript("a"); !slices.Contains(all, "assistant: Job 1 was stopped.") {
			t.Errorf("the history is %q", all)
		}
	})
}

// TestAnApprovalOfAChildTurnIsAskedForInTheChatAndGivenThere has an admin of the chat alone approve it.
func TestAnApprovalOfAChildTurnIsAskedForInTheChatAndGivenThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		guarded := tools.New("shell.exec", "A tool of a test.", tools.SideEffect,
			func(context.Context, tools.Call, apptest.ToolArgs) (string, error) {
				ran++
				return "ran", nil
			})
		o := apptest.Options{Policy: policy.Options{ShellEnabled: true}, Tools: []tools.Tool{guarded}}
		f := newFamily(t, o, map[string][]apptest.Reply{
			"go": {apptest.Asks(run("child"))},
			"child": {
				apptest.Asks(apptest.Call("f", "web.fetch", `{"text":"x"}`)),
				apptest.Asks(apptest.Call("g", "shell.exec", `{"text":"x"}`)),
			},
		})
		f.admin(t, "boss", apptest.Key("a"))
		f.SayAs("boss", "a", "1", "go")
		pass(time.Second)
		if ran > 0 {
			t.Error("it ran without an approval")
		}
		f.SayAs("boss", "a", "2", "/approve 1")
		pass(time.Second)
		if text := notice(t, f.Kit, "2"); !strings.HasPrefix(text, "Approved") {
			t.Errorf("the chat is told %q", text)
		}
		f.WantEnd("1", corebot.EndAnswered)
		if got := f.results("a"); ran != 1 || len(got) != 1 || !strings.Contains(got[0], "; ran") {
			t.Errorf("it ran %d times: %q", ran, got)
		}
	})
}

func TestACallWaitsForTheAnswerOfAnotherAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := apptest.Call("s", "agent.send", `{"agent":"helper","content":"noon?","wait":true}`)
		f := newFamily(t, apptest.Options{Router: workers(1)}, map[string][]apptest.Reply{
			"go": {apptest.Asks(ask, run("child"), ask)}, "noon?": {probe("asked")},
		})
		f.SayAs("root", "a", "1", "go")
		pass(time.Minute)
		f.WantEnd("1", corebot.EndAnswered)
		got := f.results("a")
		if len(got) != 3 || got[0] != "done: noon?; seen" || got[1] != "done: child" ||
			!strings.Contains(got[2], "still works on what it was asked") {
			t.Errorf("the results are %q", got)
		}
		if c := f.callers["asked"]; c.Key.Agent != "helper" || c.Principal != apptest.Person("root") {
			t.Errorf("the helper acts as %+v", c)
		}
	})
}

func workers(n int) router.Options { return router.Options{Workers: n} }
