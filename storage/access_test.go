package storage

import (
	"errors"
	"sync"
	"testing"

	"github.com/corebot/corebot"
)

func TestWhatIsSetForAChatHoldsInItsThreadsUnlessTheyHaveTheirOwn(t *testing.T) {
	db := openTest(t, t.TempDir())
	chats := NewChats(db)
	chat, thread, other := testKey("a"), testKey("a"), testKey("a")
	thread.Thread, other.Thread = "1", "2"
	requireStanding := func(k corebot.Key, want corebot.Standing) {
		t.Helper()
		if got, err := chats.Standing(t.Context(), k); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", k, got, err, want)
		}
	}
	requireStanding(chat, corebot.Standing{})
	must(t, chats.Register(t.Context(), chat, true, ""))
	must(t, chats.SetAccess(t.Context(), chat, corebot.DenyChat))
	must(t, chats.SetAccess(t.Context(), thread, corebot.AllowChat))
	requireStanding(chat, corebot.Standing{Registered: true, Access: corebot.DenyChat})
	requireStanding(thread, corebot.Standing{Registered: true, Access: corebot.AllowChat})
	requireStanding(other, corebot.Standing{Registered: true, Access: corebot.DenyChat})
	must(t, chats.SetAccess(t.Context(), chat, ""))
	requireStanding(other, corebot.Standing{Registered: true})
	requireStanding(testKey("b"), corebot.Standing{})
	if got, err := chats.Chat(t.Context(), thread); err != nil || got.Access != corebot.AllowChat || got.Registered {
		t.Errorf("the thread is %+v, %v", got, err)
	}
	if err := chats.SetAccess(t.Context(), chat, "maybe"); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("an access that is not known: %v", err)
	}
}

func TestTheGrantOfAChatCountsBeforeTheOneEverywhere(t *testing.T) {
	db := openTest(t, t.TempDir())
	g := NewGrants(db)
	ada, bob := corebot.Principal{Channel: "test", ID: "ada"}, corebot.Principal{Channel: "test", ID: "bob"}
	chat, thread := testKey("a"), testKey("a")
	thread.Thread = "1"
	for _, grant := range []corebot.Grant{
		{Principal: ada, Role: corebot.RoleAdmin},
		{Principal: bob, Role: corebot.RoleAdmin},
		{Principal: ada, Role: corebot.RoleNormal, Chat: chat},
		{Principal: ada, Role: corebot.RoleAdmin, Chat: thread},
	} {
		must(t, g.Grant(t.Context(), grant))
	}
	for k, want := range map[corebot.Key]corebot.Role{{}: corebot.RoleAdmin, testKey("b"): corebot.RoleAdmin, chat: corebot.RoleNormal, thread: corebot.RoleAdmin} {
		if got, err := g.RoleOf(t.Context(), ada, k); err != nil || got != want {
			t.Errorf("in %s: %s, %v; want %s", k, got, err, want)
		}
	}
	must(t, g.Revoke(t.Context(), ada, thread))
	if got, err := g.RoleOf(t.Context(), ada, thread); err != nil || got != corebot.RoleNormal {
		t.Errorf("in a thread of the chat: %s, %v", got, err)
	}
}

func TestTheLastAdminIsNotDemotedInOneChatEither(t *testing.T) {
	g := NewGrants(openTest(t, t.TempDir()))
	ada := corebot.Principal{Channel: "test", ID: "ada"}
	must(t, g.Grant(t.Context(), corebot.Grant{Principal: ada, Role: corebot.RoleAdmin}))
	if err := g.Grant(t.Context(), corebot.Grant{Principal: ada, Role: corebot.RoleNormal, Chat: testKey("a")}); !errors.Is(err, ErrLastAdmin) {
		t.Errorf("the error is %v", err)
	}
}

func TestOfTwoAdminsDemotedAtOnceOneStays(t *testing.T) {
	db := openTest(t, t.TempDir())
	g := NewGrants(db)
	ada, bob := corebot.Principal{Channel: "test", ID: "ada"}, corebot.Principal{Channel: "test", ID: "bob"}
	for range 20 {
		for _, p := range []corebot.Principal{ada, bob} {
			must(t, g.Grant(t.Context(), corebot.Grant{Principal: p, Role: corebot.RoleAdmin}))
		}
		var wg sync.WaitGroup
		errs := make([]error, 2)
		wg.Go(func() {
			errs[0] = g.As(corebot.AuditEvent{Principal: ada}).Grant(t.Context(), corebot.Grant{Principal: bob, Role: corebot.RoleNormal})
		})
		wg.Go(func() { errs[1] = g.Revoke(t.Context(), ada, corebot.Key{}) })
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("both or none went: %v", errs)
		}
	}
}

// asCaller is a change by a tool, on behalf of a principal.
func asCaller(p corebot.Principal) corebot.AuditEvent {
	return corebot.AuditEvent{Tool: "chat.set_role", Key: testKey("room"), Principal: p, Role: corebot.RoleAdmin, Entry: "direct", Rule: "set-role", StepID: "m/1/0"}
}

func TestAnAdminOfAChatDoesNotOverruleOneWhoIsAdminEverywhere(t *testing.T) {
	db := openTest(t, t.TempDir())
	g := NewGrants(db)
	ada, bob, eve := corebot.Principal{Channel: "test", ID: "ada"}, corebot.Principal{Channel: "test", ID: "bob"}, corebot.Principal{Channel: "test", ID: "eve"}
	for _, grant := range []corebot.Grant{{Principal: ada, Role: corebot.RoleAdmin}, {Principal: bob, Role: corebot.RoleAdmin}, {Principal: eve, Role: corebot.RoleAdmin, Chat: testKey("room")}} {
		must(t, g.Grant(t.Context(), grant))
	}
	demote := corebot.Grant{Principal: ada, Role: corebot.RoleNormal, Chat: testKey("room")}
	if err := g.As(asCaller(eve)).Grant(t.Context(), demote); !errors.Is(err, ErrOutranked) {
		t.Errorf("an admin of the chat: %v", err)
	}
	if err := g.As(asCaller(bob)).Grant(t.Context(), demote); err != nil {
		t.Errorf("an admin everywhere: %v", err)
	}
}

func TestARuleAboutRolesEndsTheCallDenied(t *testing.T) {
	db := openTest(t, t.TempDir())
	ada := corebot.Principal{Channel: "test", ID: "ada"}
	must(t, NewGrants(db).Grant(t.Context(), corebot.Grant{Principal: ada, Role: corebot.RoleAdmin}))
	d := atWork(t, db)
	step, _ := applied()
	err := NewLedger(db).Apply(t.Context(), d, step, corebot.GrantRole{Principal: ada, Role: corebot.RoleNormal}, asCaller(corebot.Principal{Channel: "test", ID: "bob"}))
	if deniedBy(err) != "last-admin" || lifeOf(t, db, d.Life).Steps[0].Result.Outcome != corebot.OutcomeDenied {
		t.Errorf("the error is %v", err)
	}
	if got := notes(t, db); got[len(got)-1].Rule != "last-admin" || got[len(got)-1].Outcome != corebot.OutcomeDenied {
		t.Errorf("the audit is %+v", got)
	}
}

func TestEveryChangeOfRolesAndChatsLeavesARow(t *testing.T) {
	db := openTest(t, t.TempDir())
	ann, k := corebot.Principal{Channel: "test", ID: "ann"}, testKey("a")
	grants, chats := NewGrants(db), NewChats(db)
	must(t, grants.Grant(t.Context(), corebot.Grant{Principal: ann, Role: corebot.RoleAdmin, Chat: k}))
	must(t, grants.Revoke(t.Context(), ann, k))
	must(t, grants.As(asCaller(ann)).Grant(t.Context(), corebot.Grant{Principal: corebot.Principal{Channel: "test", ID: "bob"}, Role: corebot.RoleAdmin}))
	must(t, chats.Register(t.Context(), k, true, "A"))
	must(t, chats.SetAccess(t.Context(), k, corebot.DenyChat))
	must(t, chats.SetQueueMode(t.Context(), k, corebot.ModeSteer))
	must(t, chats.SetModel(t.Context(), k, "m"))
	must(t, chats.Reset(t.Context(), k))
	want := []struct{ event, entry, chat, args string }{
		{"role.grant", "operator", "a", `{"by":"operator","chat":"main:test::a","principal":"test::ann","role":"admin"}`},
		{"role.revoke", "operator", "a", `{"chat":"main:test::a","principal":"test::ann"}`},
		{"role.grant", "direct", "room", `{"by":"test::ann","chat":"","principal":"test::bob","role":"admin"}`},
		{"chat.register", "operator", "a", `{"chat":"main:test::a","name":"A","registered":true}`},
		{"chat.access", "operator", "a", `{"access":"deny","chat":"main:test::a"}`},
		{"chat.queue_mode", "operator", "a", `{"chat":"main:test::a","mode":"steer"}`},
		{"chat.model", "operator", "a", `{"chat":"main:test::a","model":"m"}`},
		{"chat.reset", "operator", "a", `{"chat":"main:test::a","session":2}`},
	}
	got := notes(t, db)
	for i, w := range want {
		if i >= len(got) || got[i].Event != w.event || string(got[i].Entry) != w.entry || got[i].Key.Chat != w.chat || got[i].Args != w.args || got[i].Outcome != corebot.OutcomeSuccess {
			t.Fatalf("row %d is %+v, want %+v", i, got, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows", len(got))
	}
}

func TestAChangeThatIsRefusedLeavesNoRow(t *testing.T) {
	db := openTest(t, t.TempDir())
	k := testKey("a")
	for _, err := range []error{
		NewChats(db).Reset(t.Context(), k), NewChats(db).SetModel(t.Context(), k, "m"),
		NewGrants(db).Revoke(t.Context(), corebot.Principal{Channel: "test", ID: "x"}, k),
		NewGrants(db).Grant(t.Context(), corebot.Grant{Principal: corebot.Principal{Channel: "test", ID: "x\n"}, Role: corebot.RoleAdmin}),
	} {
		if err == nil {
			t.Error("it was made")
		}
	}
	if got := notes(t, db); len(got) > 0 {
		t.Errorf("the audit is %+v", got)
	}
}
