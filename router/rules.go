package router

import (
	"context"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// rulesShown is how many rules /rules shows.
const rulesShown = 30

const rulesUsage = "/rules lists the approvals that last in this chat. /rules revoke ID ends one."

// rules accepts a /rules: the approvals that last in this chat, or the end of one of them. Only an admin may see them,
// since they tell what others work on.
func (r *Router) rules(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	role, err := r.roles.RoleOf(ctx, m.Sender, m.Key)
	if err != nil {
		return corebot.Receipt{}, err
	}
	decision := r.policy.Authorize(policy.Request{
		Tool: c.Name, Role: role, Principal: m.Sender, Key: m.Key, Entry: m.Entry,
	})
	by := corebot.AuditEvent{
		Event: "approval.rules", Tool: c.Name, Key: m.Key, Principal: m.Sender, Role: role,
		Entry: corebot.EntryCommand, Rule: decision.Rule, Args: "{}",
	}
	if !decision.Allow {
		by.Outcome = corebot.OutcomeDenied
		return r.ledger.Refuse(ctx, m, by, controlNotice(m, c, sentence(decision.Reason)))
	}
	words := strings.Fields(strings.ToLower(c.Args))
	switch {
	case len(words) == 0 || len(words) == 1 && words[0] == "list":
		return r.listRules(ctx, m, c)
	case len(words) != 2 || words[0] != "revoke":
		return r.ledger.Answer(ctx, m, controlNotice(m, c, rulesUsage))
	}
	id, err := corebot.ParseApprovalID(words[1])
	if err != nil {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, rulesUsage))
	}
	return r.approvals.RevokeHere(ctx, m, id, by, func(err error) corebot.Message {
		if err != nil {
			return controlNotice(m, c,
				fmt.Sprintf("This chat has no rule %d: it was revoked, or its session has ended. "+
					"/rules lists those that count.", id))
		}
		return controlNotice(m, c, fmt.Sprintf("Rule %d is revoked: such calls are asked about again.", id))
	})
}

func (r *Router) listRules(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	found, err := r.approvals.RulesOf(ctx, m.Key, rulesShown+1)
	if err != nil {
		return corebot.Receipt{}, fmt.Errorf("list the rules of chat %s: %w", m.Key, err)
	}
	if len(found) == 0 {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "No approval lasts in this chat: each call is asked about."))
	}
	var b strings.Builder
	b.WriteString("These calls run without another approval:")
	for _, rule := range found[:min(len(found), rulesShown)] {
		fmt.Fprintf(&b, "\n%d: %s, for %s, %s", rule.ID, rule.Binding, rule.Principal, rule.Lasts())
	}
	if len(found) > rulesShown {
		b.WriteString("\nThere are more: `corebot approvals rules` lists all.")
	}
	b.WriteString("\n/rules revoke ID ends one.")
	return r.ledger.Answer(ctx, m, controlNotice(m, c, b.String()))
}
