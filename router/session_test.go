package router_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

const (
	ofOthers = "Others have spoken in this session: an admin of this chat can begin a new one. So can an operator, " +
		"with `corebot chats reset main:test::a`."
	notBegun = " Nothing was begun, and your text was not answered. " +
		"Send it without the command to say it in this session."
	beginning = "A new conversation begins here."
)

// newSessions are the audit's rows of commands for a new session, oldest first: who gave it, which, and the rule.
func newSessions(t *testing.T, k *apptest.Kit) (all []string) {
	t.Helper()
	events, err := storage.NewAudit(k.DB).List(t.Context(), corebot.AuditFilter{})
	must(t, err)
	for _, e := range slices.Backward(events) {
		if e.Event == "new" || e.Event == "reset" {
			all = append(all, e.Principal.ID+" "+e.Tool+" "+string(e.Outcome)+" "+e.Rule)
		}
	}
	return all
}

func TestASessionInWhichOthersHaveSpokenIsEndedByAnAdminOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Always(apptest.Text("hm"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		say := func(who, id, text, told string) {
			t.Helper()
			k.SayAs(who, "a", id, text)
			pass(time.Second)
			k.WantTold(id, told)
		}
		said := []string{"user: hello", "assistant: hm", "user: me too", "assistant: hm"}
		say("ann", "1", "hello", "hm")
		say("bob", "2", "me too", "hm")
		for range 2 { // the second are copies
			say("bob", "3", "/new", ofOthers)
			say("ann", "4", "/RESET", ofOthers)
			say("", "5", "/new", ofOthers)
			say("bob", "6", "/new plan my week", ofOthers+notBegun)
			inSession(t, k, 1, said...)
		}
		for _, id := range []string{"3", "4", "5", "6"} {
			k.WantEnd(id, corebot.EndRefused)
		}
		want := []string{
			"bob /new denied session-of-others", "ann /reset denied session-of-others",
			" /new denied session-of-others", "bob /new denied session-of-others",
		}
		if got := newSessions(t, k); !slices.Equal(got, want) {
			t.Errorf("the audit has %q", got)
		}
		if n := len(model.Requests()); n != 2 {
			t.Errorf("the model was asked %d times", n)
		}
		admin := corebot.Grant{Principal: apptest.Person("root"), Role: corebot.RoleAdmin, Chat: apptest.Key("a")}
		must(t, k.Grants.Grant(t.Context(), admin))
		say("root", "7", "/new plan", "hm")
		inSession(t, k, 2, "user: plan", "assistant: hm")
		say("bob", "8", "/new", ofOthers) // the admin has spoken in it
		say("root", "9", "/new", beginning)
		say("bob", "10", "/new", beginning) // it is empty
		say("bob", "11", "mine", "hm")
		say("bob", "12", "/new my own", "hm")
		say("bob", "13", "/reset", beginning)
		inSession(t, k, 6)
		say("", "14", "who am I?", "hm")
		say("", "15", "/new", beginning) // callers without ids are one
		say("", "16", "who am I?", "hm")
		say("bob", "17", "/new", ofOthers)
	})
}

// A sender whose text a turn merges before a /new has spoken in the session that the /new would end.
func TestWhoSpeaksBeforeACommandForANewSessionIsInItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.Text("hm"), apptest.Hangs(), apptest.Text("ok"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.SayAs("bob", "a", "1", "mine")
		pass(time.Second)
		k.SayAs("ann", "a", "2", "and mine")
		k.SayAs("bob", "a", "3", "/new")
		k.SayAs("bob", "a", "4", "/new plan")
		k.SayAs("bob", "a", "5", "well?")
		pass(time.Second)
		k.SayAs("ann", "a", "s", "/stop")
		pass(time.Minute)
		k.WantTold("3", ofOthers)
		k.WantTold("4", ofOthers+notBegun)
		inSession(t, k, 1, "user: mine", "assistant: hm", "user: and mine", stoppedNote, "user: well?", "assistant: ok")
	})
}

func TestWhoMayBeginNoSessionBeginsNoneByAStopOrByDamage(t *testing.T) {
	for name, c := range map[string]struct {
		strike func(t *testing.T, k *apptest.Kit)
		end    corebot.End
	}{
		"stopped": {func(_ *testing.T, k *apptest.Kit) { k.SayAs("bob", "a", "s", "/stop") }, corebot.EndRefused},
		"damaged": {func(t *testing.T, k *apptest.Kit) { damage(t, k, "plan", "plum") }, corebot.EndDead},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, model := t.TempDir(), apptest.Always(apptest.Text("hm"))
				k := apptest.New(t, apptest.Options{Dir: dir, Model: model}).Start()
				k.SayAs("ann", "a", "1", "hello")
				pass(time.Second)
				k.Close()
				k = apptest.New(t, apptest.Options{Dir: dir, Model: model})
				k.SayAs("bob", "a", "2", "/new plan")
				c.strike(t, k)
				k.Start()
				pass(time.Second)
				k.WantEnd("2", c.end)
				inSession(t, k, 1, "user: hello", "assistant: hm")
			})
		})
	}
}

func TestAReplayBeginsNoSecondSessionOverOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.Fails(broke()), apptest.Text("here"), apptest.Text("planned"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		for _, m := range [][3]string{{"bob", "1", "/new plan"}, {"ann", "2", "hello"}, {"bob", "3", "/retry 1"}} {
			k.SayAs(m[0], "a", m[1], m[2])
			pass(time.Second)
		}
		k.WantTold("3", "Message 1 will be tried again.")
		inSession(t, k, 2, "user: hello", "assistant: here", "user: plan", "assistant: planned")
	})
}

// blindLedger cannot tell who has spoken in a session.
type blindLedger struct {
	router.Ledger
	blind atomic.Bool
}

func (l *blindLedger) Another(
	ctx context.Context, k corebot.Key, p corebot.Principal,
) (corebot.Principal, bool, error) {
	if l.blind.Load() {
		return corebot.Principal{}, false, errors.New("the disk is away")
	}
	return l.Ledger.Another(ctx, k, p)
}

func TestWhatCannotTellWhoHasSpokenBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &blindLedger{}
		k := apptest.New(t, apptest.Options{
			Model:  apptest.Always(apptest.Text("hm")),
			Ledger: func(l router.Ledger) router.Ledger { ledger.Ledger = l; return ledger },
		}).Start()
		k.SayAs("bob", "a", "1", "mine")
		pass(time.Second)
		ledger.blind.Store(true)
		k.SayAs("bob", "a", "2", "/new")
		k.SayAs("bob", "a", "3", "/new plan")
		k.SayAs("ann", "a", "4", "hello")
		pass(24 * time.Hour)
		k.WantEnd("2", corebot.EndDead)
		k.WantEnd("3", corebot.EndDead)
		said := []string{"user: mine", "assistant: hm", "user: hello", "assistant: hm"}
		inSession(t, k, 1, said...)
		ledger.blind.Store(false)
		k.SayAs("bob", "a", "r", "/retry 2") // others have spoken since
		pass(time.Second)
		k.WantEnd("2", corebot.EndRefused)
		inSession(t, k, 1, said...)
	})
}

func TestARunThatWasLetBeginASessionGoesOnAfterItsSenderIsNoAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &corebot.Failure{Class: corebot.RateLimited, RetryAfter: time.Hour, Err: errors.New("busy")}
		model := apptest.Script(apptest.Text("hm"), searches("x"), apptest.Fails(busy), apptest.Text("done"))
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		admin := corebot.Grant{Principal: apptest.Person("root"), Role: corebot.RoleAdmin, Chat: apptest.Key("a")}
		must(t, k.Grants.Grant(t.Context(), admin))
		k.SayAs("ann", "a", "1", "hello")
		k.SayAs("root", "a", "2", "/new look")
		pass(time.Minute)
		k.WantEnd("2", "")
		must(t, k.Grants.Revoke(t.Context(), admin.Principal, admin.Chat))
		pass(2 * time.Hour)
		k.WantEnd("2", corebot.EndAnswered)
		inSession(t, k, 2, "user: look", `assistant: web.search({"text":"x"})`, "tool: found x", "assistant: done")
	})
}

func TestARefusalThatCannotBeStoredBeginsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Model: apptest.Always(apptest.Text("hm")),
			Ledger: func(l router.Ledger) router.Ledger {
				return &faultyLedger{Ledger: l, commit: func(try int, real func() error) error {
					if try == 2 {
						return corebot.ErrUnstorable
					}
					return real()
				}}
			},
		}).Start()
		k.SayAs("ann", "a", "1", "hello")
		k.SayAs("bob", "a", "2", "/new plan")
		pass(time.Minute)
		k.WantEnd("2", corebot.EndDead)
		inSession(t, k, 1, "user: hello", "assistant: hm")
	})
}
