package storage

import (
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
