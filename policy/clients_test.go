package policy_test

import (
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// clientChannel is the channel of MCP clients. The rules do not know its name.
const clientChannel = "mcp"

func TestTheChatsOfMCPClientsAreOpenToThemAndToNobodyElse(t *testing.T) {
	p := newPolicy(t, policy.Options{})
	mine := corebot.Key{Agent: "main", Channel: clientChannel, Chat: "mine"}
	other := corebot.Key{Agent: "main", Channel: clientChannel, Chat: "other"}
	for _, c := range []struct {
		from   corebot.Key
		target policy.Target
		open   bool
	}{
		{mine, policy.Target{Chat: mine}, true},
		{mine, policy.Target{Chat: other}, true},
		{mine, policy.Target{Chat: here}, false},
		{mine, policy.Target{Chat: other, Everywhere: true}, false},
		{mine, policy.Target{}, false},
		{
			mine,
			policy.Target{Chat: corebot.Key{Agent: "main", Channel: clientChannel, Account: "b", Chat: "mine"}},
			false,
		},
		{mine, policy.Target{Chat: corebot.Key{Agent: "b", Channel: clientChannel, Chat: "mine"}}, false},
		{here, policy.Target{Chat: here}, true},
		{here, policy.Target{Chat: there}, false},
		{here, policy.Target{Chat: mine}, false},
	} {
		for _, tool := range []string{"history.read", "chat.list", "message.publish", "message.replies"} {
			r := request(tool, corebot.RoleNormal, c.target)
			r.Key = c.from
			if c.from != here {
				r.Entry.Kind = corebot.EntryClient
			}
			if got := p.Authorize(r); got.Allow != c.open {
				t.Errorf("%s from %s on %+v: %+v", tool, c.from, c.target, got)
			}
			r.Role, r.There, r.Everywhere = corebot.RoleAdmin, corebot.RoleAdmin, corebot.RoleAdmin
			if got, want := p.Authorize(r).Allow, c.open || tool == "history.read" || tool == "chat.list"; got != want {
				t.Errorf("as an admin, %s from %s on %+v: %v", tool, c.from, c.target, got)
			}
		}
	}
}
