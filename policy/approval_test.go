package policy_test

import (
	"errors"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

func TestWhichCallsNeedAnApproval(t *testing.T) {
	usual := policy.Approvals{}
	listed := policy.Approvals{Always: []string{"fs.*"}, Tainted: []string{"web.fetch"}}
	for _, c := range []struct {
		set            policy.Approvals
		tool           string
		target         policy.Target
		clean, tainted string
	}{
		{usual, "fs.write", writing("notes.md"), "", ""},
		{usual, "fs.write", writing("memory/MEMORY.md"), "", policy.RuleApproveTainted},
		{usual, "memory.write", policy.Target{Scope: policy.ScopeChat}, "", ""},
		{usual, "memory.write", policy.Target{Scope: policy.ScopeGlobal}, "", policy.RuleApproveTainted},
		{usual, "message.send", own, "", ""},
		{usual, "message.send", others, "", policy.RuleApproveTainted},
		{usual, "shell.exec", own, "", policy.RuleApproveTainted},
		{usual, "chat.set_role", bobHere, "", policy.RuleApproveTainted},
		{usual, "bus.dead_letter.replay", own, "", policy.RuleApproveTainted},
		{usual, "mcp__files__read", own, "", policy.RuleApproveTainted},
		{
			policy.Approvals{Mode: policy.ApproveAlways},
			"shell.exec", own, policy.RuleApproveAlways,
			policy.RuleApproveAlways,
		},
		{policy.Approvals{Mode: policy.ApproveAlways}, "web.fetch", own, "", ""},
		{policy.Approvals{Mode: policy.ApproveNever}, "shell.exec", own, "", ""},
		{listed, "fs.read", reading("x"), policy.RuleApproveAlways, policy.RuleApproveAlways},
		{listed, "web.fetch", own, "", policy.RuleApproveTainted},
		{listed, "web.search", own, "", ""},
	} {
		p := newPolicy(t, policy.Options{ShellEnabled: true, Approvals: c.set})
		d := p.Authorize(request(c.tool, corebot.RoleAdmin, c.target))
		if !d.Allow {
			t.Fatalf("%s of %+v is denied: %+v", c.tool, c.target, d)
		}
		clean := p.NeedsApproval(c.tool, d, policy.Weight{})
		if tainted := p.NeedsApproval(c.tool, d, policy.Weight{Tainted: true}); clean != c.clean ||
			tainted != c.tainted {
			t.Errorf("%s of %+v by %+v: got %q and %q, want %q and %q", c.tool, c.target, c.set, clean, tainted,
				c.clean, c.tainted)
		}
	}
}

func TestAnApprovalIsAskedForWhoeverHasTheToolByAGrant(t *testing.T) {
	p := newPolicy(t, policy.Options{Grants: []corebot.ToolGrant{{Tool: "mcp.reload", Principal: ann}}})
	d := p.Authorize(request("mcp.reload", corebot.RoleNormal, own))
	if !d.Allow || p.NeedsApproval("mcp.reload", d, policy.Weight{Tainted: true}) != policy.RuleApproveTainted {
		t.Errorf("got %+v", d)
	}
}

// TestReadingRunsInATaintedTurnAndEgressWaits: of both kinds in each mode, for a tool of admins and for one of all.
func TestReadingRunsInATaintedTurnAndEgressWaits(t *testing.T) {
	reads, out := policy.Weight{Tainted: true, Reads: true}, policy.Weight{Tainted: true, Reads: true, CarriesOut: true}
	for _, c := range []struct {
		set         policy.Approvals
		tool        string
		reads, goes string
	}{
		{policy.Approvals{}, "mcp__mail__list", "", policy.RuleApproveEgress},
		{policy.Approvals{}, "web.fetch", "", policy.RuleApproveEgress},
		{
			policy.Approvals{Tainted: []string{"mcp__*"}},
			"mcp__mail__list",
			policy.RuleApproveTainted, policy.RuleApproveTainted,
		},
		{policy.Approvals{Mode: policy.ApproveNever}, "web.fetch", "", ""},
		{
			policy.Approvals{Mode: policy.ApproveAlways},
			"mcp__mail__list",
			policy.RuleApproveAlways, policy.RuleApproveAlways,
		},
		{policy.Approvals{Mode: policy.ApproveAlways}, "web.fetch", "", policy.RuleApproveEgress},
	} {
		p := newPolicy(t, policy.Options{Approvals: c.set})
		d := p.Authorize(request(c.tool, corebot.RoleAdmin, own))
		if r, o := p.NeedsApproval(c.tool, d, reads), p.NeedsApproval(c.tool, d, out); r != c.reads || o != c.goes {
			t.Errorf("%s by %+v: got %q and %q, want %q and %q", c.tool, c.set, r, o, c.reads, c.goes)
		}
		if r := p.NeedsApproval("web.fetch", policy.Decision{Allow: true}, policy.Weight{CarriesOut: true}); r != "" {
			t.Errorf("a clean turn waits by %q", r)
		}
	}
}

// TestAContainedCallRunsInATaintedTurn: it can change its own chat's files only. A list of tools and the mode always
// hold for it as for any other.
func TestAContainedCallRunsInATaintedTurn(t *testing.T) {
	for _, c := range []struct {
		set  policy.Approvals
		want string
	}{
		{policy.Approvals{}, ""},
		{policy.Approvals{Mode: policy.ApproveAlways}, policy.RuleApproveAlways},
		{policy.Approvals{Always: []string{"shell.*"}}, policy.RuleApproveAlways},
		{policy.Approvals{Always: []string{"shell.exec"}, Mode: policy.ApproveNever}, policy.RuleApproveAlways},
		{policy.Approvals{Tainted: []string{"shell.*"}}, policy.RuleApproveTainted},
	} {
		p := newPolicy(t, policy.Options{ShellEnabled: true, Sandbox: true, Approvals: c.set})
		d := p.Authorize(request("shell.exec", corebot.RoleAdmin, own))
		if got := p.NeedsApproval("shell.exec", d, policy.Weight{Tainted: true, Contained: true}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.set, got, c.want)
		}
	}
}

func TestApprovalsNameTools(t *testing.T) {
	for _, a := range []policy.Approvals{{Mode: "sometimes"}, {Always: []string{""}}, {Tainted: []string{"a*b"}}} {
		if _, err := policy.New(policy.Options{Approvals: a}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

func TestWhatTheOperatorWroteIsToldFromTheRest(t *testing.T) {
	for path, want := range map[string]bool{
		"IDENTITY.md": true, "skills/x/SKILL.md": true, "memory": true, "./memory//MEMORY.md": true,
		"notes.md": false, ".": false, "memory.md": false, "chats/x/MEMORY.md": false, "../IDENTITY.md": false,
		"memory/../notes.md": false,
	} {
		if got := policy.OperatorsText(policy.Target{Path: path}); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if !policy.OperatorsText(policy.Target{Scope: policy.ScopeGlobal}) ||
		policy.OperatorsText(policy.Target{Scope: policy.ScopeChat}) || policy.OperatorsText(policy.Target{}) {
		t.Error("the scopes of memory are taken for one another")
	}
}

func TestOnlyAPersonApproves(t *testing.T) {
	p := newPolicy(t, policy.Options{})
	person, program := corebot.Entry{Person: true}, corebot.Entry{}
	of := func(k corebot.EntryKind) corebot.Entry { return corebot.Entry{Kind: k, Person: true} }
	for _, c := range []struct {
		command string
		entry   corebot.Entry
		target  policy.Target
		rule    string
		allow   bool
	}{
		{"/approve", person, own, "approve", true},
		{"/approve", program, own, policy.RulePersonApproves, false},
		{"/approve", of(corebot.EntryTask), own, policy.RulePersonApproves, false},
		{"/approve", of(corebot.EntryAgent), own, policy.RulePersonApproves, false},
		{"/approve", of(corebot.EntryEvent), own, policy.RulePersonApproves, false},
		{"/approve", of(corebot.EntryClient), own, policy.RulePersonApproves, false},
		{"/approve", person, others, "approve-elsewhere", true},
		{"/approve", program, others, policy.RulePersonApproves, false},
		{"/deny", program, own, "approve", true},
		{"/deny", of(corebot.EntryTask), own, "approve", true},
		{"/deny", program, others, "approve-elsewhere", true},
	} {
		r := request(c.command, corebot.RoleAdmin, c.target)
		r.Entry = c.entry
		if got := p.Authorize(r); got.Allow != c.allow || got.Rule != c.rule {
			t.Errorf("%s, by %+v, of %+v: %+v", c.command, c.entry, c.target, got)
		}
	}
}
