package storage

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func openOwned(t *testing.T, dir string, uid int) *DB {
	t.Helper()
	db, err := Open(t.Context(), dir, Options{Owner: func() corebot.Principal { return corebot.AtTerminal(uid) }})
	must(t, err)
	runTest(t, db)
	return db
}

func TestTheOwnerOfTheHomeIsAdminAtItsTerminalOnly(t *testing.T) {
	g := NewGrants(openOwned(t, t.TempDir(), 1000))
	owner := corebot.AtTerminal(1000)
	for p, want := range map[corebot.Principal]corebot.Role{
		owner:                    corebot.RoleAdmin,
		corebot.AtTerminal(0):    corebot.RoleNormal,
		corebot.AtTerminal(1001): corebot.RoleNormal,
		{Channel: owner.Channel, Account: owner.Account}:              corebot.RoleNormal,
		{Channel: "webhook", ID: owner.ID}:                            corebot.RoleNormal,
		{Channel: owner.Channel, Account: "other", ID: owner.ID}:      corebot.RoleNormal,
		{Channel: "mcp", Account: owner.Account, ID: owner.ID}:        corebot.RoleNormal,
		{Channel: owner.Channel, Account: owner.Account, ID: "01000"}: corebot.RoleNormal,
	} {
		for _, k := range []corebot.Key{{}, testKey("a")} {
			if role, err := g.RoleOf(t.Context(), p, k); err != nil || role != want {
				t.Errorf("%s in %s is %s, %v; want %s", p, k, role, err, want)
			}
		}
	}
	if can, err := g.CanApprove(t.Context(), testKey("a"), true); err != nil || !can {
		t.Errorf("the owner can approve: %v, %v", can, err)
	}
}

func TestAnOwnerWhomNobodyCanBeAtATerminalApprovesNothing(t *testing.T) {
	owner := corebot.AtTerminal(1000)
	db, err := Open(t.Context(), t.TempDir(), Options{
		Owner:   func() corebot.Principal { return owner },
		Attends: func(p corebot.Principal) bool { return p != owner },
	})
	must(t, err)
	runTest(t, db)
	g := NewGrants(db)
	if can, err := g.CanApprove(t.Context(), testKey("a"), false); err != nil || can {
		t.Errorf("somebody can approve: %v, %v", can, err)
	}
	if role, err := g.RoleOf(t.Context(), owner, testKey("a")); err != nil || role != corebot.RoleAdmin {
		t.Errorf("he is %s, %v", role, err)
	}
	must(t, g.Grant(t.Context(), corebot.Grant{
		Principal: corebot.Principal{Channel: "test", ID: "ann"}, Role: corebot.RoleAdmin, Chat: testKey("a"),
	}))
	if can, err := g.CanApprove(t.Context(), testKey("a"), false); err != nil || !can {
		t.Errorf("the admin of the chat can approve: %v, %v", can, err)
	}
}

func TestWithoutAnOwnerNobodyIsAdminWithoutAGrant(t *testing.T) {
	g := NewGrants(openTest(t, t.TempDir()))
	for _, p := range []corebot.Principal{{}, corebot.AtTerminal(0)} {
		if role, err := g.RoleOf(t.Context(), p, corebot.Key{}); err != nil || role != corebot.RoleNormal {
			t.Errorf("%q is %s, %v", p, role, err)
		}
	}
	if can, err := g.CanApprove(t.Context(), testKey("a"), false); err != nil || can {
		t.Errorf("nobody can approve: %v, %v", can, err)
	}
}

func TestNoGrantMakesTheOwnerOfTheHomeNormal(t *testing.T) {
	g := NewGrants(openOwned(t, t.TempDir(), 1000))
	owner, bob := corebot.AtTerminal(1000), corebot.Principal{Channel: "test", ID: "bob"}
	for _, where := range []corebot.Key{{}, testKey("a")} {
		err := g.Grant(t.Context(), corebot.Grant{Principal: owner, Role: corebot.RoleNormal, Chat: where})
		if !errors.Is(err, ErrHomeOwner) {
			t.Errorf("in %q: %v", where, err)
		}
	}
	if err := g.Revoke(t.Context(), owner, corebot.Key{}); !errors.Is(err, ErrHomeOwner) {
		t.Errorf("a grant that is none is revoked: %v", err)
	}
	if err := g.Revoke(t.Context(), owner, testKey("a")); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a missing grant in a chat is revoked: %v", err)
	}
	// The owner changes the grants of admins everywhere, and does not count as the last of them.
	must(t, g.Grant(t.Context(), corebot.Grant{Principal: bob, Role: corebot.RoleAdmin}))
	as := g.As(corebot.AuditEvent{Principal: owner, Entry: corebot.EntryDirect})
	if err := as.Revoke(t.Context(), bob, corebot.Key{}); !errors.Is(err, ErrLastAdmin) {
		t.Errorf("the last admin by a grant: %v", err)
	}
	must(t, g.Grant(t.Context(), corebot.Grant{
		Principal: corebot.Principal{Channel: "test", ID: "eve"},
		Role:      "admin",
	}))
	must(t, as.Revoke(t.Context(), bob, corebot.Key{}))
}

func TestTheAuditNamesTheOwnerOfTheHomeOnce(t *testing.T) {
	dir := t.TempDir()
	var notes []string
	for _, uid := range []int{1000, 1000, 1001} {
		db, err := Open(t.Context(), dir, Options{Owner: func() corebot.Principal { return corebot.AtTerminal(uid) }})
		must(t, err)
		stop := runWriter(db)
		g := NewGrants(db)
		must(t, g.Grant(t.Context(), corebot.Grant{Principal: corebot.AtTerminal(7), Role: corebot.RoleAdmin}))
		events, err := NewAudit(db).List(t.Context(), corebot.AuditFilter{Decisions: true})
		must(t, err)
		_, err = NewAudit(db).Verify(t.Context(), corebot.AuditProof{})
		must(t, err)
		stop()
		must(t, db.Close())
		notes = nil
		for _, e := range events {
			if e.Event == "role.owner" {
				notes = append(notes, strings.Join([]string{e.Rule, string(e.Role), e.Principal.String(), e.Args}, " "))
			}
		}
		slices.Sort(notes)
	}
	want := []string{
		`home-owner admin cli:local:1000 {"before":"","principal":"cli:local:1000"}`,
		`home-owner admin cli:local:1001 {"before":"cli:local:1000","principal":"cli:local:1001"}`,
	}
	if !slices.Equal(notes, want) {
		t.Errorf("the audit has\n%s", strings.Join(notes, "\n"))
	}
}
