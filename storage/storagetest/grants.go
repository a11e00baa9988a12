package storagetest

import (
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/tools"
)

// Grants are who has which role. They guarantee:
//
//   - A grant everywhere holds in every chat, for its principal alone.
//   - A grant of a chat holds there and in its threads, and counts before the grant everywhere.
//   - A grant that is made again replaces the one before, and survives a restart.
//   - A grant that is revoked holds no longer, and one that is not there is not found.
//   - The last admin everywhere is neither revoked nor made less, not in one chat either.
//   - Of two admins who are made less at once, one stays.
//   - An admin of a chat does not overrule an admin everywhere.
//   - A sender without an id holds no grant, and no role has another name than the two.
//   - A call can be approved by an admin of its chat, and one that reaches beyond the chat only by one everywhere.
//   - A change leaves one audit event that says who made it, and a refused one leaves none.
type Grants interface {
	tools.Roles
	tools.Approvers
	operate.Roles
}

func grantSpecs() []spec {
	return []spec{
		{"A grant everywhere holds in every chat, for its principal alone.", grantHoldsForItsPrincipal},
		{
			"A grant of a chat holds there and in its threads, and counts before the grant everywhere.",
			grantHoldsInItsChat,
		},
		{"A grant that is made again replaces the one before, and survives a restart.", grantReplaces},
		{"A grant that is revoked holds no longer, and one that is not there is not found.", revokedGrantIsGone},
		{"The last admin everywhere is neither revoked nor made less, not in one chat either.", lastAdminStays},
		{"Of two admins who are made less at once, one stays.", oneOfTwoAdminsStays},
		{"An admin of a chat does not overrule an admin everywhere.", chatAdminOverrulesNobody},
		{"A sender without an id holds no grant, and no role has another name than the two.", nobodyIsGrantedNothing},
		{
			"A call can be approved by an admin of its chat, and one that reaches beyond the chat only by one " +
				"everywhere.",
			approversAreFound,
		},
		{"A change leaves one audit event that says who made it, and a refused one leaves none.", grantsAreNoted},
	}
}

func (s *suite) grant(g corebot.Grant) {
	s.t.Helper()
	s.must(s.Grants(operator()).Grant(s.ctx(), g))
}

func admin(p corebot.Principal, where corebot.Key) corebot.Grant {
	return corebot.Grant{Principal: p, Role: corebot.RoleAdmin, Chat: where}
}

func normal(p corebot.Principal, where corebot.Key) corebot.Grant {
	return corebot.Grant{Principal: p, Role: corebot.RoleNormal, Chat: where}
}

var everywhere corebot.Key

func (s *suite) wantRole(p corebot.Principal, k corebot.Key, want corebot.Role) {
	s.t.Helper()
	if got, err := s.Grants(operator()).RoleOf(s.ctx(), p, k); err != nil || got != want {
		s.t.Errorf("%s in %s is %s, %v; want %s", p, k, got, err, want)
	}
}

func grantHoldsForItsPrincipal(s *suite) {
	ann := corebot.Principal{Channel: "test", Account: "bot", ID: "ann"}
	s.wantRole(ann, key("a"), corebot.RoleNormal)
	s.grant(admin(ann, everywhere))
	for _, k := range []corebot.Key{everywhere, key("a"), thread("a", "1"), agentKey("other", "b")} {
		s.wantRole(ann, k, corebot.RoleAdmin)
	}
	for _, p := range []corebot.Principal{
		{Channel: "other", Account: "bot", ID: "ann"},
		{Channel: "test", ID: "ann"},
		{Channel: "test", Account: "bot", ID: "Ann"},
		{Channel: "test", Account: "bot", ID: "ann "},
		{Channel: "test", Account: "bot"},
	} {
		s.wantRole(p, key("a"), corebot.RoleNormal)
	}
}

func grantHoldsInItsChat(s *suite) {
	ann, bob := person("ann"), person("bob")
	for _, g := range []corebot.Grant{
		admin(ann, everywhere), admin(bob, everywhere), normal(ann, key("a")), admin(ann, thread("a", "1")),
		admin(person("eve"), key("a")),
	} {
		s.grant(g)
	}
	for k, want := range map[corebot.Key]corebot.Role{
		everywhere: corebot.RoleAdmin, key("b"): corebot.RoleAdmin, key("a"): corebot.RoleNormal,
		thread("a", "1"): corebot.RoleAdmin, thread("a", "2"): corebot.RoleNormal,
		agentKey("other", "a"): corebot.RoleAdmin,
	} {
		s.wantRole(ann, k, want)
	}
	for k, want := range map[corebot.Key]corebot.Role{
		everywhere: corebot.RoleNormal, key("b"): corebot.RoleNormal, key("a"): corebot.RoleAdmin,
		thread("a", "2"): corebot.RoleAdmin,
	} {
		s.wantRole(person("eve"), k, want)
	}
}

func grantReplaces(s *suite) {
	strange := corebot.Key{Agent: "main", Channel: "te:st", Account: "%", Chat: "ü", Thread: "1"}
	s.grant(admin(person("ann"), strange))
	second := normal(person("ann"), strange)
	second.By = "somebody"
	s.grant(second)
	s.reopen()
	s.wantRole(person("ann"), strange, corebot.RoleNormal)
	all, _, err := s.Grants(operator()).Page(s.ctx(), "", 10)
	if err != nil || len(all) != 1 || all[0].Chat != strange || all[0].Role != corebot.RoleNormal ||
		all[0].By != "somebody" || all[0].AtMS == 0 {
		s.t.Errorf("listed are %+v, %v", all, err)
	}
}

func revokedGrantIsGone(s *suite) {
	g := s.Grants(operator())
	s.grant(admin(person("ann"), key("a")))
	s.wantRole(person("ann"), key("a"), corebot.RoleAdmin)
	s.wantErr(g.Revoke(s.ctx(), person("ann"), key("b")), corebot.ErrNotFound)
	s.wantErr(g.Revoke(s.ctx(), person("ann"), everywhere), corebot.ErrNotFound)
	s.wantRole(person("ann"), key("a"), corebot.RoleAdmin)
	s.must(g.Revoke(s.ctx(), person("ann"), key("a")))
	s.wantRole(person("ann"), key("a"), corebot.RoleNormal)
	s.wantErr(g.Revoke(s.ctx(), person("ann"), key("a")), corebot.ErrNotFound)
}

func lastAdminStays(s *suite) {
	ann, g := person("ann"), s.Grants(operator())
	s.grant(admin(ann, everywhere))
	s.grant(admin(person("bob"), key("a"))) // an admin of one chat is none everywhere
	for what, err := range map[string]error{
		"made less":           g.Grant(s.ctx(), normal(ann, everywhere)),
		"made less in a chat": g.Grant(s.ctx(), normal(ann, key("a"))),
		"revoked":             g.Revoke(s.ctx(), ann, everywhere),
	} {
		if err == nil {
			s.t.Errorf("the last admin was %s", what)
		}
	}
	s.wantRole(ann, key("a"), corebot.RoleAdmin)
	s.grant(admin(person("bob"), everywhere))
	s.must(g.Revoke(s.ctx(), ann, everywhere))
	s.wantRole(ann, everywhere, corebot.RoleNormal)
}

func oneOfTwoAdminsStays(s *suite) {
	ann, bob := person("ann"), person("bob")
	for range 20 {
		s.grant(admin(ann, everywhere))
		s.grant(admin(bob, everywhere))
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() { errs[0] = s.Grants(callBy(ann)).Grant(s.ctx(), normal(bob, everywhere)) })
		both.Go(func() { errs[1] = s.Grants(operator()).Revoke(s.ctx(), ann, everywhere) })
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			s.t.Fatalf("both or none went: %v", errs)
		}
	}
}

func chatAdminOverrulesNobody(s *suite) {
	for _, g := range []corebot.Grant{
		admin(person("ann"), everywhere), admin(person("bob"), everywhere), admin(person("eve"), key("room")),
	} {
		s.grant(g)
	}
	if err := s.Grants(callBy(person("eve"))).Grant(s.ctx(), normal(person("ann"), key("room"))); err == nil {
		s.t.Error("an admin of the chat overruled one who is admin everywhere")
	}
	s.wantRole(person("ann"), key("room"), corebot.RoleAdmin)
	s.must(s.Grants(callBy(person("bob"))).Grant(s.ctx(), normal(person("ann"), key("room"))))
	s.wantRole(person("ann"), key("room"), corebot.RoleNormal)
}

func nobodyIsGrantedNothing(s *suite) {
	g := s.Grants(operator())
	s.wantErr(g.Grant(s.ctx(), admin(person(""), key("a"))), corebot.ErrInvalid)
	s.wantErr(g.Grant(s.ctx(), admin(person("ann\n"), key("a"))), corebot.ErrInvalid)
	root := admin(person("ann"), key("a"))
	root.Role = "root"
	s.wantErr(g.Grant(s.ctx(), root), corebot.ErrInvalid)
	s.wantRole(person(""), key("a"), corebot.RoleNormal)
	s.wantRole(person("ann"), key("a"), corebot.RoleNormal)
}

func approversAreFound(s *suite) {
	want := func(k corebot.Key, beyond, want bool) {
		s.t.Helper()
		if can, err := s.Grants(operator()).CanApprove(s.ctx(), k, beyond); err != nil || can != want {
			s.t.Errorf("a call of %s (beyond it: %v) can be approved: %v, %v", k, beyond, can, err)
		}
	}
	want(key("a"), false, false)
	s.grant(normal(person("bob"), everywhere))
	s.grant(admin(person("ann"), key("a")))
	want(key("a"), false, true)
	want(thread("a", "1"), false, true)
	want(key("b"), false, false)
	want(key("a"), true, false)
	s.grant(admin(person("ann"), everywhere))
	want(key("b"), false, true)
	want(key("a"), true, true)
}

func grantsAreNoted(s *suite) {
	ann, g := person("ann"), s.Grants(operator())
	s.must(g.Grant(s.ctx(), admin(ann, key("a"))))
	s.must(g.Revoke(s.ctx(), ann, key("a")))
	s.must(s.Grants(callBy(ann)).Grant(s.ctx(), admin(person("bob"), everywhere)))
	if err := g.Revoke(s.ctx(), person("bob"), everywhere); err == nil {
		s.t.Error("the last admin was revoked")
	}
	s.wantErr(g.Revoke(s.ctx(), ann, key("b")), corebot.ErrNotFound)
	s.wantNotes(
		`role.grant|operator|main:test::a|{"by":"operator","chat":"main:test::a","principal":"test::ann",`+
			`"role":"admin"}`,
		`role.revoke|operator|main:test::a|{"chat":"main:test::a","principal":"test::ann"}`,
		`role.grant|direct|main:test::room|{"by":"test::ann","chat":"","principal":"test::bob","role":"admin"}`,
	)
}
