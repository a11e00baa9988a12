package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// grants reads TOOL=WHO; what cannot be read is a grant of nothing, which no policy takes.
func grants(texts ...string) []corebot.ToolGrant {
	var all []corebot.ToolGrant
	for _, text := range texts {
		g, _ := corebot.ParseToolGrant(text)
		all = append(all, g)
	}
	return all
}

func TestAGrantHoldsForWhomItNames(t *testing.T) {
	for _, c := range []struct {
		grant string
		role  corebot.Role
		there corebot.Role
		who   corebot.Principal
		allow bool
	}{
		{"message.send=normal", corebot.RoleNormal, corebot.RoleNormal, bob, true},
		{"message.send=normal", corebot.RoleNormal, corebot.RoleNormal, corebot.Principal{Channel: "webhook"}, true},
		{"message.send=normal", corebot.RoleAdmin, corebot.RoleNormal, bob, true},
		{"message.send=admin", corebot.RoleNormal, corebot.RoleNormal, bob, false},
		{"message.send=admin", corebot.RoleNormal, corebot.RoleAdmin, bob, false},
		{"message.send=admin", corebot.RoleAdmin, corebot.RoleNormal, bob, true},
		{"message.send=webhook::ann", corebot.RoleNormal, corebot.RoleNormal, ann, true},
		{"message.send=webhook::ann", corebot.RoleNormal, corebot.RoleNormal, bob, false},
		{
			"message.send=webhook::ann", corebot.RoleNormal, corebot.RoleNormal,
			corebot.Principal{Channel: "cli", ID: "ann"},
			false,
		},
		{"message.send=webhook::ann", "", "", ann, false},
		{"message.send=normal", "", "", ann, false},
		{"chat.*=normal", corebot.RoleNormal, corebot.RoleNormal, bob, false},
	} {
		p := newPolicy(t, policy.Options{Grants: grants(c.grant)})
		r := policy.Request{
			Tool: "message.send", Role: c.role, There: c.there, Principal: c.who, Key: here,
			Target: others,
		}
		if got := p.Authorize(r); got.Allow != c.allow || got.Privileged != c.allow {
			t.Errorf("%s for %s as %q, %q there: got %+v", c.grant, c.who, c.role, c.there, got)
		}
	}
}

func TestATurnOfSeveralPeopleHasAGrantedToolIfEachOfThemHas(t *testing.T) {
	eve := corebot.Principal{Channel: "webhook", ID: "eve"}
	for _, c := range []struct {
		grants string
		others []corebot.Principal
		allow  bool
	}{
		{"mcp.reload=webhook::ann", nil, true},
		{"mcp.reload=webhook::ann", []corebot.Principal{bob}, false},
		{"mcp.reload=webhook::bob", []corebot.Principal{bob}, false},
		{"mcp.reload=webhook::ann mcp.*=webhook::bob", []corebot.Principal{bob}, true},
		{"mcp.reload=webhook::ann mcp.*=webhook::bob", []corebot.Principal{bob, eve}, false},
		{"mcp.reload=normal", []corebot.Principal{bob, eve}, true},
		{"mcp.reload=admin mcp.reload=webhook::ann", []corebot.Principal{bob}, false},
	} {
		p := newPolicy(t, policy.Options{Grants: grants(strings.Fields(c.grants)...)})
		r := request("mcp.reload", corebot.RoleNormal, policy.Target{})
		r.Others = c.others
		if got := p.Authorize(r); got.Allow != c.allow || p.Visible(r) != c.allow {
			t.Errorf("%s with text of %v: got %+v, visible %v", c.grants, c.others, got, p.Visible(r))
		}
	}
}

func TestAGrantThatOpensNothingIsRefused(t *testing.T) {
	for _, tool := range []string{
		"", "a*b", "shell.exec", "shell.*", "fs.write", "memory.write", "skills.read", "web.fetch", "history.search",
		"no.such",
		"message.sent", "Message.send", "bus.dead_letter.drop", "mcp", "mcp_", "/retry", "role-unknown",
	} {
		_, err := policy.New(policy.Options{Grants: []corebot.ToolGrant{{Tool: tool, Role: corebot.RoleNormal}}})
		if !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q: got %v", tool, err)
		}
		if tool == "no.such" && !strings.Contains(corebot.HintOf(err),
			"chat.set_role, history.read, mcp.reload, mcp__*, message.send, skills.disable, skills.enable, "+
				"status.read") {
			t.Errorf("the hint is %q", corebot.HintOf(err))
		}
	}
	for _, tool := range []string{
		"message.send", "message.*", "bus.dead_letter.replay", "mcp__x__y", "mcp__x__*",
		"mcp*", "mcp.reload", "chat.set_role", "*",
	} {
		if _, err := policy.New(policy.Options{Grants: []corebot.ToolGrant{{
			Tool: tool,
			Role: corebot.RoleNormal,
		}}}); err != nil {
			t.Errorf("%q: %v", tool, err)
		}
	}
}

func TestAPolicyKeepsItsGrantsWhateverBecomesOfTheList(t *testing.T) {
	list := grants("mcp.reload=admin")
	p := newPolicy(t, policy.Options{Grants: list})
	list[0].Role = corebot.RoleNormal
	if p.Authorize(request("mcp.reload", corebot.RoleNormal, own)).Allow {
		t.Error("a grant was changed from outside")
	}
}
