// Package policy decides who may do what. There is one gate, [Policy.Authorize], and one table of rules that it reads; tools
// never look at roles themselves.
//
// Guarantees:
//
//   - Denied by default: a tool, a role or a target that no rule names is denied.
//
//   - Pure: a decision depends on the request and the [Options] alone. Roles come from the caller, who reads them from server
//     state when the tool runs.
//
//   - A path is judged in the spelling that the files are opened by, and compared without regard to case: no second spelling of
//     a protected path passes.
//
//   - What configuration grants reaches the rules that are marked for it and no other: never the shell, protected paths, global memory,
//     another conversation's files, one's own role, or an admin without the key.
//
//   - Which allowed calls wait for an admin's word follows from the decision and the turn's taint alone: [Policy.NeedsApproval].
//
// docs/policy.md is made from the table ("go generate ./policy").
//
// Limit: policy sees what a tool says it touches. A tool that touches more must be held by other means (isolation).
package policy

import (
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

//go:generate go test -run ^TestThePolicyPageIsCurrent$ . -update

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
	Sender corebot.Principal // who sent the message that a chat command acts on, or has spoken in the session that it ends, or who gets a role

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
	Everywhere corebot.Role // in all conversations
	Principal  corebot.Principal
	Others     []corebot.Principal // whose text is in the turn as well
	Key        corebot.Key         // the conversation of the turn
	Target     Target

	Entry corebot.Entry // how the turn, or the chat command, came about
}

// Decision says whether a call may run, by which rule, and why not in words that a model or a person can use.
type Decision struct {
	Allow      bool
	Privileged bool // allowed because of who asks: not everyone may
	Beyond     bool // allowed to who is admin beyond the conversation of the turn
	Rule       string
	Reason     string // empty when allowed
}

// Options are what the configuration adds to the rules. The zero Options grant nothing.
type Options struct {
	ShellEnabled bool
	Grants       []corebot.ToolGrant // what the rules keep for admins and others have all the same
	Approvals    Approvals           // which allowed calls wait for an admin's word
	Agent        AgentTools          // which tools the agent has at all
}

// AgentTools are the tools of one agent: names, or beginnings of names and "*". A nil Allow is all tools, an empty one is none; Deny
// comes before Allow. Chat commands are no tools.
type AgentTools struct{ Allow, Deny []string }

func (a AgentTools) has(tool string) bool {
	matches := func(pattern string) bool { return corebot.MatchesName(pattern, tool) }
	return strings.HasPrefix(tool, "/") || !slices.ContainsFunc(a.Deny, matches) && (a.Allow == nil || slices.ContainsFunc(a.Allow, matches))
}

// Policy is a table of rules with its options. It is immutable.
type Policy struct {
	opts  Options
	rules []rule
}

// New refuses a grant that opens nothing: it is [corebot.ErrInvalid], with a hint that names what can be granted.
func New(o Options) (*Policy, error) {
	p := &Policy{opts: o, rules: rules()}
	p.opts.Grants = slices.Clone(o.Grants)
	p.opts.Agent = AgentTools{Allow: slices.Clone(o.Agent.Allow), Deny: slices.Clone(o.Agent.Deny)}
	if err := o.Approvals.Validate(); err != nil {
		return nil, err
	}
	p.opts.Approvals.Always, p.opts.Approvals.Tainted = slices.Clone(o.Approvals.Always), slices.Clone(o.Approvals.Tainted)
	for _, g := range o.Grants {
		if err := p.checkGrant(g); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Authorize decides by the first rule that applies to the request.
func (p *Policy) Authorize(r Request) Decision {
	for _, rule := range p.rules {
		if corebot.MatchesName(rule.tool, r.Tool) && (rule.when == nil || rule.when(p.opts, r)) {
			return p.decide(rule, r)
		}
	}
	return Decision{Rule: "default", Reason: "no rule allows it"}
}

// Visible says whether there is any target for which the request's people may use its tool; its own target does not count. What is not visible
// is not offered.
func (p *Policy) Visible(r Request) bool {
	for _, rule := range p.rules {
		if rule.targeted || !corebot.MatchesName(rule.tool, r.Tool) || rule.when != nil && !rule.when(p.opts, r) {
			continue
		}
		return p.decide(rule, r).Allow
	}
	return false
}

func (p *Policy) decide(rule rule, r Request) Decision {
	if rule.who.has(r) || rule.grantable && p.granted(r) {
		beyond := rule.who == adminsThere || rule.who == adminsEverywhere
		return Decision{Allow: true, Privileged: rule.who != anyone, Beyond: beyond, Rule: rule.name}
	}
	return Decision{Rule: rule.name, Reason: rule.reason}
}
