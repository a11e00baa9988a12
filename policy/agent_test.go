package policy

import (
	"testing"

	"github.com/corebot/corebot"
)

func TestAnAgentHasTheToolsOfItsListsAndNoRoleOpensOthers(t *testing.T) {
	for _, c := range []struct {
		tools AgentTools
		tool  string
		has   bool
	}{
		{AgentTools{}, "fs.read", true},
		{AgentTools{Allow: []string{}}, "fs.read", false},
		{AgentTools{Allow: []string{"fs.*"}}, "fs.read", true},
		{AgentTools{Allow: []string{"fs.*"}}, "web.fetch", false},
		{AgentTools{Allow: []string{"*"}, Deny: []string{"fs.write"}}, "fs.write", false},
		{AgentTools{Allow: []string{"*"}, Deny: []string{"mcp__*"}}, "mcp__files__read", false},
		{AgentTools{Allow: []string{}}, "/stop", true}, // a command is no tool
	} {
		p, err := New(Options{Agent: c.tools})
		if err != nil {
			t.Fatal(err)
		}
		r := Request{
			Tool: c.tool, Role: corebot.RoleAdmin, There: corebot.RoleAdmin, Everywhere: corebot.RoleAdmin,
			Target: Target{Path: "notes.md"},
		}
		d := p.Authorize(r)
		if refused := d.Rule == "agent-tools"; refused == c.has || refused && (d.Allow || p.Visible(r)) {
			t.Errorf("%+v, %s: %+v, visible %v", c.tools, c.tool, d, p.Visible(r))
		}
	}
}
