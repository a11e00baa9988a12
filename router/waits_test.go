package router_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// waiter is a Corebot with one worker whose model waits.
type waiter struct {
	counter
	model *apptest.Model
}

func newWaiter(t *testing.T, o apptest.Options, script ...apptest.Reply) waiter {
	t.Helper()
	w := waiter{model: apptest.Script(script...)}
	w.begin(t, o)
	w.admin(t, "root", corebot.Key{})
	return w
}

// begin starts Corebot on a home.
func (w *waiter) begin(t *testing.T, o apptest.Options) {
	t.Helper()
	w.runs = new(atomic.Int32)
	o.Model, o.Router.Workers = w.model, 1
	limits := builtin.WaitOptions{
		Longest: 24 * time.Hour, Webhook: true, Limits: corebot.WaitLimits{PerSender: 2, Total: 3},
	}
	o.Tools = append(slices.Concat(builtin.Waits(limits), o.Tools), reads(), pays(w.runs))
	w.Kit = apptest.New(t, o).Start()
}

func waitsBy(tool, args string) apptest.Reply { return apptest.Asks(apptest.Call("w", tool, args)) }

// told are the texts of the notices about a message.
func (w *waiter) told(id string) (all []string) {
	for _, m := range w.Told(id) {
		all = append(all, m.Text())
	}
	return all
}

func TestAnAnswerWaitsForATimeWithoutAWorkerAndInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at midnight of 2000-01-01
		w := newWaiter(t, apptest.Options{}, waitsBy("wait.until", `{"time":"02:30","for":"the <b>oven\u200b"}`),
			apptest.Text("in the other chat"), apptest.Text("the oven is hot"), apptest.Text("hello to you"))
		w.Say("a", "1", "bake")
		pass(time.Minute)
		w.Say("a", "2", "hello")
		w.Say("a", "3", "/status")
		w.Say("b", "x", "hello")
		w.Accept(channels.Incoming{
			ID: "later", Channel: apptest.Channel, Chat: "a", SenderID: apptest.Sender,
			Parts:    corebot.TextPart("good night"),
			Envelope: corebot.Envelope{DeliverAt: time.Now().Add(20 * time.Hour)},
		})
		pass(time.Minute)
		w.WantTold("x", "in the other chat")
		w.WantTold("later") // nothing of it is said yet
		const until = "02:30:00 UTC on 1 January"
		w.WantTold("1", "This answer waits until "+until+" (wait 1): the <b>oven\\u200b. What is said here meanwhile "+
			"is answered afterwards. /resume 1 ends the wait now. /steer TEXT ends it with something to say, and "+
			"/stop ends the answer.")
		w.WantTold("2", "This waits behind an answer that waits for a time, until "+until+" at the latest. /resume 1 "+
			"lets that answer go on now, and /stop gives it up.")
		if text := notice(t, w.Kit, "3"); !strings.HasPrefix(text, "An answer waits for a time that the answer has "+
			"set.\nWait 1, for a time, until "+until+": /resume 1\n") {
			t.Errorf("the status is %q", text)
		}
		if life := w.Life("1"); life.State != "waiting: a time" || life.Attempts != 0 {
			t.Errorf("it is %q after %d attempts", life.State, life.Attempts)
		}
		w.Say("a", "4", "still there?")
		pass(2*time.Hour + 26*time.Minute)
		w.WantEnd("1", "")
		pass(3 * time.Minute)
		want := []string{
			"user: bake", `assistant: wait.until({"time":"02:30","for":"the \u003cb\u003eoven\u200b"})`,
			"tool: the time has come: it is Sat 2000-01-01 02:30:00 UTC", "assistant: the oven is hot", "user: hello",
			"assistant: hello to you",
		}
		if got := w.Transcript("a"); !slices.Equal(got[:6], want) {
			t.Errorf("the history is\n%q, want\n%q", got, want)
		}
		if n := len(w.told("4")); n > 1 {
			t.Errorf("the chat is told %d times that it waits: %q", n, w.told("4"))
		}
		if told := w.Told("1")[0]; told.Notice.Kind != corebot.NoticeWait || told.Notice.Wait.ID != 1 ||
			told.Notice.Actions[0].Command != "/resume 1" {
			t.Errorf("the notice says %+v", told.Notice)
		}
	})
}

func TestAShortWaitTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiter(t, apptest.Options{}, waitsBy("wait.until", `{"duration":"30s"}`), apptest.Text("done"))
		w.Say("a", "1", "go")
		pass(29 * time.Second)
		w.WantEnd("1", "")
		pass(2 * time.Second)
		w.WantTold("1", "done")
	})
}

func TestAWordIsOfTheSenderOrAnAdminAndTaintsUnlessItIsTheSenders(t *testing.T) {
	for _, c := range []struct {
		by, told string
		taints   bool
	}{
		{"root", "The answer goes on.", false},
		{"boss", "The answer goes on.", true},
		{"eve", "Only who sent the message whose answer waits, or an admin, can say that.", false},
	} {
		t.Run(c.by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaiter(t, apptest.Options{}, waitsBy("wait.word", `{"for":"the build","within":"2h"}`),
					apptest.Asks(apptest.Call("p", "mcp.reload", `{"text":"x"}`)), apptest.Text("done"))
				w.admin(t, "boss", corebot.Key{})
				w.SayAs("root", "a", "1", "build")
				pass(time.Minute)
				w.SayAs(c.by, "b", "0", "/resume 1 elsewhere")
				w.SayAs(c.by, "a", "2", "/resume 1  it is green ")
				pass(time.Minute)
				w.WantTold("0", "Nothing of this chat waits under the number 1.")
				w.WantTold("2", c.told)
				if c.by == "eve" {
					w.WantEnd("1", "")
					return
				}
				const came = "the word has come:\nit is green"
				if got := w.Life("1").Steps[1].Result.Content; !strings.Contains(got, came) {
					t.Errorf("the result is %q", got)
				}
				if held := w.Life("1").State == "waiting: approval"; held != c.taints {
					t.Errorf("behind a word of %s the message is %q", c.by, w.Life("1").State)
				}
				w.SayAs(c.by, "a", "3", "/resume 1 again")
				w.WantTold("3", "Wait 1 is over already, by "+apptest.Person(c.by).String()+".")
			})
		})
	}
}

func TestAResumeSaysWhatItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiter(t, apptest.Options{})
		for i, args := range []string{"", "x", "0", "-1", "9223372036854775808", "#1"} {
			id := fmt.Sprint(i)
			w.Say("a", id, "/resume "+args)
			want := "Say which wait, by its number: /resume ID [TEXT]. /status tells what waits in this chat."
			if args == "#1" {
				want = "Nothing of this chat waits under the number 1."
			}
			w.WantTold(id, want)
			pass(time.Minute)
		}
	})
}

func TestASteerEndsTheWaitAndTheModelHearsIt(t *testing.T) {
	for _, mode := range []corebot.QueueMode{corebot.ModeQueue, corebot.ModeSteer} {
		synctest.Test(t, func(t *testing.T) {
			w := newWaiter(t, apptest.Options{Queueing: corebot.Queueing{Mode: mode}},
				waitsBy("wait.until", `{"duration":"5h"}`), apptest.Text("as you wish"))
			w.Say("a", "1", "wait")
			pass(time.Minute)
			if mode == corebot.ModeSteer {
				w.Say("a", "2", "hurry")
			} else {
				w.Say("a", "2", "/steer hurry")
			}
			pass(time.Minute)
			want := []string{
				"user: wait", `assistant: wait.until({"duration":"5h"})`,
				"tool: error: wait 1 was given up: the user said something in the meantime", "user: hurry",
				"assistant: as you wish",
			}
			if got := w.Transcript("a"); !slices.Equal(got, want) {
				t.Errorf("%s: the history is\n%q, want\n%q", mode, got, want)
			}
			w.WantEnd("2", corebot.EndMerged)
		})
	}
}

func TestAStopEndsTheWaitAndTheAnswer(t *testing.T) {
	for _, mode := range []corebot.QueueMode{corebot.ModeQueue, corebot.ModeInterrupt} {
		synctest.Test(t, func(t *testing.T) {
			w := newWaiter(t, apptest.Options{Queueing: corebot.Queueing{Mode: mode}},
				waitsBy("wait.until", `{"duration":"5h"}`), apptest.Text("to the newer one"))
			w.Say("a", "1", "wait")
			pass(time.Minute)
			if mode == corebot.ModeInterrupt {
				w.Say("a", "2", "forget it")
			} else {
				w.Say("a", "2", "/stop")
			}
			pass(time.Minute)
			w.WantEnd("1", corebot.EndStopped)
			ended, err := w.Waits.Wait(t.Context(), 1)
			if err != nil || ended.State != corebot.WaitGivenUp || ended.Reason != "it was stopped" {
				t.Errorf("the wait is %+v, %v", ended, err)
			}
			if n := len(w.model.Requests()); n != 1 && mode == corebot.ModeQueue {
				t.Errorf("the model was asked %d times", n)
			}
		})
	}
}

// TestACrashWhileATurnWaitsOrWakesWakesItOnce crashes while the turn waits, while its time comes, and while the model
// is asked again.
func TestACrashWhileATurnWaitsOrWakesWakesItOnce(t *testing.T) {
	for _, asleep := range []time.Duration{time.Minute, 2*time.Hour - time.Second, 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			w := newWaiter(t, apptest.Options{Dir: dir}, waitsBy("wait.until", `{"duration":"2h"}`), apptest.Hangs())
			w.Say("a", "1", "wait")
			pass(asleep)
			w.Crash()
			w.model = apptest.Script(apptest.Text("done"))
			w.begin(t, apptest.Options{Dir: dir})
			pass(2*time.Hour + time.Minute - asleep)
			w.WantEnd("1", corebot.EndAnswered)
			want := []string{
				"user: wait", `assistant: wait.until({"duration":"2h"})`,
				"tool: the time has come: it is Sat 2000-01-01 02:00:00 UTC", "assistant: done",
			}
			if got := w.Transcript("a"); !slices.Equal(got, want) {
				t.Errorf("after %v the history is\n%q, want\n%q", asleep, got, want)
			}
			if n := len(w.told("1")); n != 2 {
				t.Errorf("the chat was told %q", w.told("1"))
			}
		})
	}
}

// keyOf is the key that the model was shown.
var keyOf = regexp.MustCompile(`the key ([A-Z2-7]{26})\.`)

func TestAProgramGivesTheWordByItsKeyAndItTaints(t *testing.T) {
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			open := apptest.Asks(apptest.Call("o", "wait.open", `{"for":"the build"}`))
			wait := apptest.Asks(apptest.Call("w", "wait.word", `{"id":1}`))
			w := newWaiter(t, apptest.Options{}, open, apptest.After(time.Minute, wait),
				apptest.Asks(apptest.Call("p", "mcp.reload", `{"text":"x"}`)))
			w.SayAs("root", "a", "1", "build")
			pass(time.Second)
			if early {
				w.giveByKey(t)
				pass(2 * time.Minute)
			} else {
				pass(2 * time.Minute)
				w.WantEnd("1", "")
				w.giveByKey(t)
				pass(time.Minute)
			}
			if state := w.Life("1").State; state != "waiting: approval" {
				t.Errorf("early %v: the message is %q", early, state)
			}
		})
	}
}

// giveByKey gives the word of the first wait by the key that stands in the journal.
func (w *waiter) giveByKey(t *testing.T) {
	t.Helper()
	var key []string
	for _, s := range w.Life("1").Steps {
		if s.Result != nil {
			key = keyOf.FindStringSubmatch(s.Result.Content)
		}
	}
	if key == nil {
		t.Fatalf("no key is shown: %+v", w.Life("1").Steps)
	}
	_, err := w.Waits.As(corebot.AuditEvent{Entry: corebot.EntryWord}).GiveByKey(t.Context(), 1, key[1],
		corebot.Word{Text: "green", Outside: true})
	if err != nil {
		t.Error(err)
	}
}

func TestAWaitThatNeedsAnApprovalIsApprovedAndThenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := apptest.Options{Policy: policy.Options{Approvals: policy.Approvals{Always: []string{"wait.until"}}}}
		w := newWaiter(t, o, waitsBy("wait.until", `{"duration":"2h"}`), apptest.Text("done"))
		w.SayAs("root", "a", "1", "wait")
		pass(time.Minute)
		w.SayAs("root", "a", "2", "/approve 1")
		pass(time.Minute)
		if state := w.Life("1").State; state != "waiting: a time" {
			t.Fatalf("approved it is %q", state)
		}
		if a := w.state(t, 1); !a.Ran || a.State != corebot.ApprovalApproved {
			t.Errorf("the approval is %+v", a)
		}
		pass(2 * time.Hour)
		w.WantEnd("1", corebot.EndAnswered)
		if a := w.state(t, 1); !a.Ran || a.State != corebot.ApprovalApproved {
			t.Errorf("in the end the approval is %+v", a)
		}
	})
}

func TestAWaitGoesOnWithoutItsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		sleep := tools.NewWaiting("web.search", "Waits.", 0, func(context.Context, tools.Call,
			apptest.ToolArgs,
		) (tools.Wait, error) {
			return tools.Wait{Pending: corebot.Pending{
				Kind: corebot.WaitSpan, State: corebot.WaitAwaited, Until: time.Now().Add(time.Hour),
			}}, nil
		})
		w := newWaiter(t, apptest.Options{Dir: dir, Tools: []tools.Tool{sleep}}, waitsBy("web.search", `{"text":"x"}`))
		w.Say("a", "1", "wait")
		pass(time.Minute)
		w.Close()
		w.model = apptest.Script(apptest.Text("done"))
		w.begin(t, apptest.Options{Dir: dir})
		pass(time.Hour)
		w.WantEnd("1", corebot.EndAnswered)
		if got := w.results(); len(got) != 1 || !strings.HasPrefix(got[0], "the time has come") {
			t.Errorf("the results are %q", got)
		}
	})
}

func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []corebot.ToolCall
		for i, args := range []string{
			`{}`, `{"time":"18:30","duration":"1h"}`, `{"duration":"25h"}`, `{"duration":"1ms"}`, `{"duration":"soon"}`,
			`{"time":"yesterday"}`, `{"time":"1999-12-24T18:00"}`, `{"time":"10m"}`, `{"time":"2000-01-03T00:00"}`,
			`{"time":"18:30","timeZone":"UTC"}`, `{"duration":"1h","for":"` + strings.Repeat("x", 301) + `"}`,
		} {
			calls = append(calls, apptest.Call(fmt.Sprint("u", i), "wait.until", args))
		}
		for i, args := range []string{
			`{"id":-1}`, `{"id":7}`, `{"id":1,"for":"x"}`, `{"within":"25h"}`, `{"id":"1"}`,
		} {
			calls = append(calls, apptest.Call(fmt.Sprint("w", i), "wait.word", args))
		}
		calls = append(calls, apptest.Call("o", "wait.open", `{}`))
		w := newWaiter(t, apptest.Options{}, apptest.Asks(calls...), apptest.Text("done"))
		w.Say("a", "1", "wait")
		pass(time.Minute)
		w.WantEnd("1", corebot.EndAnswered)
		for i, got := range w.results() {
			if !strings.HasPrefix(got, "error: ") && !strings.HasPrefix(got, "invalid_args: ") || len(got) < 20 {
				t.Errorf("%s %s gives %q", calls[i].Tool, calls[i].Args, got)
			}
		}
		if n := len(w.results()); n != len(calls) {
			t.Errorf("%d calls have results", n)
		}
	})
}

func TestOneSenderHoldsSoManyChatsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait, done := waitsBy("wait.word", `{"for":"x"}`), apptest.Text("done")
		w := newWaiter(t, apptest.Options{Router: router.Options{}}, wait, wait, wait, done, wait, wait, done)
		for i, who := range []string{"ann", "ann", "ann", "bob", "eve"} {
			w.SayAs(who, fmt.Sprint("chat", i), fmt.Sprint(i), "wait")
			pass(time.Minute)
		}
		for i, want := range []string{"waiting", "waiting", "answered", "waiting", "answered"} {
			if state := w.Life(fmt.Sprint(i)).State; !strings.HasPrefix(state, want) {
				t.Errorf("message %d is %q, want %s", i, state, want)
			}
		}
		pass(24 * time.Hour)
		if got := w.model.Last(); len(w.model.Requests()) < 7 {
			t.Errorf("the last request is %+v", got)
		}
	})
}
