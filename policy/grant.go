package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// granted says whether configuration has given the tool to those whose text is in the turn: to each of them, or to the role that they all have.
func (p *Policy) granted(r Request) bool {
	return p.grantedTo(r.Principal, r) && !slices.ContainsFunc(r.Others, func(other corebot.Principal) bool { return !p.grantedTo(other, r) })
}

func (p *Policy) grantedTo(who corebot.Principal, r Request) bool {
	return slices.ContainsFunc(p.opts.Grants, func(g corebot.ToolGrant) bool {
		toHim := g.Role == corebot.RoleNormal || g.Role == r.Role
		if g.Role == "" {
			toHim = g.Principal == who
		}
		return toHim && corebot.MatchesName(g.Tool, r.Tool)
	})
}

// checkGrant refuses a grant that opens nothing: whoever wrote it believes that it does.
func (p *Policy) checkGrant(g corebot.ToolGrant) error {
	if err := g.Validate(); err != nil {
		return fmt.Errorf("grant %s: %w", g, err)
	}
	open := p.grantable()
	if slices.ContainsFunc(open, func(tool string) bool { return overlap(g.Tool, tool) }) {
		return nil
	}
	err := fmt.Errorf("%w: grant %s: no tool of that name can be granted", corebot.ErrInvalid, g)
	return corebot.WithHint(err, "what can be granted is "+strings.Join(open, ", "))
}

// grantable are the tools that a grant can open, as a whole or for some of their targets. Those of MCP servers, whose names are not known here, are
// the beginning of their names and "*".
func (p *Policy) grantable() []string {
	var open []string
	for _, rule := range p.rules {
		if !rule.grantable {
			continue
		}
		known := slices.DeleteFunc(p.tools(), func(tool string) bool { return !corebot.MatchesName(rule.tool, tool) })
		if len(known) == 0 {
			known = []string{rule.tool}
		}
		open = append(open, known...)
	}
	slices.Sort(open)
	return slices.Compact(open)
}

// tools are those that rules name one by one, sorted.
func (p *Policy) tools() []string {
	var names []string
	for _, rule := range p.rules {
		if !strings.HasSuffix(rule.tool, "*") && !strings.HasPrefix(rule.tool, "/") {
			names = append(names, rule.tool)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// overlap says whether there is a name that both patterns match.
func overlap(a, b string) bool {
	start, open := strings.CutSuffix(b, "*")
	return corebot.MatchesName(a, start) || open && corebot.MatchesName(b, strings.TrimSuffix(a, "*"))
}
