package router_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
)

// spender is an agent whose every turn uses 100 tokens, and which notes what it answered.
type spender struct {
	mu       sync.Mutex
	answered []string
}

func (s *spender) Turn(_ context.Context, d corebot.Delivery) (corebot.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = append(s.answered, d.Message.ID)
	r := answer(d, "ok")
	r.Spent = []corebot.ModelUsage{{Model: "m", Usage: corebot.Usage{InputTokens: 60, OutputTokens: 40}}}
	return r, nil
}

func (s *spender) wantAnswered(t *testing.T, ids ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.answered, ids) {
		t.Errorf("answered were %v, want %v", s.answered, ids)
	}
}

// capped is a running Corebot with a budget.
func capped(t *testing.T, s router.Agent, b corebot.Budget) *apptest.Kit {
	t.Helper()
	return apptest.New(t, apptest.Options{
		Brain:  s,
		Router: router.Options{Spending: router.Spending{Budget: b}},
	}).Start()
}

// toldOf are the notices of a chat's lane that have to do with the budget, in order.
func toldOf(k *apptest.Kit, ids ...string) (texts []string) {
	for _, id := range ids {
		for _, m := range k.Told(id) {
			if strings.Contains(m.Text(), "budget") {
				texts = append(texts, m.Text())
			}
		}
	}
	return texts
}

func TestWhoIsOverACapWaitsForTheNextDayAndTheGroupDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spender{}
		k := capped(t, s, corebot.Budget{Principal: corebot.Cap{Tokens: 200}})
		for _, id := range []string{"1", "2", "3", "4"} {
			k.SayAs("ann", "group", id, "hello")
			pass(time.Second)
		}
		k.SayAs("bob", "group", "5", "hello")
		pass(time.Second)
		s.wantAnswered(t, "1", "2", "5")
		for _, id := range []string{"3", "4"} {
			if l := k.Life(id); l.End != "" || l.State != "deferred: principal budget" {
				t.Errorf("message %s is %s", id, l.State)
			}
		}
		if told := toldOf(k, "1", "2", "3", "4", "5"); len(told) != 1 ||
			!strings.HasPrefix(told[0], "Your budget of today is used up.") {
			t.Errorf("the chat was told %q", told)
		}
		pass(time.Until(corebot.Accounting{}.NextDay(time.Now())) - time.Second)
		s.wantAnswered(t, "1", "2", "5")
		pass(2 * time.Second)
		s.wantAnswered(t, "1", "2", "5", "3", "4")
	})
}

func TestEveryKindOfCapHolds(t *testing.T) {
	one := corebot.Cap{Tokens: 1}
	for name, c := range map[string]struct {
		budget   corebot.Budget
		answered []string // of ann in a, ann in b, bob in b, root in c
	}{
		"none":   {corebot.Budget{}, []string{"1", "2", "3", "4"}},
		"chat":   {corebot.Budget{Chat: one}, []string{"1", "2", "4"}},
		"sender": {corebot.Budget{Principal: one}, []string{"1", "3", "4"}},
		"normal": {corebot.Budget{Normal: one}, []string{"1", "4"}},
		"admin":  {corebot.Budget{Admin: one}, []string{"1", "2", "3", "4"}},
		"total":  {corebot.Budget{Total: one}, []string{"1"}},
		"higher": {corebot.Budget{Total: corebot.Cap{Tokens: 300}}, []string{"1", "2", "3"}},
		// nothing has a price here
		"cost": {corebot.Budget{Total: corebot.Cap{Cost: 1}}, []string{"1", "2", "3", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &spender{}
				k := capped(t, s, c.budget)
				if err := k.Grants.Grant(t.Context(), corebot.Grant{
					Principal: apptest.Person("root"),
					Role:      corebot.RoleAdmin, By: "operator",
				}); err != nil {
					t.Fatal(err)
				}
				for _, m := range [][3]string{
					{"ann", "a", "1"},
					{"ann", "b", "2"},
					{"bob", "b", "3"},
					{"root", "c", "4"},
				} {
					k.SayAs(m[0], m[1], m[2], "hello")
					pass(2 * time.Second) // what is read of a role, or of all, is a second old at most
				}
				s.wantAnswered(t, c.answered...)
			})
		})
	}
}

func TestTheCapOfAnAgentIsForThatAgent(t *testing.T) {
	one := corebot.Cap{Tokens: 1}
	for name, c := range map[string]struct {
		agents   map[string]corebot.Cap
		answered []string
	}{
		"its own":     {map[string]corebot.Cap{corebot.DefaultAgent: one}, []string{"1"}},
		"another's":   {map[string]corebot.Cap{"helper": one}, []string{"1", "2"}},
		"none at all": {nil, []string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &spender{}
				k := apptest.New(t, apptest.Options{
					Brain: s, Router: router.Options{Spending: router.Spending{Agents: c.agents}},
				}).Start()
				k.SayAs("ann", "a", "1", "hello")
				pass(2 * time.Second)
				k.SayAs("bob", "b", "2", "hello")
				pass(2 * time.Second)
				s.wantAnswered(t, c.answered...)
				if l := k.Life("2"); len(c.answered) == 1 && l.State != "deferred: agent budget" {
					t.Errorf("the message over the cap is %q", l.State)
				}
			})
		})
	}
}

func TestARunThatHasBegunGoesOnOverTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		k := capped(t, brain(func(_ context.Context, d corebot.Delivery) (corebot.Result, error) {
			if tries++; tries == 1 {
				spent := []corebot.ModelUsage{{Model: "m", Usage: corebot.Usage{InputTokens: 500}}}
				return corebot.Result{Spent: spent}, errors.New("it broke off")
			}
			return answer(d, "ok"), nil
		}), corebot.Budget{Chat: corebot.Cap{Tokens: 100}})
		k.Say("a", "1", "hello")
		pass(time.Minute)
		k.WantEnd("1", corebot.EndAnswered)
		if u := k.Life("1").Usage; u.InputTokens != 500 {
			t.Errorf("the failed attempt counts as %+v", u)
		}
		k.Say("a", "2", "hello")
		pass(time.Minute)
		if l := k.Life("2"); l.State != "deferred: chat budget" {
			t.Errorf("the next message is %s", l.State)
		}
	})
}

func TestAStopEndsADeferredMessageOfTheOneWhoSentIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spender{}
		k := capped(t, s, corebot.Budget{Principal: corebot.Cap{Tokens: 1}})
		k.SayAs("ann", "a", "1", "hello")
		pass(time.Second)
		k.SayAs("ann", "a", "2", "hello")
		pass(time.Second)
		k.SayAs("bob", "a", "stop1", "/stop")
		k.WantEnd("2", "")
		k.SayAs("ann", "a", "stop2", "/stop")
		pass(48 * time.Hour)
		k.WantEnd("2", corebot.EndStopped)
		k.WantTold("stop2", "Stopping.")
		s.wantAnswered(t, "1")
	})
}

func TestOneMoreThanCanBeDeferredIsRefusedAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Brain: &spender{}, Bus: bus.Options{Limits: corebot.Limits{
				LaneDepth: 1, TotalDepth: 100,
				TotalBytes: 1 << 20,
			}},
			Router: router.Options{Spending: router.Spending{Budget: corebot.Budget{Chat: corebot.Cap{Tokens: 1}}}},
		}).Start()
		for _, id := range []string{"1", "2", "3"} {
			k.Say("a", id, "hello")
			pass(time.Second)
		}
		k.WantEnd("2", "")
		k.WantEnd("3", corebot.EndRefused)
		if told := toldOf(k, "3"); len(told) != 1 || !strings.Contains(told[0], "not kept") {
			t.Errorf("the chat was told %q", told)
		}
	})
}

func TestUsageTellsTheChatAndTheAskerAndOnlyAdminsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := capped(t, &spender{}, corebot.Budget{Chat: corebot.Cap{Tokens: 100}, Total: corebot.Cap{Tokens: 1000}})
		if err := k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person("root"), Role: corebot.RoleAdmin,
			By: "operator",
		}); err != nil {
			t.Fatal(err)
		}
		k.SayAs("ann", "a", "1", "hello")
		k.SayAs("bob", "b", "2", "hello")
		pass(time.Second)
		k.SayAs("ann", "a", "u1", "/usage")
		k.SayAs("root", "a", "u2", "/usage")
		k.WantTold("u1", `Today, until 00:00 UTC:
- this chat: 60 tokens in, 40 out, cost not known; the cap is 100 tokens, used up
- you, in all chats: 60 tokens in, 40 out, cost not known
In 30 days:
- this chat: 60 tokens in, 40 out, cost not known
- you, in all chats: 60 tokens in, 40 out, cost not known`)
		if got := k.Told("u2"); len(got) != 1 || !strings.Contains(got[0].Text(),
			"- everything: 120 tokens in, 80 out, cost not known; the cap is 1000 tokens\n") {
			t.Errorf("an admin was told %+v", got)
		}
	})
}

func TestStatusAnswersAtOnceWhileATurnHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := capped(t, brain(func(ctx context.Context, _ corebot.Delivery) (corebot.Result, error) {
			<-ctx.Done()
			return corebot.Result{}, context.Cause(ctx)
		}), corebot.Budget{})
		k.Say("a", "s1", "/status")
		k.WantTold("s1", "Nothing is being answered.\nSession: 1\nQueue mode: the default")
		k.Say("a", "1", "hello")
		k.Say("a", "2", "hello")
		pass(90 * time.Second)
		k.Say("a", "s2", "/status")
		k.WantTold("s2", "An answer has been in the making for 1m30s.\nWaiting: 1\nSession: 1\nQueue mode: the default")
		k.Say("a", "stop", "/stop")
		pass(time.Second)
	})
}
