package router_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// searches asks for searches, one call each; slowSearch takes 20 seconds to find "slow".
func searches(texts ...string) apptest.Reply {
	var calls []corebot.ToolCall
	for i, text := range texts {
		calls = append(calls, apptest.Call(fmt.Sprint("c", i), "web.search", fmt.Sprintf(`{"text":%q}`, text)))
	}
	return apptest.Asks(calls...)
}

const notRun = "tool: not run: the user said something in the meantime, which follows"

func TestASteerIsHeardBetweenTwoCallsAndTheRestOfThemIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(searches("slow", "second", "third"), apptest.Text("done"))
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		pass(5 * time.Second)
		k.Say("a", "s", "/steer only the first, please")
		k.WantTold("s", "Steering.")
		pass(time.Minute)
		want := []string{
			"user: look",
			`assistant: web.search({"text":"slow"})web.search({"text":"second"})web.search({"text":"third"})`,
			"tool: found slow", notRun, notRun, "user: only the first, please", "assistant: done",
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is\n%q, want\n%q", got, want)
		}
		last := model.Last().Messages
		if m := last[len(last)-1]; m.Role != llm.User || m.Text != "only the first, please" {
			t.Errorf("the model was last shown %+v", m)
		}
		k.WantEnd("1", corebot.EndAnswered)
		k.WantEnd("s", corebot.EndMerged)
		if into := k.Life("s").MergedInto; into == nil || into.MessageID != "1" {
			t.Errorf("the steer was merged into %+v", into)
		}
		if told := k.Told("1"); len(told) != 1 || !slices.Equal(told[0].Answers(), []string{"1", "s"}) {
			t.Errorf("the reply is %+v", told)
		}
	})
}

func TestASteerDuringTheModelsCallSkipsAllThatItAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.After(10*time.Second, searches("quick")), apptest.Text("done"))
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		pass(5 * time.Second)
		k.Say("a", "s", "/steer no, do not look")
		pass(time.Minute)
		want := []string{
			"user: look", `assistant: web.search({"text":"quick"})`, notRun, "user: no, do not look",
			"assistant: done",
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is\n%q, want\n%q", got, want)
		}
	})
}

func TestASteerThatNoTurnTookInIsAPromptOfItsSenderOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.After(10*time.Second, apptest.Text("first")), apptest.Text("second"),
			apptest.Text("third"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "hello")
		pass(5 * time.Second)
		k.Say("a", "s", "/steer too late")
		if a := k.SayAs(apptest.Sender, "a", "s", "/steer too late"); !a.Duplicate {
			t.Error("the steer again is no duplicate")
		}
		pass(time.Minute)
		k.Say("a", "t", "/steer nothing runs")
		pass(time.Minute)
		want := []string{
			"user: hello", "assistant: first", "user: too late", "assistant: second", "user: nothing runs",
			"assistant: third",
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is %q, want %q", got, want)
		}
		k.WantEnd("s", corebot.EndAnswered)
		k.WantTold("s", "Steering.", "second")
		k.WantTold("t", "third")
		if sender := k.Life("s").Sender; sender != apptest.Person(apptest.Sender) {
			t.Errorf("the prompt is of %v", sender)
		}
	})
}

func TestASteerWithoutATextSaysHow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{}).Start()
		k.Say("a", "s", "/steer  ")
		k.WantTold("s", "Say what you want to add: /steer TEXT.")
		k.WantEnd("s", corebot.EndApplied)
	})
}

func TestASteerIsForTheSenderOrAnAdminAndAStrangersWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(searches("slow"), searches("slow"), apptest.Text("done"), apptest.Text("to mallory"))
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		pass(5 * time.Second)
		k.SayAs("mallory", "a", "s1", "/steer give me the keys")
		k.WantTold("s1", "Only who sent the message that is being answered, or an admin, can steer its answer. Yours "+
			"waits its turn.")
		if err := k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person("root"),
			Role:      corebot.RoleAdmin,
		}); err != nil {
			t.Fatal(err)
		}
		k.SayAs("root", "a", "s2", "/steer be quick")
		pass(time.Minute)
		k.WantEnd("s2", corebot.EndMerged)
		k.WantEnd("s1", corebot.EndAnswered)
		told := k.Told("s1")
		if len(told) != 2 || told[1].Text() != "to mallory" {
			t.Errorf("mallory was told %+v", told)
		}
		events, err := storage.NewAudit(k.DB).List(t.Context(), corebot.AuditFilter{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(events, func(e corebot.AuditEvent) bool { return e.Tool == "/steer" })
		if i < 0 || events[i].Outcome != corebot.OutcomeDenied || events[i].Principal.ID != "mallory" {
			t.Errorf("the audit has %+v", events)
		}
	})
}

// adminTool is open to admins only.
func adminTool(runs *int) tools.Tool {
	return apptest.Tool("mcp.reload", tools.ReadOnly, func(ctx context.Context, text string) (string, error) {
		if text == "slow" {
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
			}
		}
		*runs++
		return "reloaded", nil
	})
}

// asksNobody: that what others say taints a turn is not of this page.
var asksNobody = policy.Options{Approvals: policy.Approvals{Mode: policy.ApproveNever}}

func TestATurnThatTookInTextOfSeveralHasTheLowestOfTheirRoles(t *testing.T) {
	for name, c := range map[string]struct {
		sender, joins string
		runs          int
	}{
		"a normal sender in an admin's turn": {"root", "bob", 1},
		"an admin in a normal sender's turn": {"bob", "root", 0},
		"an admin in another admin's turn":   {"root", "boss", 2},
		"the admin himself":                  {"root", "root", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs int
				reload := func(text string) apptest.Reply {
					return apptest.Asks(apptest.Call("c", "mcp.reload", fmt.Sprintf(`{"text":%q}`, text)))
				}
				model := apptest.Script(apptest.After(time.Second, searches("slow")), reload("x"), apptest.Text("done"))
				if c.runs > 0 {
					model = apptest.Script(reload("slow"), reload("x"), apptest.Text("done"))
				}
				k := apptest.New(t, apptest.Options{
					Model: model, Tools: []tools.Tool{adminTool(&runs), slowSearch()}, Policy: asksNobody,
					Queueing: corebot.Queueing{Mode: corebot.ModeSteer},
				}).Start()
				for _, admin := range []string{"root", "boss"} {
					if err := k.Grants.Grant(t.Context(), corebot.Grant{
						Principal: apptest.Person(admin),
						Role:      corebot.RoleAdmin,
					}); err != nil {
						t.Fatal(err)
					}
				}
				k.SayAs(c.sender, "a", "1", "reload it twice")
				pass(5 * time.Second)
				k.SayAs(c.joins, "a", "2", "and once more")
				pass(time.Minute)
				k.WantEnd("2", corebot.EndMerged)
				if runs != c.runs {
					t.Errorf("the admin's tool ran %d times, want %d", runs, c.runs)
				}
				offered := slices.ContainsFunc(model.Last().Tools,
					func(tool llm.Tool) bool { return tool.Name == "mcp.reload" })
				if offered != (c.runs == 2) {
					t.Errorf("the tool is offered in the end: %v", offered)
				}
			})
		})
	}
}

func TestTheModelIsToldWhoElseSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(searches("slow"), apptest.Text("done"))
		k := apptest.New(t, apptest.Options{
			Model: model, Tools: []tools.Tool{slowSearch()}, Queueing: corebot.Queueing{Mode: corebot.ModeSteer},
		}).Start()
		k.Say("a", "1", "look")
		pass(time.Second)
		k.SayAs("bob", "a", "2", "stop looking")
		pass(time.Minute)
		last := model.Last().Messages
		want := `<data kind="sender">bob (` + apptest.Person("bob").Label() + ")</data>"
		if m := last[len(last)-1]; m.About != want || m.Text != "stop looking" {
			t.Errorf("the model was shown %q and %q, want %q", m.About, m.Text, want)
		}
	})
}

func TestAResumedTurnHearsWhatItTookInAtTheSamePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &corebot.Failure{Class: corebot.RateLimited, RetryAfter: time.Minute, Err: errors.New("busy")}
		model := apptest.Script(searches("slow", "second"), apptest.Fails(busy), apptest.Text("done"))
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		pass(5 * time.Second)
		k.Say("a", "s", "/steer enough")
		pass(time.Minute)
		k.WantEnd("s", corebot.EndMerged)
		k.WantEnd("1", "")
		k.Say("a", "t", "/steer and be brief") // to a head that backs off
		pass(2 * time.Minute)
		want := []string{
			"user: look", `assistant: web.search({"text":"slow"})web.search({"text":"second"})`, "tool: found slow",
			notRun,
			"user: enough", "user: and be brief", "assistant: done",
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is\n%q, want\n%q", got, want)
		}
		failed, last := model.Requests()[1].Messages, model.Last().Messages
		for i, m := range failed[:len(failed)-1] {
			if last[i].Role != m.Role || last[i].Text != m.Text {
				t.Errorf("message %d was %+v and is %+v", i, m, last[i])
			}
		}
	})
}

func TestAStoppedTurnKeepsWhatItTookIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(searches("slow"), apptest.Hangs(), apptest.Text("next"))
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		pass(time.Second)
		k.Say("a", "s", "/steer enough")
		pass(time.Minute)
		k.Say("a", "stop", "/stop")
		pass(time.Second)
		want := []string{
			"user: look", `assistant: web.search({"text":"slow"})`, "tool: found slow", "user: enough",
			stoppedNote,
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is\n%q, want\n%q", got, want)
		}
		k.WantEnd("s", corebot.EndMerged)
	})
}

func TestAToolHearsOfAStopWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard time.Duration
		var cause error
		watch := apptest.Tool("web.search", tools.ReadOnly, func(ctx context.Context, _ string) (string, error) {
			began := time.Now()
			<-ctx.Done()
			heard, cause = time.Since(began), context.Cause(ctx)
			return "", ctx.Err()
		})
		k := apptest.New(t, apptest.Options{Model: apptest.Script(searches("x")), Tools: []tools.Tool{watch}}).Start()
		k.Say("a", "1", "look")
		pass(10 * time.Second)
		k.Say("a", "s", "/stop")
		pass(time.Second)
		if heard < 10*time.Second || heard > 11*time.Second || !errors.Is(cause, corebot.ErrStopped) {
			t.Errorf("the tool heard of it after %v: %v", heard, cause)
		}
		k.WantEnd("1", corebot.EndStopped)
	})
}
