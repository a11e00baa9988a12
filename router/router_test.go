package router_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/router"
)

// pass lets virtual time go by, and everything happen that falls due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// brain is an agent that a test writes as a function.
type brain func(ctx context.Context, d corebot.Delivery) (corebot.Result, error)

func (b brain) Turn(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
	return b(ctx, d)
}

// answer ends a turn with a text.
func answer(d corebot.Delivery, text string) corebot.Result {
	return corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{{
			Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart(text),
			MessageID: d.Message.ID,
		}},
		Replies: []corebot.Message{{
			ID: d.RunID() + "/1", Direction: corebot.Outbound, Key: d.Message.Key, Kind: corebot.KindReply,
			Parts: corebot.TextPart(text), InReplyTo: d.Message.ID,
		}},
	}
}

// faultyLedger stands before the real one: commit may fail instead of it, or after it.
type faultyLedger struct {
	router.Ledger
	commit func(try int, real func() error) error

	mu    sync.Mutex
	tries int
}

func (l *faultyLedger) CommitAndClaim(ctx context.Context, d corebot.Delivery, r corebot.Result,
	next corebot.Claim,
) (claimed []corebot.Delivery, err error) {
	l.mu.Lock()
	l.tries++
	n := l.tries
	l.mu.Unlock()
	err = l.commit(n, func() (err error) {
		claimed, err = l.Ledger.CommitAndClaim(ctx, d, r, next)
		return err
	})
	return claimed, err
}

func TestTurnsOfAChatRunOneAtATimeInOrderWhileOtherChatsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := map[string]int{}, 0
		var order []string
		count := func(chat string, by int) (all int) {
			mu.Lock()
			defer mu.Unlock()
			if running[chat] += by; running[chat] > 1 {
				t.Errorf("two turns of chat %s run at once", chat)
			}
			for _, n := range running {
				all += n
			}
			most = max(most, all)
			return all
		}
		k := apptest.New(t, apptest.Options{Brain: brain(func(_ context.Context,
			d corebot.Delivery,
		) (corebot.Result, error) {
			count(d.Message.Key.Chat, 1)
			time.Sleep(time.Second)
			count(d.Message.Key.Chat, -1)
			mu.Lock()
			order = append(order, d.Message.ID)
			mu.Unlock()
			return answer(d, "ok"), nil
		})})
		for _, id := range []string{"1", "2", "3"} {
			k.Say("a", "a"+id, "x")
			k.Say("b", "b"+id, "x")
		}
		k.Start()
		pass(3*time.Second + 100*time.Millisecond)
		for _, chat := range []string{"a", "b"} {
			got := slices.DeleteFunc(slices.Clone(order), func(id string) bool { return !strings.HasPrefix(id, chat) })
			if want := []string{chat + "1", chat + "2", chat + "3"}; !slices.Equal(got, want) {
				t.Errorf("the turns of a chat ran as %v, want %v", got, want)
			}
		}
		if most != 2 {
			t.Errorf("%d turns ran at once, want those of the 2 chats", most)
		}
	})
}

func TestTheHeartbeatKeepsALongTurnsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Model: apptest.Script(apptest.After(5*time.Minute, apptest.Text("at last"))),
			Bus:   bus.Options{Lease: 30 * time.Second},
		}).Start()
		k.Say("a", "1", "hello")
		pass(5*time.Minute + time.Second)
		k.WantEnd("1", corebot.EndAnswered)
		k.WantTold("1", "at last")
		if log := k.Life("1").AttemptLog; len(log) != 0 {
			t.Errorf("the lease was lost: %+v", log)
		}
	})
}

func TestALostLeaseCancelsTheTurnAndCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 8)
		k := apptest.New(t, apptest.Options{
			Bus: bus.Options{Lease: 30 * time.Second},
			Brain: brain(func(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
				if d.Epoch > 1 {
					return answer(d, "the second owner"), nil
				}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return answer(d, "the first owner"), nil // as a turn that did not notice
			}),
		})
		k.Say("a", "1", "hello")
		k.Start()
		pass(time.Second)
		stealLease(t, k)
		pass(time.Minute)
		if cause := <-causes; !errors.Is(cause, corebot.ErrLeaseLost) {
			t.Errorf("the turn was cancelled by %v", cause)
		}
		k.WantTold("1", "the second owner")
		if got := k.Transcript("a"); len(got) != 1 {
			t.Errorf("the history is %q", got)
		}
	})
}

// stealLease ends the lease of the running turn of chat "a" behind the router's back, so that another worker takes the
// lane. A command in another chat has the store look for work; it is answered.
func stealLease(t *testing.T, k *apptest.Kit) {
	t.Helper()
	k.Alter(`UPDATE lanes SET wake_at = 1 WHERE id = 1`)
	k.Say("b", "help", "/help")
}

func TestACommitIsTriedAgainWhenTheStoreErrs(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for name, commit := range map[string]func(int, func() error) error{
		"it failed": func(try int, real func() error) error {
			if try < 3 {
				return broken
			}
			return real()
		},
		"its outcome was unknown, and it had happened": func(try int, real func() error) error {
			if try == 1 {
				_ = real()
				return corebot.ErrCommitUnknown
			}
			return real()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := apptest.Script(apptest.Text("hi"))
				k := apptest.New(t, apptest.Options{Model: model, Ledger: func(l router.Ledger) router.Ledger {
					return &faultyLedger{Ledger: l, commit: commit}
				}}).Start()
				k.Say("a", "1", "hello")
				pass(10 * time.Second)
				k.WantEnd("1", corebot.EndAnswered)
				k.WantTold("1", "hi")
				if n := len(model.Requests()); n != 1 {
					t.Errorf("the model was asked %d times", n)
				}
				if n := turns(t, k, "answered"); n != 1 {
					t.Errorf("%v turns count as answered", n)
				}
			})
		})
	}
}

func TestACommitThatFailsForGoodLeavesTheMessageToItsNextClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Always(apptest.Text("hi"))
		k := apptest.New(t, apptest.Options{
			Model: model, Bus: bus.Options{Lease: 30 * time.Second},
			Ledger: func(l router.Ledger) router.Ledger {
				return &faultyLedger{Ledger: l, commit: func(try int, real func() error) error {
					if try <= 6 {
						return errors.New("no")
					}
					return real()
				}}
			},
		}).Start()
		k.Say("a", "1", "hello")
		pass(2 * time.Minute)
		k.WantEnd("1", corebot.EndAnswered)
		k.WantTold("1", "hi")
		if n := turns(t, k, "uncommitted"); n != 1 {
			t.Errorf("%v turns count as uncommitted", n)
		}
	})
}

func TestALeaseThatWasLostBetweenTwoTriesIsNoSuccess(t *testing.T) {
	for name, first := range map[string]error{
		"the first failed":              errors.New("no"),
		"of the first nothing is known": corebot.ErrCommitUnknown,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k *apptest.Kit
				k = apptest.New(t, apptest.Options{
					Model: apptest.Always(apptest.Text("hi")),
					Ledger: func(l router.Ledger) router.Ledger {
						return &faultyLedger{Ledger: l, commit: func(try int, real func() error) error {
							if try == 1 {
								stealLease(t, k)
								return first
							}
							return real()
						}}
					},
				})
				k.Say("a", "1", "hello")
				k.Start()
				pass(time.Minute)
				if u, a := turns(t, k, "uncommitted"), turns(t, k, "answered"); u != 1 || a != 2 {
					t.Errorf("%v turns count as uncommitted and %v as answered, want 1 and 2", u, a)
				}
			})
		})
	}
}

// turns reads how many turns ended so, or were not committed.
func turns(t *testing.T, k *apptest.Kit, end string) float64 {
	t.Helper()
	families, err := k.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "corebot_turns_uncommitted_total" && end == "uncommitted" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
		if f.GetName() != "corebot_turns_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[1].GetValue() == end { // the first is the agent
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestNewBeginsAnotherSessionAndTheOldHistoryIsOutOfThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Always(apptest.Text("hm"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		for i, text := range []string{"the first secret", "/new", "the second thing", "/reset", "the third thing"} {
			k.Say("a", string(rune('1'+i)), text)
			pass(time.Second)
		}
		k.WantTold("2", "A new conversation begins here.")
		k.WantTold("4", "A new conversation begins here.")
		for _, m := range model.Last().Messages {
			if strings.Contains(m.Text, "first") || strings.Contains(m.Text, "second") {
				t.Errorf("the prompt still has %q", m.Text)
			}
		}
		if got := k.Transcript("a"); !slices.Equal(got, []string{"user: the third thing", "assistant: hm"}) {
			t.Errorf("the session is %q", got)
		}
	})
}

func TestHelpNamesEveryCommandAndAsksNoModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script()
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "/help")
		pass(time.Second)
		told := k.Told("1")
		if len(told) != 1 || told[0].Kind != corebot.KindNotice {
			t.Fatalf("was told %+v", told)
		}
		for _, c := range []string{"/help", "/new", "/reset", "/stop"} {
			if !strings.Contains(told[0].Text(), c) {
				t.Errorf("%s is not in %q", c, told[0].Text())
			}
		}
		if len(model.Requests()) != 0 {
			t.Error("the model was asked")
		}
	})
}

func TestWatchersSeeATurnFromItsBeginToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := new(live.Hub)
		k := apptest.New(t, apptest.Options{
			Model: apptest.Script(apptest.Text("hi")), Router: router.Options{Live: hub},
			Agent: agent.Options{Live: hub},
		}).Start()
		events, stop := hub.Watch(apptest.Key("a"))
		k.Say("a", "1", "hello")
		pass(time.Second)
		stop()
		var kinds []live.EventKind
		var last live.Event
		for e := range events {
			kinds, last = append(kinds, e.Kind), e
		}
		if want := []live.EventKind{live.TurnStarted, live.Text, live.TurnEnded}; !slices.Equal(kinds, want) ||
			last.Text != "answered" || last.MessageID != "1" {
			t.Errorf("the events are %v and the last is %+v", kinds, last)
		}
	})
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	for _, o := range []router.Options{{Workers: -1}, {Drain: -1}, {MaxBytes: -1}} {
		if err := k.NewRouter(k.Bus, o); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestARouterIsNotMadeWithoutOneOfItsParts(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	rules, err := policy.New(policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := router.Parts{
		Queue: k.Bus, Ledger: k.Ledger, Letters: k.DeadLetters, Lives: k.Lives, Approvals: k.Approvals, Agent: k.Agent,
		Roles: k.Grants, Policy: rules,
	}
	if _, err := router.New(whole, router.Options{}); err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[router.Parts]().Fields() {
		parts := whole
		reflect.ValueOf(&parts).Elem().FieldByIndex(field.Index).SetZero()
		if _, err := router.New(parts, router.Options{}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("without %s: %v", field.Name, err)
		}
	}
}
