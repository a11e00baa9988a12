package router_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// answerAfter is the setting of these tests.
const answerAfter = 2 * time.Minute

func after(d time.Duration) tools.Options {
	return tools.Options{AnswerAfter: func(string) time.Duration { return d }}
}

// detached is a Corebot whose model obeys a page, answers "without", and tells in the end what came of its call.
func detached(t *testing.T, o apptest.Options) counter {
	t.Helper()
	o.Box = after(answerAfter)
	if o.Model == nil {
		o.Model = apptest.Script(append(hijacked()[:2], apptest.Text("without"), apptest.Text("told"),
			apptest.Text("next"))...)
	}
	return newCounter(t, o)
}

// carrier is the id of the message whose turn makes the calls of request 1.
const carrier = "corebot:approval/1/run"

// texts are what a chat was told about a message.
func (c counter) texts(id string) (out []string) {
	for _, m := range c.Told(id) {
		if m.Direction == corebot.Outbound {
			out = append(out, m.Text())
		}
	}
	return out
}

func TestAnAnswerComesWhileItsCallWaitsAndTheCallRunsOnceItIsApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := detached(t, apptest.Options{})
		c.SayAs("root", "a", "1", "read the page")
		pass(answerAfter - time.Second)
		c.WantEnd("1", "")
		pass(2 * time.Second)
		c.WantEnd("1", corebot.EndAnswered)
		if told := c.texts("1"); len(told) != 2 || told[1] != "without" {
			t.Fatalf("told %q", told)
		}
		open := c.Told(carrier)
		if len(open) != 1 || open[0].Notice.Kind != corebot.NoticeApproval || open[0].Notice.Approval.ID != 1 ||
			open[0].Notice.Actions[0].Command != "/approve 1" {
			t.Fatalf("behind the answer stands %+v", open)
		}
		if r := c.results(); len(r) != 2 || !strings.HasPrefix(r[1], "waits: ") || c.runs.Load() != 0 {
			t.Fatalf("it ran %d times; the model was told %q", c.runs.Load(), r)
		}
		if a := c.state(t, 1); a.State != corebot.ApprovalAwaited || !a.Detached() ||
			a.ExpiresAt.Sub(a.CreatedAt) != 15*time.Minute {
			t.Fatalf("the approval is %+v", a)
		}
		pass(time.Minute)
		c.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Second)
		c.WantEnd(carrier, corebot.EndAnswered)
		if told := c.texts(carrier); len(told) != 2 || told[1] != "told" || c.runs.Load() != 1 {
			t.Errorf("it ran %d times; told %q", c.runs.Load(), told)
		}
		if r := c.results(); len(r) != 3 || r[2] != "paid" {
			t.Errorf("the model was told %q", r)
		}
		c.SayAs("root", "a", "again", "/approve 1")
		c.WantTold("again", "Approval 1 is approved already, by test::root.")
		pass(time.Hour)
		if a := c.state(t, 1); c.runs.Load() != 1 || !a.Ran || a.State != corebot.ApprovalApproved {
			t.Errorf("it ran %d times: %+v", c.runs.Load(), a)
		}
		if got, want := c.audited(t), []string{
			"approval.request  root", "approval.detach success corebot", "approval.approve success root",
		}; !slices.Equal(got, want) {
			t.Errorf("the audit has %q, want %q", got, want)
		}
		if why := c.Life("1"); len(why.Replies) == 0 || !slices.ContainsFunc(why.Replies, func(l corebot.Life) bool {
			return l.MessageID == carrier
		}) {
			t.Errorf("why does not show what ran later: %+v", why.Replies)
		}
	})
}

// TestWhatGivesADetachedRequestUp: "no, leave it" and a late approval run nothing, whichever way the sender says it.
func TestWhatGivesADetachedRequestUp(t *testing.T) {
	said := func(who, chat, text string) func(*testing.T, counter) {
		return func(_ *testing.T, c counter) { c.SayAs(who, chat, "up", text) }
	}
	for name, test := range map[string]struct {
		end   func(*testing.T, counter)
		state corebot.ApprovalState
		late  string // what a late approval is told
		told  string // what the chat is told; empty: the answer of the command is enough
	}{
		"its sender writes again": {
			said("root", "a", "no, leave it"), corebot.ApprovalExpired,
			"Approval 1 was given up: its sender wrote again.",
			"Approval 1 is given up, because its sender wrote again: mcp.reload does not run.",
		},
		"its sender says no": {
			said("root", "a", "no"), corebot.ApprovalExpired, "Approval 1 was given up: its sender wrote again.",
			"Approval 1 is given up, because its sender wrote again: mcp.reload does not run.",
		},
		"its sender steers": {
			said("root", "a", "/steer rather not"), corebot.ApprovalExpired,
			"Approval 1 was given up: its sender wrote again.",
			"Approval 1 is given up, because its sender wrote again: mcp.reload does not run.",
		},
		"its sender begins anew": {
			said("root", "a", "/new"), corebot.ApprovalExpired, "Approval 1 was given up: its sender wrote again.",
			"Approval 1 is given up, because its sender wrote again: mcp.reload does not run.",
		},
		"its sender stops": {
			said("root", "a", "/stop"), corebot.ApprovalDenied, "Approval 1 is denied already, by test::root.",
			"Approval 1 is given up, because it was stopped: mcp.reload does not run.",
		},
		"an admin of the chat stops": {
			func(t *testing.T, c counter) {
				c.admin(t, "here", apptest.Key("a"))
				c.SayAs("here", "a", "up", "/stop")
			}, corebot.ApprovalDenied, "Approval 1 is denied already, by test::here.",
			"Approval 1 is given up, because it was stopped: mcp.reload does not run.",
		},
		"it is denied in the chat": {
			said("root", "a", "/deny 1"), corebot.ApprovalDenied, "Approval 1 is denied already, by test::root.", "",
		},
		"it is denied in the chat, to stop": {
			said("root", "a", "/deny 1 stop"), corebot.ApprovalDenied, "Approval 1 is denied already, by test::root.",
			"",
		},
		"it is denied elsewhere": {
			said("root", "b", "/deny 1"), corebot.ApprovalDenied, "Approval 1 is denied already, by test::root.",
			"Approval 1 was denied by test::root: mcp.reload does not run.",
		},
		"the operator denies it": {
			func(t *testing.T, c counter) { must(t, c.Approvals.Resolve(t.Context(), 1, corebot.Decision{})) },
			corebot.ApprovalDenied, "Approval 1 is denied already, by operator.",
			"Approval 1 was denied by operator: mcp.reload does not run.",
		},
		"it expires": {
			func(*testing.T, counter) { pass(15 * time.Minute) }, corebot.ApprovalExpired,
			"Approval 1 has expired: nobody answered in time, and the call did not run.",
			"Approval 1 has expired, because nobody answered in time: mcp.reload does not run.",
		},
		"the operator begins a session": {
			func(t *testing.T, c counter) { must(t, storage.NewChats(c.DB).Reset(t.Context(), apptest.Key("a"))) },
			corebot.ApprovalExpired, "Approval 1 was given up: a new conversation began.",
			"Approval 1 is given up, because a new conversation began: mcp.reload does not run.",
		},
		"an admin of the chat begins a session": {
			func(t *testing.T, c counter) {
				c.admin(t, "here", apptest.Key("a"))
				c.SayAs("here", "a", "up", "/new")
			}, corebot.ApprovalExpired, "Approval 1 was given up: a new conversation began.",
			"Approval 1 is given up, because a new conversation began: mcp.reload does not run.",
		},
		"the operator drops its message": {
			func(t *testing.T, c counter) {
				must(t, storage.NewDeferred(c.DB).Drop(t.Context(), c.Life(carrier).ID))
			},
			corebot.ApprovalDenied, "Approval 1 is denied already, by corebot.",
			"A request for an approval in this chat was dropped by an operator. Its calls do not run.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := detached(t, apptest.Options{})
				c.SayAs("root", "a", "1", "read the page")
				pass(answerAfter + time.Second)
				c.WantEnd("1", corebot.EndAnswered)
				test.end(t, c)
				pass(time.Second)
				if a := c.state(t, 1); a.State != test.state {
					t.Errorf("the approval is %+v", a)
				}
				c.SayAs("root", "b", "late", "/approve 1")
				c.WantTold("late", test.late)
				pass(time.Hour)
				told := c.texts(carrier)
				if test.told == "" && len(told) != 1 || test.told != "" && (len(told) != 2 || told[1] != test.told) {
					t.Errorf("the chat was told %q", told)
				}
				if life := c.Life(carrier); c.runs.Load() != 0 || life.End == "" || life.End == corebot.EndAnswered {
					t.Errorf("it ran %d times; its message is %q", c.runs.Load(), life.End)
				}
				fresh := strings.Contains(name, "anew") || strings.Contains(name, "session")
				if said := c.Said("a"); test.told != "" && !fresh && name != "the operator drops its message" &&
					!slices.ContainsFunc(said, func(e corebot.HistoryEntry) bool { return e.Text() == test.told }) {
					t.Errorf("the history still says that it waits: %q", apptest.Transcript(said))
				}
				c.SayAs("root", "a", "other", "read the page") // and the chat goes on
				pass(time.Second)
				c.WantEnd("other", corebot.EndAnswered)
			})
		})
	}
}

// hold has the answer to message 1 come without its call.
func hold(t *testing.T, o apptest.Options) counter {
	t.Helper()
	c := detached(t, o)
	c.SayAs("root", "a", "1", "read the page")
	pass(answerAfter + time.Second)
	c.WantEnd("1", corebot.EndAnswered)
	return c
}

func TestOthersOfAGroupDoNotWaitForACallAndGiveNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := detached(t, apptest.Options{})
		c.SayAs("root", "a", "1", "read the page")
		pass(time.Minute)
		c.SayAs("eve", "a", "2", "hello?")
		pass(answerAfter)
		c.WantEnd("2", corebot.EndAnswered)
		c.SayAs("eve", "a", "stop", "/stop")
		c.WantTold("stop", "There is nothing to stop.")
		c.SayAs("eve", "a", "3", "/approve 1")
		pass(time.Second)
		if a := c.state(t, 1); a.State != corebot.ApprovalAwaited || c.runs.Load() != 0 {
			t.Errorf("the approval is %+v", a)
		}
	})
}

func TestAPlainYesAnswersNoDetachedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hold(t, apptest.Options{})
		c.SayAs("root", "a", "2", "yes please")
		pass(time.Second)
		c.WantEnd("2", corebot.EndRefused)
		if told := c.texts("2"); len(told) != 1 || !strings.Contains(told[0], "/approve 1 or /deny 1") {
			t.Errorf("told %q", told)
		}
		c.SayAs("root", "a", "3", "/approve 1")
		pass(time.Second)
		if c.WantEnd(carrier, corebot.EndAnswered); c.runs.Load() != 1 {
			t.Errorf("it ran %d times", c.runs.Load())
		}
	})
}

// TestAnApprovedCallIsGivenUpUntilItsTurnBegins: the approval came, the lane was busy, and the sender wrote again.
func TestAnApprovedCallIsGivenUpUntilItsTurnBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hold(t, apptest.Options{Model: apptest.Script(append(hijacked()[:2], apptest.Text("without"),
			apptest.After(time.Minute, apptest.Text("for eve")), apptest.Text("for root"))...)})
		c.SayAs("eve", "a", "2", "think hard")
		pass(time.Second)
		c.SayAs("root", "a", "yes", "/approve 1")
		c.SayAs("root", "a", "3", "no, leave it")
		c.SayAs("root", "a", "again", "/approve 1")
		c.WantTold("again", "Approval 1 is void: its sender wrote again.")
		pass(time.Hour)
		if life := c.Life(carrier); c.runs.Load() != 0 || life.End != corebot.EndRefused {
			t.Errorf("it ran %d times; its message is %q", c.runs.Load(), life.End)
		}
		c.WantEnd("2", corebot.EndAnswered)
		c.WantEnd("3", corebot.EndAnswered)
		if a := c.state(t, 1); a.State != corebot.ApprovalVoid || a.Reason != "its sender wrote again" {
			t.Errorf("the approval is %+v", a)
		}
	})
}

// TestAChatHasOneDetachedRequestAndAMessageAsksNoMore: a second call of the same turn is refused to the model. The call
// of another message holds its answer.
func TestAChatHasOneDetachedRequestAndAMessageAsksNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pay := func(id string) apptest.Reply {
			return apptest.Asks(apptest.Call(id, "mcp.reload", `{"text":"`+id+`"}`))
		}
		c := detached(t, apptest.Options{Model: apptest.Script(append(hijacked()[:2], pay("again"),
			apptest.Text("without"), pay("evil"), apptest.Text("late"))...)})
		c.admin(t, "eve", corebot.Key{})
		c.SayAs("root", "a", "1", "read the page")
		pass(answerAfter + time.Second)
		c.WantEnd("1", corebot.EndAnswered)
		if r := c.results(); len(r) != 3 || !strings.Contains(r[2], "no second one is asked for") {
			t.Errorf("the model was told %q", r)
		}
		c.SayAs("eve", "a", "2", "and you?")
		pass(answerAfter + time.Minute)
		if life := c.Life("2"); life.State != "waiting: approval" {
			t.Errorf("it is %q", life.State)
		}
		c.SayAs("root", "b", "no", "/deny 1")
		pass(answerAfter)
		if c.Life("2").End != "" || len(c.open(t, "a")) != 1 {
			t.Errorf("it is %q", c.Life("2").State)
		}
		c.SayAs("root", "b", "no2", "/deny 2")
		pass(time.Second)
		if c.WantEnd("2", corebot.EndAnswered); c.runs.Load() != 0 {
			t.Errorf("it ran %d times", c.runs.Load())
		}
	})
}

func TestACallOfASenderWhoLostTheRoleDoesNotRunLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hold(t, apptest.Options{})
		c.admin(t, "other", corebot.Key{})
		must(t, c.Grants.Revoke(t.Context(), apptest.Person("root"), corebot.Key{}))
		c.SayAs("root", "a", "yes", "/approve 1")
		c.WantTold("yes", "Only an admin can say that: of the chat that the call is made in, or everywhere.")
		c.SayAs("other", "b", "yes2", "/approve 1")
		pass(time.Second)
		c.WantEnd(carrier, corebot.EndAnswered)
		if r := c.results(); c.runs.Load() != 0 || len(r) != 3 || !strings.HasPrefix(r[2], "denied: ") {
			t.Errorf("it ran %d times; the model was told %q", c.runs.Load(), r)
		}
		if a := c.state(t, 1); a.State != corebot.ApprovalVoid || a.Reason != "the call was not made (denied)" {
			t.Errorf("the approval is %+v", a)
		}
	})
}

// TestArgumentsThatWereChangedInTheDatabaseNeverRun changes what is stored of the call in each place.
func TestArgumentsThatWereChangedInTheDatabaseNeverRun(t *testing.T) {
	for name, change := range map[string]string{
		"the request":                        `UPDATE approvals SET args = replace(args, 'mallory', 'malice!')`,
		"the request, and its sender writes": `UPDATE approvals SET args = replace(args, 'mallory', 'malice!')`,
		"the message": `UPDATE message_parked SET body =
			CAST(replace(CAST(body AS TEXT), 'mallory', 'malice!') AS BLOB)`,
		"the first steps": `UPDATE execution_steps SET request = replace(request, 'mallory', 'malice!')`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := hold(t, apptest.Options{})
				c.Alter(change)
				_ = c.Approvals.Resolve(t.Context(), 1, corebot.Decision{Approve: true})
				if name == "the request, and its sender writes" {
					c.SayAs("root", "a", "writes", "are you there?")
					pass(time.Second)
					c.WantEnd("writes", corebot.EndAnswered)
				}
				pass(time.Hour)
				if life := c.Life(carrier); life.End == "" {
					t.Errorf("its message is %q", life.State)
				}
				ran := int32(0)
				if name == "the first steps" { // they have ended, and nothing reads them again to run a call
					ran = 1
				}
				if c.runs.Load() != ran {
					t.Errorf("it ran %d times, want %d: %q", c.runs.Load(), ran, c.results())
				}
				c.SayAs("root", "a", "other", "are you there?") // and the chat goes on
				pass(time.Second)
				c.WantEnd("other", corebot.EndAnswered)
			})
		})
	}
}

// TestOnlyWhatAPersonHasJustAskedForIsDetached: nobody watches the other turns, or another turn waits for them.
func TestOnlyWhatAPersonHasJustAskedForIsDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := detached(t, apptest.Options{})
		c.SayAs("root", "a", "t", "/remind 1m read the page")
		pass(time.Minute + answerAfter + time.Minute)
		if all := c.open(t, "a"); len(all) != 1 || all[0].Detached() {
			t.Errorf("of a task there is %+v", all)
		}
		pass(time.Hour)
		if c.runs.Load() != 0 {
			t.Errorf("it ran %d times", c.runs.Load())
		}
	})
}

// TestARestartBetweenTheStepsOfADetachedRequestLosesAndRepeatsNothing crashes the store after each step.
func TestARestartBetweenTheStepsOfADetachedRequestLosesAndRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := detached(t, apptest.Options{})
		c.SayAs("root", "a", "1", "read the page")
		pass(time.Minute)
		again := func(rest ...apptest.Reply) {
			c.Crash()
			c = detached(t, apptest.Options{Dir: c.Dir, Model: apptest.Script(rest...)})
		}
		again(apptest.Text("without"))
		pass(answerAfter)
		c.WantEnd("1", corebot.EndAnswered)
		again(apptest.Text("told"))
		pass(time.Minute)
		if life := c.Life(carrier); life.End != "" || !strings.HasPrefix(life.State, "deferred") {
			t.Fatalf("after the restart it is %q", life.State)
		}
		c.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Second)
		c.WantEnd(carrier, corebot.EndAnswered)
		if told := c.texts(carrier); c.runs.Load() != 1 || len(told) != 2 || told[1] != "told" {
			t.Errorf("it ran %d times; told %q", c.runs.Load(), told)
		}
		again()
		pass(time.Hour)
		if c.runs.Load() != 0 {
			t.Errorf("it ran again, %d times", c.runs.Load())
		}
	})
}

// TestAnApprovalDuringTheRestOfTheAnswerRunsTheCallBehindIt: the answer is still made when the approval comes.
func TestAnApprovalDuringTheRestOfTheAnswerRunsTheCallBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := detached(t, apptest.Options{Model: apptest.Script(append(hijacked()[:2],
			apptest.After(time.Minute, apptest.Text("without")), apptest.Text("told"))...)})
		c.SayAs("root", "a", "1", "read the page")
		pass(answerAfter + time.Second)
		c.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Second)
		if c.WantEnd("1", ""); c.runs.Load() != 0 {
			t.Fatalf("it ran %d times before the answer", c.runs.Load())
		}
		pass(time.Minute)
		c.WantEnd("1", corebot.EndAnswered)
		c.WantEnd(carrier, corebot.EndAnswered)
		if told := c.texts(carrier); c.runs.Load() != 1 || len(told) != 1 || told[0] != "told" {
			t.Errorf("it ran %d times; told %q", c.runs.Load(), told)
		}
	})
}

// TestADeadLetterKeepsItsDetachedRequestUntilItStartsOver: the journal of the replayed turn says that the call waits.
func TestADeadLetterKeepsItsDetachedRequestUntilItStartsOver(t *testing.T) {
	refused := fmt.Errorf("%w: no such model", corebot.ErrInvalid)
	for fresh, state := range map[bool]corebot.ApprovalState{
		false: corebot.ApprovalAwaited, true: corebot.ApprovalExpired,
	} {
		synctest.Test(t, func(t *testing.T) {
			model := apptest.Script(append(hijacked()[:2], apptest.Fails(refused), apptest.Text("in the end"),
				apptest.Text("told"))...)
			c := detached(t, apptest.Options{Bus: bus.Options{MaxAttempts: 1}, Model: model})
			c.SayAs("root", "a", "1", "read the page")
			pass(answerAfter + time.Second)
			c.WantEnd("1", corebot.EndDead)
			if a := c.state(t, 1); a.State != corebot.ApprovalAwaited {
				t.Fatalf("of a dead letter the approval is %+v", a)
			}
			must(t, c.DeadLetters.Replay(t.Context(), c.Life("1").ID, fresh))
			pass(time.Second)
			c.WantEnd("1", corebot.EndAnswered)
			if a := c.state(t, 1); a.State != state {
				t.Errorf("fresh %t: the approval is %+v", fresh, a)
			}
			c.SayAs("root", "b", "yes", "/approve 1")
			pass(time.Second)
			if ran := c.runs.Load(); ran != map[bool]int32{false: 1, true: 0}[fresh] {
				t.Errorf("fresh %t: it ran %d times", fresh, ran)
			}
		})
	}
}

// TestADecisionThatComesTwiceRunsTheCallOnce: two terminals answer at the same moment, and one of them twice.
func TestADecisionThatComesTwiceRunsTheCallOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hold(t, apptest.Options{})
		var done atomic.Int32
		var both sync.WaitGroup
		for range 8 {
			both.Go(func() {
				if err := c.Approvals.Resolve(t.Context(), 1, corebot.Decision{Approve: true}); err == nil {
					done.Add(1)
				}
			})
		}
		both.Wait()
		pass(time.Hour)
		if c.WantEnd(carrier, corebot.EndAnswered); c.runs.Load() != 1 || done.Load() != 1 {
			t.Errorf("it ran %d times for %d decisions", c.runs.Load(), done.Load())
		}
	})
}

// TestTwoCallsOfOneAnswerAreDetachedAndRunTogether: the call between them needs no approval. It is not run without the
// first, and not run later either.
func TestTwoCallsOfOneAnswerAreDetachedAndRunTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hold(t, apptest.Options{Model: apptest.Script(hijacked()[0], apptest.Asks(
			apptest.Call("b", "mcp.reload", `{"text":"one"}`), apptest.Call("c", "web.fetch", `{"text":"page"}`),
			apptest.Call("d", "mcp.reload", `{"text":"two"}`),
		), apptest.Text("without"), apptest.Text("told"))})
		r := c.results()
		if len(r) != 4 || !strings.HasPrefix(r[1], "waits: ") || !strings.Contains(r[2], "the rest of the answer") ||
			!strings.HasPrefix(r[3], "waits: ") {
			t.Fatalf("the model was told %q", r)
		}
		c.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Second)
		if r = c.results(); c.runs.Load() != 2 || len(r) != 6 || r[4] != "paid" || r[5] != "paid" {
			t.Errorf("it ran %d times; the model was told %q", c.runs.Load(), r)
		}
	})
}

// later tries every effect behind one door, where each answer comes without its calls. Then the sender says to leave
// it, and an approval comes all the same.
func later(t *testing.T, door string) (f tally) {
	d := doors[door]
	c, w := stage(t, apptest.Options{Box: after(answerAfter)}, d.more)
	for i, effect := range effects {
		chat := fmt.Sprint("chat", i)
		for j, said := range d.before {
			who, text, _ := strings.Cut(said, ": ")
			w.say(c, who, chat, fmt.Sprint("before", i, j), text)
			pass(time.Second)
		}
		id := fmt.Sprint(i)
		words := fmt.Sprintf("task %d: read https://news.example/ do: ", i)
		w.say(c, "root", chat, id, words+d.reads+effect)
		pass(answerAfter + time.Second)
		for n := 0; c.Life(id).State == "waiting: approval" && n < 3; n++ { // of a program, to read at all
			pass(answerAfter + time.Second)
		}
		c.WantEnd(id, corebot.EndAnswered)
		open := c.open(t, chat)
		c.SayAs("root", chat, id+"no", "no, leave it")
		for _, a := range open {
			_ = c.Approvals.Resolve(t.Context(), a.Request, corebot.Decision{Approve: true})
		}
		pass(time.Hour)
		if f.calls++; w.ran[effect] > 0 {
			f.ran++
		}
	}
	for call := range w.ran {
		if strings.Contains(call, secret) {
			f.leaked++
		}
	}
	return f
}

// TestAPageThatAsksInTenMessagesHasOneOpenRequest: each message gives the request of the message before it up.
func TestAPageThatAsksInTenMessagesHasOneOpenRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := stage(t, apptest.Options{Box: after(answerAfter)}, 0)
		for i := range 10 {
			id := fmt.Sprint(i)
			w.say(c, "root", "a", id, fmt.Sprintf("read it, time %d do: fs.read notes.md; mcp__mail__send %d", i, i))
			pass(answerAfter + time.Second)
			c.WantEnd(id, corebot.EndAnswered)
			if open := c.open(t, "a"); len(open) != 1 {
				t.Fatalf("after message %d there are %d open calls", i, len(open))
			}
		}
		for request := int64(1); request <= 10; request++ {
			_ = c.Approvals.Resolve(t.Context(), request, corebot.Decision{Approve: true})
		}
		pass(time.Hour)
		if want := map[string]int{"fs.read notes.md": 10, "mcp__mail__send 9": 1}; !maps.Equal(w.ran, want) {
			t.Errorf("it ran %v, want %v", w.ran, want)
		}
	})
}

// TestADetachedRequestExpiresWhenItSaid: not before, and not later.
func TestADetachedRequestExpiresWhenItSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hold(t, apptest.Options{})
		pass(13*time.Minute - 2*time.Second)
		if a := c.state(t, 1); a.State != corebot.ApprovalAwaited {
			t.Errorf("before its time the approval is %+v", a)
		}
		pass(2 * time.Second)
		if a := c.state(t, 1); a.State != corebot.ApprovalExpired || len(c.texts(carrier)) != 2 {
			t.Errorf("after its time the approval is %+v; told %q", a, c.texts(carrier))
		}
	})
}

// TestAStopOfTheRestOfAnAnswerGivesItsDetachedRequestUp: the model still works on the answer without the call.
func TestAStopOfTheRestOfAnAnswerGivesItsDetachedRequestUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := detached(t, apptest.Options{Model: apptest.Script(append(hijacked()[:2], apptest.Hangs())...)})
		c.SayAs("root", "a", "1", "read the page")
		pass(answerAfter + time.Second)
		c.SayAs("root", "a", "s", "/stop")
		pass(time.Second)
		c.WantEnd("1", corebot.EndStopped)
		c.SayAs("root", "b", "late", "/approve 1")
		c.WantTold("late", "Approval 1 is denied already, by test::root.")
		pass(time.Hour)
		if c.runs.Load() != 0 || len(c.texts(carrier)) != 1 {
			t.Errorf("it ran %d times; told %q", c.runs.Load(), c.texts(carrier))
		}
	})
}

// TestAnApprovedCallIsKnownToHaveRunWhateverThePolicyIsThen: the operator asks for no approvals any more when the turn
// of the call begins.
func TestAnApprovedCallIsKnownToHaveRunWhateverThePolicyIsThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := hold(t, apptest.Options{})
		first.Crash()
		c := detached(t, apptest.Options{
			Dir: first.Dir, Model: apptest.Script(apptest.Text("told")),
			Policy: policy.Options{Approvals: policy.Approvals{Mode: policy.ApproveNever}},
		})
		c.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Second)
		c.WantEnd(carrier, corebot.EndAnswered)
		if a := c.state(t, 1); c.runs.Load() != 1 || a.State != corebot.ApprovalApproved || !a.Ran {
			t.Errorf("it ran %d times: %+v", c.runs.Load(), a)
		}
	})
}

// TestAMessageShowsItsRequestsThreeTimesAtMost: behind two refused requests the third one holds its answer, since a
// detached one would be shown a fourth time.
func TestAMessageShowsItsRequestsThreeTimesAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pay := func(id string) apptest.Reply {
			return apptest.Asks(apptest.Call(id, "mcp.reload", `{"text":"`+id+`"}`))
		}
		c := detached(t, apptest.Options{Model: apptest.Script(hijacked()[0], pay("one"), pay("two"), pay("three"),
			pay("four"), apptest.Text("done"))})
		c.SayAs("root", "a", "1", "read the page")
		for n := 1; n <= 2; n++ {
			pass(time.Second)
			c.SayAs("root", "b", fmt.Sprint("n", n), fmt.Sprintf("/deny %d", n))
		}
		pass(14 * time.Minute)
		if c.WantEnd("1", ""); c.state(t, 3).Detached() {
			t.Error("the third request is detached")
		}
		pass(2 * time.Minute)
		c.WantEnd("1", corebot.EndAnswered)
		if told := c.texts("1"); len(told) != 4 || c.runs.Load() != 0 { // three requests, and the answer
			t.Errorf("it ran %d times; told %q", c.runs.Load(), told)
		}
	})
}

// TestACallThatRunsLaterBelongsToItsSession, also where the pause before it would end the session.
func TestACallThatRunsLaterBelongsToItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hold(t, apptest.Options{Agent: agent.Options{SessionIdle: 5 * time.Minute}})
		pass(10 * time.Minute)
		c.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Second)
		c.WantEnd(carrier, corebot.EndAnswered)
		if said := c.Said("a"); len(said) == 0 || said[0].MessageID != "1" {
			t.Errorf("the session has %q", apptest.Transcript(said))
		}
	})
}
