// Package policy decides who may do what. There is one gate, [Policy.Authorize], and one table of rules that it reads; tools
// never look at roles themselves.
//
// Guarantees:
//   - Denied by default: a tool, a role or a target that no rule names is denied.
//   - Pure: a decision depends on the request and the [Options] alone. Roles come from the caller, who reads them from server
//     state when the tool runs.
//   - A path is judged in the spelling that the files are opened by, and compared without regard to case: no second spelling of
//     a protected path passes.
//
// Limit: policy sees what a tool says it touches. A tool that touches more must be held by other means (isolation).
package policy

import (
	"fmt"
	"strings"

	"github.com/corebot/corebot"
)

// Scopes of memory.
const (
	ScopeGlobal = "global" // every conversation's
	ScopeChat   = "chat"   // one conversation's
)

// Target is what a call touches. A tool fills in what it has; a rule that needs what is missing denies.
type Target struct {
	Path   string            // a file or directory of the workspace, as the caller spelled it
	Write  bool              // Path is changed, not only read
	Scope  string            // which memory: ScopeGlobal or ScopeChat, the one of the request's own conversation
	Chat   corebot.Key       // the conversation that is acted on
	Sender corebot.Principal // who sent the message that a chat command acts on, or who gets a role

	Everywhere bool         // all conversations are acted on, and Chat is not set
	Role       corebot.Role // the role that is given
	Bootstrap  bool         // with a bootstrap key, which is tried when the call takes effect
}

// Request asks whether a call may run.
type Request struct {
	Tool       string // internal name, with dots; or a chat command, with its slash
	Privileged bool   // the tool says of itself that only admins should have it
	Role       corebot.Role
	There      corebot.Role // in what the target acts on: another conversation, or everywhere; a role may hold in one conversation only
	Principal  corebot.Principal
	Others     []corebot.Principal // whose text is in the turn as well
	Key        corebot.Key         // the conversation of the turn
	Target     Target
}

// Decision says whether a call may run, by which rule, and why not in words that a model or a person can use.
type Decision struct {
	Allow  bool
	Rule   string
	Reason string // empty when allowed
}

// Options are what the configuration adds to the rules. The zero Options grant nothing.
type Options struct {
	ShellEnabled bool
	// Grants open tools that the rules keep for admins to everyone: a name, or a beginning followed by "*". They reach the rules
	// that are marked as grantable only: never the shell, protected paths, global memory, or another conversation's files.
	Grants []string
}

// Policy is a table of rules with its options. It is immutable.
type Policy struct {
	opts  Options
	rules []rule
}

// New refuses a grant that is empty or has a "*" before its end.
func New(o Options) (*Policy, error) {
	for _, g := range o.Grants {
		if g == "" || strings.Contains(strings.TrimSuffix(g, "*"), "*") {
			err := fmt.Errorf("%w: tool grant %q", corebot.ErrInvalid, g)
			return nil, corebot.WithHint(err, `name a tool, or a beginning followed by "*", such as mcp__files__*`)
		}
	}
	o.Grants = append([]string(nil), o.Grants...)
	return &Policy{opts: o, rules: rules()}, nil
}

// Authorize decides by the first rule that applies to the request.
func (p *Policy) Authorize(r Request) Decision {
	for _, rule := range p.rules {
		if matches(rule.tool, r.Tool) && (rule.when == nil || rule.when(p.opts, r)) {
			return p.decide(rule, r)
		}
	}
	return Decision{Rule: "default", Reason: "no rule allows it"}
}

// Visible says whether there is any target for which the role may use the tool. What is not visible is not offered.
func (p *Policy) Visible(tool string, privileged bool, role corebot.Role) bool {
	r := Request{Tool: tool, Privileged: privileged, Role: role}
	for _, rule := range p.rules {
		if rule.targeted || !matches(rule.tool, tool) || rule.when != nil && !rule.when(p.opts, r) {
			continue
		}
		return p.decide(rule, r).Allow
	}
	return false
}

func (p *Policy) decide(rule rule, r Request) Decision {
	switch {
	case rule.who == anyone,
		rule.who == admins && r.Role == corebot.RoleAdmin,
		rule.who == adminsThere && r.Role == corebot.RoleAdmin && r.There == corebot.RoleAdmin,
		(rule.who == admins || rule.who == adminsThere) && rule.grantable && p.granted(r.Tool):
		return Decision{Allow: true, Rule: rule.name}
	}
	return Decision{Rule: rule.name, Reason: rule.reason}
}

func (p *Policy) granted(tool string) bool {
	for _, g := range p.opts.Grants {
		if matches(g, tool) {
			return true
		}
	}
	return false
}

// matches compares a tool with a name or, where it ends in "*", a beginning. Tool names are compared with their case.
func matches(pattern, tool string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(tool, start)
	}
	return pattern == tool
}
