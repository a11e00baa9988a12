package router_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// stoppedNote stands in the history where the answer of a stopped turn would.
const stoppedNote = "assistant: [stopped by the user]"

func TestStopEndsATurnWhoseModelStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, _ := endpoint(t, llmtest.Queue(llmtest.Text(strings.Repeat("word ", 1000)).Every(time.Second),
			llmtest.Text("next")))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "talk")
		k.Say("a", "2", "and then?")
		pass(10 * time.Second)
		k.Say("a", "s", "/stop")
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		k.WantEnd("s", corebot.EndApplied)
		k.WantTold("1", "Stopped.")
		k.WantTold("s", "Stopping.")
		pass(10 * time.Second)
		k.WantTold("2", "next")
		got := k.Transcript("a")
		if len(got) < 2 || !strings.HasPrefix(got[1], "assistant: word word ") ||
			!strings.HasSuffix(got[1], " \n\n[stopped by the user]") {
			t.Fatalf("what was said before the stop is not in the history: %q", got)
		}
		got[1] = stoppedNote
		if want := []string{"user: talk", stoppedNote, "user: and then?", "assistant: next"}; !slices.Equal(got, want) {
			t.Errorf("the history is %q, want %q", got, want)
		}
	})
}

func TestStopKeepsWhatWasDoneAndPairsEveryCallWithAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Model: apptest.Script(
				apptest.Asks(apptest.Call("c1", "web.search", `{"text":"quick"}`)),
				apptest.Asks(apptest.Call("c1", "web.search", `{"text":"quick"}`),
					apptest.Call("c2", "web.search", `{"text":"slow"}`), apptest.Call("c3", "web.search",
						`{"text":"never"}`)),
			),
			Tools: []tools.Tool{slowSearch()},
		}).Start()
		k.Say("a", "1", "look")
		pass(5 * time.Second)
		k.Say("a", "s", "/stop")
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		open := "tool: stopped by the user; it may or may not have taken effect"
		want := []string{
			"user: look", `assistant: web.search({"text":"quick"})`, "tool: found quick",
			`assistant: web.search({"text":"quick"})web.search({"text":"slow"})web.search({"text":"never"})`,
			"tool: found quick", open, open, stoppedNote,
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is %q, want %q", got, want)
		}
		var ids []string
		for _, e := range k.Said("a")[4:7] {
			ids = append(ids, e.CallID)
		}
		if !slices.Equal(ids, []string{"c1", "c2", "c3"}) {
			t.Errorf("the results answer %v", ids)
		}
		if u := k.Life("1").Usage; u.InputTokens != 20 || u.OutputTokens != 10 {
			t.Errorf("the usage is %+v", u)
		}
	})
}

// slowSearch takes a minute to find "slow".
func slowSearch() tools.Tool {
	return apptest.Tool("web.search", tools.ReadOnly, func(ctx context.Context, text string) (string, error) {
		if text == "slow" {
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return "found " + text, nil
	})
}

func TestStopEndsAHeadInBackoffAndKeepsWhatItsAttemptsDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &corebot.Failure{Class: corebot.RateLimited, RetryAfter: time.Hour, Err: errors.New("busy")}
		model := apptest.Script(apptest.Asks(apptest.Call("c1", "web.search", `{"text":"x"}`)), apptest.Fails(busy),
			apptest.Text("next"))
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		k.Say("a", "2", "and then?")
		pass(time.Minute)
		if state := k.Life("1").State; state != "waiting: backoff" {
			t.Fatalf("the head is %s", state)
		}
		k.Say("a", "s", "/stop")
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		k.WantTold("1", delayedText, "Stopped.")
		k.WantTold("2", "next")
		want := []string{
			"user: look", `assistant: web.search({"text":"x"})`, "tool: found x", stoppedNote,
			"user: and then?", "assistant: next",
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is %q, want %q", got, want)
		}
	})
}

func TestStopWithNothingToStopSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Model: apptest.Script(apptest.Text("hi"))}).Start()
		k.Say("a", "s", "/stop")
		k.WantTold("s", "There is nothing to stop.")
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.WantTold("1", "hi")
	})
}

func TestStopWithAnIdThatWasUsedStopsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Model: apptest.Script(apptest.Hangs(),
			apptest.After(time.Minute, apptest.Text("second")))}).Start()
		k.Say("a", "1", "first")
		pass(time.Second)
		if a := k.SayAs(apptest.Sender, "a", "s", "/stop"); a.Duplicate {
			t.Error("the first /stop is a duplicate")
		}
		k.Say("a", "2", "second")
		pass(time.Second)
		if a := k.SayAs(apptest.Sender, "a", "s", "/stop"); !a.Duplicate {
			t.Error("the second /stop is no duplicate")
		}
		pass(2 * time.Minute)
		k.WantEnd("1", corebot.EndStopped)
		k.WantTold("2", "second")
		k.WantTold("s", "Stopping.")
	})
}

func TestStopIsForTheSenderOrAnAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Model: apptest.Always(apptest.Hangs())}).Start()
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.SayAs("mallory", "a", "s1", "/stop")
		k.SayAs("", "a", "s2", "/stop") // somebody whom the channel cannot name
		pass(time.Minute)
		k.WantEnd("1", "")
		for _, id := range []string{"s1", "s2"} {
			k.WantTold(id, "Only who sent the message, or an admin, can stop its answer.")
		}
		wantDenied(t, k, "stop /stop others-message mallory {}", "stop /stop others-message  {}")
		grant := corebot.Grant{Principal: apptest.Person("root"), Role: corebot.RoleAdmin}
		if err := k.Grants.Grant(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
		k.SayAs("root", "a", "s3", "/stop")
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		k.SayAs("mallory", "a", "s4", "/stop") // there is nothing that could be denied
		k.WantTold("s4", "There is nothing to stop.")
		wantDenied(t, k, "stop /stop others-message mallory {}", "stop /stop others-message  {}")
	})
}

// programsOf are programs in the background, by who has started them.
type programsOf map[corebot.Principal]int

func (p programsOf) RunningOf(_ corebot.Key, owner corebot.Principal, all bool) (n int) {
	for who, running := range p {
		if all || who == owner {
			n += running
		}
	}
	return n
}

func (p programsOf) StopOf(k corebot.Key, owner corebot.Principal, all bool) int {
	n := p.RunningOf(k, owner, all)
	for who := range p {
		if all || who == owner {
			delete(p, who)
		}
	}
	return n
}

// TestStopEndsTheProgramsInTheBackground of its sender; an admin's ends all of the chat.
func TestStopEndsTheProgramsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := programsOf{apptest.Person("ann"): 1, apptest.Person("bob"): 2}
		k := apptest.New(t, apptest.Options{
			Model:  apptest.Script(apptest.Hangs()),
			Router: router.Options{Programs: running},
		}).Start()
		k.SayAs("mallory", "a", "s1", "/stop")
		k.WantTold("s1", "There is nothing to stop.")
		k.SayAs("ann", "a", "s2", "/stop")
		k.WantTold("s2", "1 program in the background ends.")
		if len(running) != 1 {
			t.Errorf("left are %v", running)
		}
		running[apptest.Person("ann")] = 1
		k.SayAs("ann", "a", "s2", "/stop")
		if len(running) != 2 {
			t.Errorf("the same /stop again has ended programs: %v", running)
		}
		if err := k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person("root"), Role: corebot.RoleAdmin,
		}); err != nil {
			t.Fatal(err)
		}
		k.SayAs("root", "a", "1", "hello")
		pass(time.Second)
		k.SayAs("root", "a", "s3", "/stop")
		pass(time.Second)
		k.WantTold("s3", "Stopping. 3 programs in the background end.")
		k.WantEnd("1", corebot.EndStopped)
		if len(running) != 0 {
			t.Errorf("left are %v", running)
		}
	})
}

// wantDenied compares the denials in the audit, oldest first.
func wantDenied(t *testing.T, k *apptest.Kit, want ...string) {
	t.Helper()
	events, err := storage.NewAudit(k.DB).List(t.Context(), corebot.AuditFilter{Outcome: corebot.OutcomeDenied})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(events) {
		got = append(got, fmt.Sprintf("%s %s %s %s %s", e.Event, e.Tool, e.Rule, e.Principal.ID, e.Args))
	}
	if !slices.Equal(got, want) {
		t.Errorf("denied were %q, want %q", got, want)
	}
}

// slowClaims hands deliveries over late: between the store's claim and the router's knowledge of it a /stop can fall.
type slowClaims struct {
	*bus.Bus
	by time.Duration
}

func (q slowClaims) Claim(ctx context.Context, pool corebot.Pool, most int) ([]corebot.Delivery, error) {
	ds, err := q.Bus.Claim(ctx, pool, most)
	if err == nil {
		time.Sleep(q.by)
	}
	return ds, err
}

func TestAStopThatOvertakesTheClaimStillStopsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.Text("too late"))
		k := apptest.New(t, apptest.Options{Model: model})
		replaceRouter(t, k, slowClaims{k.Bus, 5 * time.Second})
		k.Say("a", "1", "hello")
		k.Start()
		pass(time.Second) // claimed in the store, not yet known to the router
		k.Say("a", "s", "/stop")
		pass(10 * time.Second)
		k.WantEnd("1", corebot.EndStopped)
		k.WantTold("1", "Stopped.")
		if len(model.Requests()) != 0 {
			t.Error("the model was asked")
		}
	})
}

// replaceRouter puts a router with another queue in place of the kit's.
func replaceRouter(t *testing.T, k *apptest.Kit, q router.Queue) {
	t.Helper()
	if err := k.NewRouter(q, router.Options{Workers: 2}); err != nil {
		t.Fatal(err)
	}
}

// stopAtTheEnd has a /stop find its message as the head, and the message end before the router hears of it.
type stopAtTheEnd struct {
	router.Ledger
	before func()
}

func (l *stopAtTheEnd) Stop(ctx context.Context, m corebot.Message, head int64, by corebot.AuditEvent,
	notice func(bool) corebot.Message, asked ...corebot.Head,
) (corebot.Stopped, error) {
	s, err := l.Ledger.Stop(ctx, m, head, by, notice, asked...)
	l.before()
	return s, err
}

func TestAStopThatCameTooLateDoesNotHitAReplayOfItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		ready := make(chan struct{})
		late := &stopAtTheEnd{before: func() { close(ready); pass(time.Second) }}
		k := apptest.New(t, apptest.Options{
			Ledger: func(l router.Ledger) router.Ledger { late.Ledger = l; return late },
			Brain: brain(func(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
				if runs.Add(1) == 1 {
					<-ready
					return corebot.Result{}, &corebot.Failure{Class: corebot.Permanent, Err: errors.New("no")}
				}
				return answer(d, "replayed"), context.Cause(ctx)
			}),
		}).Start()
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.Say("a", "s", "/stop") // its message is dead when the router hears of it
		k.WantEnd("1", corebot.EndDead)
		pass(time.Second)
		if err := k.DeadLetters.Replay(t.Context(), k.Life("1").ID, false); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		k.WantEnd("1", corebot.EndAnswered)
	})
}

func TestAStopBeforeTheFirstClaimEndsTheMessageWithoutTheModelAlsoAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, model := t.TempDir(), apptest.Script(apptest.Text("next"))
		k := apptest.New(t, apptest.Options{Dir: dir})
		k.Say("a", "1", "hello")
		k.Say("a", "s1", "/stop")
		k.Say("b", "2", "/new")
		k.Say("b", "s2", "/stop")
		k.Say("a", "3", "next")
		k.Close()
		k = apptest.New(t, apptest.Options{Dir: dir, Model: model}).Start()
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		k.WantEnd("2", corebot.EndStopped)
		k.WantTold("3", "next")
		if n := len(model.Requests()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}
