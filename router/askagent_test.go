package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// peers are two agents that can ask one another. One program is the mind of both.
type peers struct {
	counter
	callers []corebot.Caller // of the calls of web.search, which every turn makes first
	minds   func(situation string) []corebot.ToolCall
	says    func(situation string) string
	hang    bool // the answer to a question never comes
}

func newPeers(t *testing.T, o apptest.Options, minds func(situation string) []corebot.ToolCall) *peers {
	t.Helper()
	p := &peers{minds: minds, says: func(string) string { return "done" }}
	o.Model = apptest.Always(p.reply)
	all := []builtin.Peer{{ID: "main"}, {ID: "helper", Name: "Helper"}}
	probe := tools.New("web.search", "A tool of a test.", tools.ReadOnly,
		func(_ context.Context, c tools.Call, _ apptest.ToolArgs) (string, error) {
			p.callers = append(p.callers, c.Caller)
			return "seen", nil
		})
	o.Tools = []tools.Tool{builtin.AgentList(all), builtin.AgentSend(all, 1_000, jobBounds), probe, reads()}
	o.Router.Workers, o.Router.Agents = max(o.Router.Workers, 1), []string{"main", "helper"}
	p.counter.Kit = apptest.New(t, o).Start()
	p.admin(t, "root", corebot.Key{})
	return p
}

// reply makes the calls of a turn one answer after the other, and then speaks.
func (p *peers) reply(ctx context.Context, r llm.Request, _ func(string)) (corebot.Answer, error) {
	var situation string
	results := 0
	for _, m := range r.Messages {
		if strings.Contains(m.Text, `<data kind="situation">`) {
			situation, results = m.Text, 0
		}
		if m.Role == llm.ToolRole {
			results++
		}
	}
	if p.hang && strings.Contains(situation, ofQuestion) {
		<-ctx.Done()
		return corebot.Answer{}, context.Cause(ctx)
	}
	calls := append([]corebot.ToolCall{apptest.Call("p", "web.search", `{"text":"x"}`)}, p.minds(situation)...)
	if results < len(calls) {
		return corebot.Answer{Calls: []corebot.ToolCall{calls[results]}}, nil
	}
	return corebot.Answer{Text: p.says(situation)}, nil
}

const (
	ofQuestion = "this message is from the agent "
	ofAnswer   = "this message is the answer of the agent "
)

func ask(agent, content string) corebot.ToolCall {
	args, _ := json.Marshal(map[string]string{"agent": agent, "content": content})
	return apptest.Call("s"+agent, "agent.send", string(args))
}

// fromAPerson asks the helper in the turns of people alone.
func fromAPerson(calls ...corebot.ToolCall) func(string) []corebot.ToolCall {
	return func(situation string) []corebot.ToolCall {
		if strings.Contains(situation, ofQuestion) || strings.Contains(situation, ofAnswer) {
			return nil
		}
		return calls
	}
}

var helperLane = corebot.Key{Agent: "helper", Channel: corebot.AgentChannel, Chat: apptest.Key("a").String()}

func (p *peers) saidIn(t *testing.T, k corebot.Key) []corebot.HistoryEntry {
	t.Helper()
	all, err := p.History.Recent(t.Context(), k, 1_000)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e corebot.HistoryEntry) bool {
		return e.Speaker == corebot.SpeakerTool ||
			len(e.Calls) > 0
	})
}

func TestAnAgentAsksAnotherAndItsAnswerComesBackIntoTheChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, apptest.Options{}, fromAPerson(ask("helper", "what time is it?")))
		p.says = func(situation string) string {
			switch {
			case strings.Contains(situation, ofQuestion+"main"):
				return "noon"
			case strings.Contains(situation, ofAnswer+"helper"):
				return "It is noon."
			}
			return "I asked."
		}
		for round := range 2 {
			p.SayAs("root", "a", []string{"1", "2"}[round], "ask")
			pass(time.Minute)
		}
		var got []string
		for _, e := range append(p.saidIn(t, apptest.Key("a")), p.saidIn(t, helperLane)...) {
			got = append(got, e.Text())
		}
		want := []string{
			"ask", "I asked.", "noon", "It is noon.", "ask", "I asked.", "noon", "It is noon.",
			"what time is it?", "noon", "what time is it?", "noon",
		}
		if !slices.Equal(got, want) {
			t.Errorf("said was %q, want %q", got, want)
		}
		for _, c := range p.callers {
			if c.Principal != apptest.Person("root") || c.Taint != "" || c.Entry.Interactive() ||
				(c.Entry.Kind == corebot.EntryAgent) != (c.MessageID[0] == 'c') {
				t.Errorf("a turn ran for %+v", c)
			}
		}
		first := p.Life("1")
		question := p.Life("corebot:agent/" + fmt.Sprint(first.ID) + "/1/3")
		if question.Cause == nil || question.Cause.Life != first.ID || question.Sender != apptest.Person("root") ||
			question.Key != helperLane {
			t.Errorf("the question is %+v", question)
		}
		answer := p.Life("corebot:agent/" + fmt.Sprint(question.ID) + "/1/answer")
		if answer.Key != apptest.Key("a") || answer.Cause.Life != question.ID || len(p.Told(answer.MessageID)) != 1 ||
			p.Told(answer.MessageID)[0].Key != apptest.Key("a") {
			t.Errorf("the answer is %+v", answer)
		}
	})
}

// TestAStrangerReachesNoOtherAgent: in a chat of one agent somebody wants what only another may tell.
func TestAStrangerReachesNoOtherAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, apptest.Options{}, func(string) []corebot.ToolCall {
			return []corebot.ToolCall{ask("helper", "print USER.md"), apptest.Call("l", "agent.list", `{}`)}
		})
		p.admin(t, "here", apptest.Key("a"))
		for _, sender := range []string{"mallory", "here", ""} {
			p.SayAs(sender, "a", "m"+sender, "get me its files")
			pass(time.Minute)
			for _, e := range p.Said("a") {
				if e.Speaker == corebot.SpeakerTool && e.CallID != "p" && !strings.Contains(e.Text(),
					"only an admin everywhere may reach the other agents") {
					t.Errorf("%s: a call said %q", sender, e.Text())
				}
			}
		}
		if said := p.saidIn(t, helperLane); len(said) > 0 {
			t.Errorf("the helper heard %+v", said)
		}
	})
}

func TestAnAgentThatIsToldToAskItselfDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, apptest.Options{}, fromAPerson(ask("main", "again"), ask("nobody", "hello"),
			ask("helper", " "), ask("helper", strings.Repeat("x", 2_000))))
		p.SayAs("root", "a", "1", "go")
		pass(time.Minute)
		var results []string
		for _, e := range p.Said("a") {
			if e.Speaker == corebot.SpeakerTool {
				results = append(results, e.Text())
			}
		}
		for i, want := range []string{
			"seen", "an agent cannot ask itself", "there are", "the message is empty",
			"too large",
		} {
			if i == 2 {
				want = "the agents are: main, helper"
			}
			if i >= len(results) || !strings.Contains(results[i], want) {
				t.Errorf("result %d is %.200q, want %q", i, results[i:], want)
			}
		}
		if len(p.callers) != 1 {
			t.Errorf("%d turns ran", len(p.callers))
		}
	})
}

// TestAgentsThatAlwaysAskOneAnotherComeToAnEnd: both are told to ask the other whatever comes, twice in each turn.
func TestAgentsThatAlwaysAskOneAnotherComeToAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, apptest.Options{}, func(string) []corebot.ToolCall {
			return []corebot.ToolCall{
				ask("helper", "ask me"), ask("main", "ask me"), ask("helper", "and again"),
				ask("main", "and again"),
			}
		})
		p.SayAs("root", "a", "1", "go")
		pass(time.Hour)
		turns := len(p.callers)
		t.Logf("%d turns", turns)
		if turns < 2+corebot.MaxHops || turns > 40 {
			t.Errorf("%d turns ran", turns)
		}
		pass(time.Hour)
		if len(p.callers) != turns {
			t.Errorf("after an hour %d turns more ran", len(p.callers)-turns)
		}
	})
}

// TestTaintGoesWithAQuestionAndComesWithItsAnswer: untrusted text that one agent has read taints the other agent's
// turn. Text that this turn reads taints the turn of the answer. A later turn of the asking conversation is tainted
// too.
func TestTaintGoesWithAQuestionAndComesWithItsAnswer(t *testing.T) {
	reading := apptest.Call("r", "web.fetch", `{"text":"page"}`)
	for name, c := range map[string]struct {
		minds func(string) []corebot.ToolCall
		want  []bool // whether the turns are tainted from their begin: of the person, the question, the answer
	}{
		"nobody reads":      {fromAPerson(ask("helper", "x")), []bool{false, false, false}},
		"who asks has read": {fromAPerson(reading, ask("helper", "x")), []bool{false, true, true}},
		"who is asked has read": {func(s string) []corebot.ToolCall {
			switch {
			case strings.Contains(s, ofQuestion):
				return []corebot.ToolCall{reading}
			case strings.Contains(s, ofAnswer):
				return nil
			}
			return []corebot.ToolCall{ask("helper", "x")}
		}, []bool{false, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeers(t, apptest.Options{Policy: asksNobody}, c.minds)
				p.SayAs("root", "a", "1", "go")
				pass(time.Minute)
				var got []bool
				for _, c := range p.callers {
					got = append(got, c.Taint != "")
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("tainted turns: %v, want %v", got, c.want)
				}
				if name != "who asks has read" {
					return
				}
				p.minds = fromAPerson(ask("helper", "y"))
				p.SayAs("root", "a", "new", "/new")
				p.SayAs("root", "a", "2", "go")
				pass(time.Minute)
				if later := p.callers[3:]; len(later) != 3 || later[0].Taint != "" || later[1].Taint == "" ||
					later[2].Taint == "" {
					t.Errorf("later turns ran for %+v", later)
				}
			})
		})
	}
}

func TestStopEndsTheQuestionThatTheChatsTurnHasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, apptest.Options{}, fromAPerson(ask("helper", "wait for me")))
		p.hang = true
		p.SayAs("root", "a", "1", "ask")
		pass(time.Second)
		question := p.Life("corebot:agent/" + fmt.Sprint(p.Life("1").ID) + "/1/3")
		if p.Life("1").End != corebot.EndAnswered || question.End != "" {
			t.Fatalf("the asking turn has ended %q, the question %q", p.Life("1").End, question.End)
		}
		p.SayAs("mallory", "a", "s0", "/stop")
		pass(time.Second)
		p.WantTold("s0", "There is nothing to stop.")
		p.SayAs("root", "a", "s", "/stop")
		pass(time.Second)
		p.WantTold("s", "Stopping.")
		if life := p.Life(question.MessageID); life.End != corebot.EndStopped {
			t.Errorf("the question has ended %q: %s", life.End, life.State)
		}
	})
}
