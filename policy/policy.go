// Package policy decides who may do what. There is one gate, [Policy.Authorize], and one table of rules behind it.
// Tools never look at roles themselves.
//
// Guarantees:
//
//   - Denied by default: a tool, a role or a target that no rule names is denied.
//
//   - Pure: a decision depends on the request and the [Options] alone. The caller reads the roles from server state
//     when the tool runs.
//
//   - A path is judged in the spelling by which files are opened, and compared without regard to case. So no second
//     spelling of a protected path passes. Of a call with two paths, each is judged.
//
//   - A grant of the configuration reaches only the rules that are marked for grants. It never reaches the shell,
//     protected paths, global memory, another conversation's files, one's own role, or an admin without the key.
//
//   - The decision and the [Weight] of a call alone say whether the call waits for an approval: [Policy.NeedsApproval].
//
// "go generate ./policy" makes docs/policy.md from the table.
//
// Limit: policy sees only the target that a tool declares. Isolation must hold a tool that touches more.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/roots"
)

//go:generate go test -run ^TestThePolicyPageIsCurrent$ . -update

// Scopes of memory.
const (
	ScopeGlobal  = "global"  // shared by all conversations of the agent
	ScopeAgent   = "agent"   // the same
	ScopeChannel = "channel" // shared by the conversations of one account of a channel
	ScopeChat    = "chat"    // of one conversation
)

// Target is what a call touches. A tool fills in the fields that it knows. A rule that needs a missing field denies.
type Target struct {
	Path  string      // a file or directory, as the caller spelled it: see [roots.List.Find]
	From  string      // another one, which the call takes away from its place
	Write bool        // the call changes Path
	Scope string      // which memory: one of the scopes, as the request's own conversation has them
	Chat  corebot.Key // the conversation that the call acts on
	// who sent the message that a chat command acts on, or has spoken in the session that it ends, or who gets a role
	Sender corebot.Principal

	Everywhere bool         // all conversations are acted on, and Chat is not set
	Role       corebot.Role // the role that is given
	Bootstrap  bool         // with a bootstrap key, which is tried when the call takes effect
}

// Request asks whether a call may run.
type Request struct {
	Tool       string // internal name, with dots; or a chat command, with its slash
	Privileged bool   // the tool declares that only admins should have it
	Role       corebot.Role
	// in what the target acts on: another conversation, or everywhere; a role may hold in one conversation only
	There      corebot.Role
	Everywhere corebot.Role // the role in all conversations
	Principal  corebot.Principal
	Others     []corebot.Principal // senders whose text is in the turn as well
	Key        corebot.Key         // the conversation of the turn
	Target     Target

	Entry corebot.Entry // how the turn, or the chat command, came about
	Tools []string      // of a child turn: it has no others; nil: any tool
}

// Decision says whether a call may run, by which rule, and if not, why. The reason is in words for a model or a person.
type Decision struct {
	Allow      bool
	Privileged bool // allowed because of the caller: not everyone may make this call
	Beyond     bool // allowed because the caller is admin beyond the turn's conversation
	Rule       string
	Reason     string // empty when allowed
	Opens      string // when denied: the command or the setting by which an operator opens it; empty: nothing does
}

// Options are what the configuration adds to the rules. The zero Options grant nothing.
type Options struct {
	ShellEnabled bool
	Roots        roots.List          // the directories that are open beside the workspace
	Sandbox      bool                // programs run in a sandbox, also in the background
	Grants       []corebot.ToolGrant // tools that the rules reserve for admins and that others get all the same
	Approvals    Approvals           // which allowed calls wait for an approval
	Agent        AgentTools          // which tools the agent has at all
}

// AgentTools are the tools of one agent: names, or beginnings of names and "*". A nil Allow means all tools, an empty
// Allow none. Deny comes before Allow. Chat commands are no tools.
type AgentTools struct{ Allow, Deny []string }

func (a AgentTools) has(tool string) bool {
	matches := func(pattern string) bool { return corebot.MatchesName(pattern, tool) }
	return strings.HasPrefix(tool, "/") || !slices.ContainsFunc(a.Deny, matches) &&
		(a.Allow == nil || slices.ContainsFunc(a.Allow, matches))
}

// Policy is a table of rules with its options. It is immutable.
type Policy struct {
	opts   Options
	rules  []rule
	offers offers
}

// New refuses a grant that opens nothing: the error is [corebot.ErrInvalid], with a hint that lists what can be
// granted.
func New(o Options) (*Policy, error) {
	p := &Policy{opts: o, rules: rules()}
	p.offers = offersOf(p.rules)
	p.opts.Grants = slices.Clone(o.Grants)
	p.opts.Agent = AgentTools{Allow: slices.Clone(o.Agent.Allow), Deny: slices.Clone(o.Agent.Deny)}
	if err := o.Approvals.Validate(); err != nil {
		return nil, err
	}
	p.opts.Approvals.Always, p.opts.Approvals.Tainted = slices.Clone(o.Approvals.Always),
		slices.Clone(o.Approvals.Tainted)
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

// Visible says whether the people of a request may use its tool on any target. It ignores the request's own target. An
// invisible tool is not offered to the model.
func (p *Policy) Visible(r Request) bool {
	for _, rule := range p.offers.about(r.Tool) {
		if corebot.MatchesName(rule.tool, r.Tool) && (rule.when == nil || rule.when(p.opts, r)) {
			return p.allows(rule, r) // nobody reads the reason: it would be written for each tool of each turn
		}
	}
	return false
}

// offers are the rules by which tools are offered, in the order of the table. Each turn asks about every tool, and few
// rules are about any one of them.
type offers struct {
	named map[string][]*rule // by the name of a tool: all that can be about it
	other []*rule            // about a tool that no rule names
}

func offersOf(all []rule) offers {
	o := offers{named: map[string][]*rule{}}
	for i := range all {
		if !all[i].targeted {
			o.named[all[i].tool] = nil
		}
	}
	for i := range all {
		rule := &all[i]
		if rule.targeted {
			continue
		}
		for name := range o.named {
			if corebot.MatchesName(rule.tool, name) {
				o.named[name] = append(o.named[name], rule)
			}
		}
		if strings.HasSuffix(rule.tool, "*") {
			o.other = append(o.other, rule)
		}
	}
	return o
}

// about gives the rules among which are all that are about a tool.
func (o offers) about(tool string) []*rule {
	if about, ok := o.named[tool]; ok {
		return about
	}
	return o.other
}

func (p *Policy) allows(rule *rule, r Request) bool {
	return rule.who.has(r) || rule.grantable && p.granted(r)
}

func (p *Policy) decide(rule rule, r Request) Decision {
	if p.allows(&rule, r) {
		beyond := rule.who == adminsThere || rule.who == adminsEverywhere
		return Decision{Allow: true, Privileged: rule.who != anyone, Beyond: beyond, Rule: rule.name}
	}
	return Decision{Rule: rule.name, Reason: rule.reason, Opens: rule.opening(r)}
}

// opening says what an operator can do about a denial, in words behind which nothing follows.
func (rule rule) opening(r Request) string {
	who := r.Principal.String()
	switch {
	case rule.opens != "":
		return rule.opens
	case rule.who == nobody, len(r.Others) > 0, r.Principal.ID == "": // whose role is missing cannot be said
		return ""
	case rule.grantable:
		return fmt.Sprintf("`corebot admin grant %s`, or %s=%s in `tools.grants`", who, r.Tool, who)
	}
	return fmt.Sprintf("`corebot admin grant %s`", who)
}
