package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// Rules gives the approvals that last.
type Rules interface {
	// Standing lists the rules that can count for the calls of a turn: of its principal, in its conversation and its
	// session.
	Standing(ctx context.Context, who corebot.Caller) ([]corebot.ApprovalRule, error)
}

// ruled looks for a stored rule that answers for a call, right before the call runs. Lapsed says in words why a rule
// that once answered for such calls does so no longer.
func (j *job) ruled(ctx context.Context, t Tool, args bound) (r corebot.ApprovalRule, found bool, lapsed string,
	err error,
) {
	if j.box.opts.Rules == nil || j.call.Principal.ID == "" {
		return r, false, "", nil
	}
	rules, err := j.box.opts.Rules.Standing(ctx, j.call.Caller)
	if err != nil {
		return r, false, "", fmt.Errorf("look for rules that answer for a call: %w", err)
	}
	w, s := j.weigh(t, args), j.subject(t, args)
	for _, r := range rules {
		if j.beyond && !r.Beyond {
			continue
		}
		if !j.box.policy.Answers(r.Binding, w, s) {
			was := s
			was.Definition, was.Unvouched = r.Binding.Definition, false
			if s.Definition != r.Binding.Definition && j.box.policy.Answers(r.Binding, w, was) {
				lapsed = fmt.Sprintf("Rule %d does not answer for this call any more: what the MCP server says of the "+
					"tool has changed.", r.ID)
			}
			continue
		}
		holds, err := j.holds(ctx, r)
		if err != nil || holds {
			return r, holds, "", err
		}
		lapsed = fmt.Sprintf("Rule %d does not answer for this call any more: %s made it and could not approve such a "+
			"call now.", r.ID, r.By)
	}
	return r, false, lapsed, nil
}

// holds says whether the maker of a rule could still approve what it lets run.
func (j *job) holds(ctx context.Context, r corebot.ApprovalRule) (bool, error) {
	if r.By == string(corebot.EntryOperator) {
		return true, nil
	}
	by, err := corebot.ParsePrincipal(r.By)
	if err != nil {
		return false, nil
	}
	in := r.Key
	if r.Beyond {
		in = corebot.Key{}
	}
	role, err := j.box.roleOf(ctx, by, in)
	return role == corebot.RoleAdmin, err
}

// subject is what a binding can name of a call.
func (j *job) subject(t Tool, args bound) policy.Subject {
	raw, err := json.Marshal(j.raw.Args) // without white space, and spelled as a journal spells it
	if err != nil {
		raw = nil
	}
	return policy.Subject{
		Tool: t.name, Definition: args.definition, Args: string(raw), Target: args.target(j.call),
		Argv: args.runs(j.call), Egress: t.traits.Has(Egress), GoesTo: args.goes(j.call),
		Unvouched: t.traits.Has(Unapproved) || args.changed,
		Shared:    len(j.call.Others) > 0 || j.call.Principal.ID == "", Overheard: j.call.Overheard,
	}
}
