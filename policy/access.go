package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// AccessRule says who may talk on a channel at all.
type AccessRule string

const (
	AccessOpen       AccessRule = "open"       // everybody whom the channel lets through
	AccessRegistered AccessRule = "registered" // everybody in a registered chat
	AccessAllowlist  AccessRule = "allowlist"  // the listed senders and chats; an empty list admits nobody
	AccessPairing    AccessRule = "pairing"    // the same, and every sender whom an admin has let in by his code
)

// RuleNotPaired is the rule by which a sender may not talk until an admin lets him in. The audit stores it; it never
// changes.
const RuleNotPaired = "not-paired"

// The other rules that refuse a sender. The audit stores them, too.
const (
	ruleChatDenied    = "chat-denied"
	ruleNotRegistered = "not-registered"
	ruleNotListed     = "not-listed"
)

// Access decides who may talk on one channel. It is immutable. The zero Access admits nobody.
type Access struct {
	rule AccessRule
	list corebot.Allowlist
}

// NewAccess makes the rule of a channel. Only [AccessAllowlist] and [AccessPairing] use the list.
func NewAccess(rule AccessRule, list corebot.Allowlist) (Access, error) {
	switch rule {
	case AccessOpen, AccessRegistered, AccessAllowlist, AccessPairing:
		return Access{rule, list}, nil
	}
	return Access{}, fmt.Errorf("%w: access %q: want open, registered, allowlist or pairing", corebot.ErrInvalid, rule)
}

// Refusals are the rules by which Admit can refuse.
func (a Access) Refusals() []string {
	switch a.rule {
	case AccessOpen:
		return []string{ruleChatDenied}
	case AccessRegistered:
		return []string{ruleChatDenied, ruleNotRegistered}
	case AccessPairing:
		return []string{ruleChatDenied, RuleNotPaired}
	}
	return []string{ruleChatDenied, ruleNotListed}
}

// Pairs says whether [corebot.Admission.Paired] counts.
func (a Access) Pairs() bool { return a.rule == AccessPairing }

// Admit says whether a sender may talk in a chat. A setting of the chat comes before the rule of the channel.
func (a Access) Admit(p corebot.Principal, k corebot.Key, chat corebot.Admission) Decision {
	switch {
	case chat.Access == corebot.DenyChat:
		return Decision{Rule: ruleChatDenied, Reason: "this chat is shut"}
	case chat.Access == corebot.AllowChat:
		return Decision{Allow: true, Rule: "chat-allowed"}
	case a.rule == AccessOpen:
		return Decision{Allow: true, Rule: "open"}
	case a.rule == AccessRegistered && chat.Registered:
		return Decision{Allow: true, Rule: "registered"}
	case a.rule == AccessRegistered:
		return Decision{Rule: ruleNotRegistered, Reason: "this chat is not registered"}
	case (a.rule == AccessAllowlist || a.Pairs()) && a.list.Names(p, k):
		return Decision{Allow: true, Rule: "listed"}
	case a.Pairs() && chat.Paired:
		return Decision{Allow: true, Rule: "paired"}
	case a.Pairs():
		return Decision{Rule: RuleNotPaired, Reason: "no admin has let this sender in"}
	}
	return Decision{Rule: ruleNotListed, Reason: "neither the sender nor the chat is listed"}
}

// ofClients are rules that close to MCP clients everything outside of their own chats. The rules that are open to all
// open a client's own chats.
func ofClients() []rule {
	return []rule{
		{
			name: "chats-elsewhere", tool: "chat.list", when: notAClientsOwn, on: "the chats of another channel than " +
				"the MCP client's", targeted: true, who: adminsEverywhere, grantable: true,
			reason: "only an admin everywhere may list the chats of other channels",
		},
		{
			name: "history-elsewhere", tool: "history.read", when: notAClientsOwn,
			on: "a chat of another channel than the MCP client's", targeted: true, who: adminsThere, grantable: true,
			reason: "only an admin may read the history of a chat on another channel",
		},
		{
			name: "publish-elsewhere", tool: "message.publish", when: notAClientsOwn,
			on: "a chat of another channel than the MCP client's", targeted: true, who: nobody,
			reason: "an MCP client has a channel of its own, and publishes there",
		},
		{
			name: "publish-elsewhere", tool: "message.replies", when: notAClientsOwn,
			on: "a chat of another channel than the MCP client's", targeted: true, who: nobody,
			reason: "an MCP client has a channel of its own, and publishes there",
		},
		{
			name: "status", tool: "status.read", who: adminsEverywhere, grantable: true,
			reason: "only an admin everywhere may read the status",
		},
	}
}

// notAClientsOwn says whether the target is another's conversation. The request's own conversation is the caller's. Of
// a call of an MCP client, so are all conversations of its account: they belong to the one principal for whom the
// clients act.
func notAClientsOwn(o Options, r Request) bool {
	own, on := r.Key, r.Target.Chat
	client := r.Entry.Kind == corebot.EntryClient && on.Channel == own.Channel && on.Account == own.Account &&
		on.Agent == own.Agent
	return r.Target.Everywhere || !client && otherChat(o, r)
}

func notOfAgent(o Options, r Request) bool { return !o.Agent.has(r.Tool) }

func notOfJob(_ Options, r Request) bool { return r.Tools != nil && !slices.Contains(r.Tools, r.Tool) }

// granted says whether configuration grants the tool to every principal whose text is in the turn: to each by himself,
// or to a role that all have.
func (p *Policy) granted(r Request) bool {
	return p.grantedTo(r.Principal, r) && !slices.ContainsFunc(r.Others,
		func(other corebot.Principal) bool { return !p.grantedTo(other, r) })
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

// checkGrant refuses a grant that opens nothing, because its author believes that it does.
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

// grantable lists the tools that a grant can open, as a whole or for some targets. The names of MCP servers' tools are
// not known here. A beginning of their names and "*" stands for them.
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

// tools lists the tools that rules name one by one, sorted.
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

// overlap says whether any name matches both patterns.
func overlap(a, b string) bool {
	start, open := strings.CutSuffix(b, "*")
	return corebot.MatchesName(a, start) || open && corebot.MatchesName(b, strings.TrimSuffix(a, "*"))
}
