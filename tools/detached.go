package tools

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// An answer does not wait for an approval for ever. After [Options].AnswerAfter its request is detached: the turn goes
// on with a result that says so, and never runs the call. An approval begins another turn, for that call alone. The
// other calls of the answer are not run either, because a call can need what an earlier one does.

// answerAfter is how long the answer waits for an approval of the call. Only the turn of a message that somebody has
// just sent goes on without a call. Nobody watches another turn, or another turn waits for its answer.
func (j *job) answerAfter() time.Duration {
	if j.box.opts.AnswerAfter == nil || j.call.Entry.AuditName() != corebot.EntryDirect {
		return 0
	}
	return j.box.opts.AnswerAfter(j.call.Key.Channel)
}

// behindDetached ends a call behind a call whose request is detached. It can belong to the same request.
func (j *job) behindDetached(ctx context.Context, rule string, tool Tool,
	args bound,
) (corebot.ToolResult, bool, error) {
	if rule != "" {
		return j.approve(ctx, rule, tool, args, "")
	}
	return j.deny(ctx, policy.RuleDetached, "an earlier call of this answer still waits for an approval, and the rest "+
		"of the answer was not run; make this call again if it needs nothing of that one")
}

// withoutCall ends a call whose request is detached. Only the turn of the request's message may run the call.
func (j *job) withoutCall(ctx context.Context, a corebot.Approval) (r corebot.ToolResult, done bool, err error) {
	j.deniesRest = policy.RuleDetached
	switch a.State {
	case corebot.ApprovalAwaited, corebot.ApprovalApproved:
		j.later, j.event.Rule = a.Request, policy.RuleDetached
		r, err = j.finish(ctx, corebot.OutcomeDenied, fmt.Sprintf("waits: this call still waits for an approval, "+
			"number %d; it has not run. If somebody approves it later, it runs then, and its result comes into this "+
			"chat as a message of its own. Answer now without it: say that it waits, and do not guess what comes of it",
			a.Request))
		return r, true, err
	}
	return j.deny(ctx, policy.RuleDetached, "this call was not approved, and it was not run")
}
