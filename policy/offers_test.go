package policy

import (
	"testing"

	"github.com/corebot/corebot"
)

// TestAToolIsOfferedByTheFirstRuleThatIsAboutIt compares the rules of each tool with the whole table.
func TestAToolIsOfferedByTheFirstRuleThatIsAboutIt(t *testing.T) {
	p, err := New(Options{
		Grants: []corebot.ToolGrant{{Tool: "mcp__docs__*", Role: corebot.RoleNormal}},
		Agent:  AgentTools{Deny: []string{"memory.search"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := func(r Request) bool {
		for _, rule := range p.rules {
			if !rule.targeted && corebot.MatchesName(rule.tool, r.Tool) && (rule.when == nil || rule.when(p.opts, r)) {
				return p.decide(rule, r).Allow
			}
		}
		return false
	}
	tools := append(p.tools(), "mcp__docs__find", "mcp__other__find", "no.tool", "", "*", "memory.*", "/stop", "/none")
	offered := 0
	for _, tool := range tools {
		for _, r := range []Request{
			{},
			{Role: corebot.RoleNormal, Everywhere: corebot.RoleNormal},
			{Role: corebot.RoleNormal, Everywhere: corebot.RoleNormal, Tools: []string{"clock", "files.read"}},
			{Role: corebot.RoleAdmin, Everywhere: corebot.RoleNormal},
			{Role: corebot.RoleAdmin, Everywhere: corebot.RoleAdmin},
			{Role: corebot.RoleAdmin, Entry: corebot.Entry{Kind: corebot.EntryClient}},
		} {
			r.Tool = tool
			got := p.Visible(r)
			if want := whole(r); got != want {
				t.Errorf("%q, %+v: visible %v, want %v", tool, r, got, want)
			}
			if got {
				offered++
			}
		}
	}
	if offered < len(tools) {
		t.Errorf("only %d of %d tools are offered to anybody", offered, len(tools))
	}
}
