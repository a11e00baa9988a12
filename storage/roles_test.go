package storage

import (
	"fmt"
	"testing"

	"github.com/corebot/corebot"
)

func TestRolesAreKeptUntilTheyChange(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	g, p, chat := NewGrants(db), corebot.Principal{Channel: "test", ID: "ada"}, testKey("a")
	want := func(want corebot.Role) {
		t.Helper()
		if role, err := g.RoleOf(t.Context(), p, chat); err != nil || role != want {
			t.Errorf("the role is %s, %v; want %s", role, err, want)
		}
	}
	want(corebot.RoleNormal)
	sideQuery(t, dir,
		`INSERT INTO grants (channel, account, sender, scope, role, granted_by, granted_at)
			VALUES ('test', '', 'ada', '', 'admin', 'x', 0)`)
	want(corebot.RoleNormal) // nobody looks again who has not been told
	must(t, g.Grant(t.Context(), corebot.Grant{
		Principal: corebot.Principal{Channel: "test", ID: "bob"},
		Role:      corebot.RoleAdmin,
	}))
	want(corebot.RoleAdmin)
	must(t, g.Grant(t.Context(), corebot.Grant{Principal: p, Chat: chat, Role: corebot.RoleNormal}))
	want(corebot.RoleNormal)
	must(t, g.Revoke(t.Context(), p, chat))
	want(corebot.RoleAdmin)
}

func TestRolesThatWereReadBeforeAChangeAreNotKeptAfterIt(t *testing.T) {
	var r roles
	_, changes := r.known()
	r.forget()
	r.learn(map[holder]corebot.Role{}, changes)
	if of, _ := r.known(); of != nil {
		t.Error("what was read before the change is kept")
	}
}

func TestRolesAreReadAnewBesideADaemon(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	reader, err := OpenReader(t.Context(), dir)
	must(t, err)
	defer reader.Close() //nolint:errcheck // a test's own
	p := corebot.Principal{Channel: "test", ID: "ada"}
	for _, want := range []corebot.Role{corebot.RoleNormal, corebot.RoleAdmin} {
		if role, err := NewGrants(reader).RoleOf(t.Context(), p, testKey("a")); err != nil || role != want {
			t.Errorf("the role is %s, %v; want %s", role, err, want)
		}
		must(t, NewGrants(db).Grant(t.Context(), corebot.Grant{Principal: p, Role: corebot.RoleAdmin}))
	}
}

func TestWhoMayTalkInAChatIsKeptUntilItChanges(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	chats, k := NewChats(db), testKey("a")
	thread := k
	thread.Thread = "1"
	want := func(want corebot.Admission) {
		t.Helper()
		for _, k := range []corebot.Key{k, thread} {
			if got, err := chats.Admission(t.Context(), k); err != nil || got != want {
				t.Errorf("the admission in %s is %+v, %v; want %+v", k, got, err, want)
			}
		}
	}
	want(corebot.Admission{})
	must(t, chats.Register(t.Context(), k, true, ""))
	want(corebot.Admission{Registered: true})
	sideQuery(t, dir, `UPDATE chats SET access = 'deny'`)
	want(corebot.Admission{Registered: true}) // nobody looks again who has not been told
	must(t, chats.SetAccess(t.Context(), testKey("b"), corebot.AllowChat))
	want(corebot.Admission{Registered: true, Access: corebot.DenyChat})
	must(t, chats.SetAccess(t.Context(), k, ""))
	want(corebot.Admission{Registered: true})
	_, err := NewForgetting(db).Chat(t.Context(), k, nil)
	must(t, err)
	want(corebot.Admission{})
}

func TestWhoMayTalkIsReadAnewBesideADaemon(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	reader, err := OpenReader(t.Context(), dir)
	must(t, err)
	defer reader.Close() //nolint:errcheck // a test's own
	for _, want := range []bool{false, true} {
		if got, err := NewChats(reader).Admission(t.Context(), testKey("a")); err != nil || got.Registered != want {
			t.Errorf("the admission is %+v, %v", got, err)
		}
		must(t, NewChats(db).Register(t.Context(), testKey("a"), true, ""))
	}
}

func TestAdmissionsAreBoundedAndNotKeptFromBeforeAChange(t *testing.T) {
	var a admissions
	_, _, changes := a.known(testKey("a"))
	a.forget()
	a.learn(testKey("a"), corebot.Admission{Registered: true}, changes)
	if _, known, _ := a.known(testKey("a")); known {
		t.Error("what was read before the change is kept")
	}
	for i := range 3 * maxAdmissions {
		a.learn(testKey(fmt.Sprint(i)), corebot.Admission{Registered: true}, 1)
	}
	if n := len(a.young) + len(a.aged); n > maxAdmissions {
		t.Errorf("%d chats are kept, want at most %d", n, maxAdmissions)
	}
	if chat, known, _ := a.known(testKey(fmt.Sprint(3*maxAdmissions - 1))); !known || !chat.Registered {
		t.Error("the newest chat is not kept")
	}
}
