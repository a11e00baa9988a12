package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/policy"
)

// Approvals stores the calls that wait for an approval.
type Approvals interface {
	// Approval returns an approval in any state. An unknown id is [corebot.ErrNotFound].
	Approval(ctx context.Context, id int64) (corebot.Approval, error)
	// Decide stores the command, its effect on the approval (id 0: none) and the notice in one commit. It calls notice
	// with the result: nil, [*corebot.Resolved] if the approval was resolved before, [corebot.ErrCannotBind] if it
	// cannot last, or [corebot.ErrNotFound].
	Decide(ctx context.Context, m corebot.Message, id int64, decision corebot.Decision, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
	// RulesOf lists the rules of a conversation, oldest first.
	RulesOf(ctx context.Context, k corebot.Key, limit int) ([]corebot.ApprovalRule, error)
	// RevokeHere stores the command, the end of a rule of its own conversation (id 0: none) and the notice in one
	// commit. It calls notice with nil or [corebot.ErrNotFound].
	RevokeHere(ctx context.Context, m corebot.Message, id int64, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
}

// awaits ends the claim of a turn that waits for an approval. The message keeps its place. Its chat, and the admins'
// chat if there is one, are shown the whole call once: each claim of the turn makes the same notices.
func (r *Router) awaits(d corebot.Delivery, done corebot.Result, asked corebot.ApprovalRequest) corebot.Result {
	a := asked.Approval
	var replies []corebot.Message
	for i, to := range d.Caller().Approvals(r.opts.AdminChat) {
		if i == 0 { // the conversation of the results
			told := notice(d, fmt.Sprintf("approval-%d", a.Request), r.request(asked, to), corebot.NoticeApproval)
			*told.Notice = asked.NoticeOf()
			replies = append(replies, told)
			continue
		}
		replies = append(replies, corebot.TextNotice(to, corebot.OwnID("approval", a.Request), "",
			fmt.Sprintf("In the chat %s:\n%s", a.Key, r.request(asked, to)), asked.NoticeOf()))
	}
	return corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Wait, At: asked.Until, Reason: corebot.AwaitingApproval},
		Replies: replies, Spent: done.Spent,
	}
}

// maxShown bounds the diffs of one request that a chat is shown, in bytes. The arguments are shown whole.
const maxShown = 32 << 10

// request is the text that asks people for an approval: all calls of the request, and why an admin is needed.
func (r *Router) request(asked corebot.ApprovalRequest, to corebot.Key) string {
	var b strings.Builder
	a, n := asked.Approval, len(asked.All)
	what := "this call before it runs"
	if n > 1 {
		what = fmt.Sprintf("these %d calls of one answer before any of them runs", n)
	}
	fmt.Fprintf(&b, "Approval %d: an admin has to approve %s", a.Request, what)
	if a.Beyond {
		b.WriteString(", one who is admin everywhere")
	}
	switch {
	case a.Rule == policy.RuleApproveEgress:
		fmt.Fprintf(&b, ", because the turn has read text from outside (%s), and this call can carry data to an "+
			"address that stood neither in its sender's words nor in a link", corebot.Plainly(a.Taint))
	case a.Rule == policy.RuleApproveTainted && a.Taint != "":
		fmt.Fprintf(&b, ", because the turn has read text from outside (%s)", corebot.Plainly(a.Taint))
	case a.Taint != "":
		fmt.Fprintf(&b, "; the turn has read text from outside (%s)", corebot.Plainly(a.Taint))
	}
	b.WriteString(".")
	if a.Instead != 0 {
		fmt.Fprintf(&b, "\nApproval %d is void, and this one is asked for instead: %s after it was approved.",
			a.Instead, corebot.Plainly(a.Because))
	}
	where := fmt.Sprintf("`corebot approvals show %d` prints it whole", a.Request)
	for i, call := range asked.All {
		b.WriteString("\n\n")
		if n > 1 {
			fmt.Fprintf(&b, "call %d of %d\n", i+1, n)
		}
		b.WriteString(call.Bound.String())
		switch c := call.Change; {
		case c.Path == "":
		case r.mayRead(to, c.Path) && (c.From == "" || r.mayRead(to, c.From)):
			b.WriteString("\n" + c.Show(maxShown/n, where))
		default:
			b.WriteString("\n" + c.Hidden(where))
		}
		if call.Lapsed != "" {
			b.WriteString("\n" + corebot.Plainly(call.Lapsed))
		}
	}
	fmt.Fprintf(&b, "\n\non behalf of: %s\n", a.Principal)
	fmt.Fprintf(&b, "%s, until %s.", a.Usage(), a.ExpiresAt.UTC().Format("15:04:05 MST on 2 January"))
	b.WriteString(lasting(asked))
	if way := corebot.WayOut(asked.All); way != "" && (to == r.opts.AdminChat || r.opts.Owner.Is(to.Channel)) {
		b.WriteString("\n" + way) // the others can change no setting
	}
	fmt.Fprintf(&b, "\n/deny %d stop also ends the answer.", a.Request)
	return b.String()
}

// lasting says what an approval that lasts would let run from then on, before anybody gives it.
func lasting(asked corebot.ApprovalRequest) string {
	a := asked.Approval
	var bound, once []string
	for i, call := range asked.All {
		of := ""
		if len(asked.All) > 1 {
			of = fmt.Sprintf("call %d: ", i+1)
		}
		switch line := "\n- " + of + call.Binding.String(); {
		case call.Binding.Kind == "":
			once = append(once, fmt.Sprintf("\n- %sonly once, because %s", of, corebot.Plainly(call.Unbound)))
		case !slices.Contains(bound, line):
			bound = append(bound, line)
		}
	}
	if len(bound) == 0 {
		return "\nIt can be approved only once: " + corebot.Plainly(a.Unbound) + "."
	}
	until := fmt.Sprintf("/approve %d session, until this session ends, or /approve %d always, until it is revoked,",
		a.Request, a.Request)
	if a.Session == 0 {
		until = fmt.Sprintf("/approve %d always, until it is revoked,", a.Request)
	}
	return fmt.Sprintf("\n%s also lets run what %s asks for in the chat %s:%s", until, a.Principal, a.Key,
		strings.Join(append(bound, once...), ""))
}

// mayRead says whether a chat may be shown a file. Everybody in the chat reads the request. So the file must be open to
// the least privileged person there. The owner's channel is read by the owner of the home alone.
func (r *Router) mayRead(k corebot.Key, path string) bool {
	role := corebot.RoleNormal
	if r.opts.Owner.Is(k.Channel) {
		role = corebot.RoleAdmin
	}
	return r.policy.Authorize(policy.Request{
		Tool: "fs.read", Role: role, There: role, Everywhere: role, Key: k, Target: policy.Target{Path: path},
	}).Allow
}

// decide accepts an /approve or a /deny. In the call's own chat an admin of that chat may decide, elsewhere an admin
// everywhere. Nobody else learns whether such a call exists.
func (r *Router) decide(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	id, decision, ok := corebot.ParseDecision(c)
	if !ok {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, fmt.Sprintf("Say which one, by its number: %s. /status "+
			"tells what waits in this chat.", corebot.UsageOf(c.Name))))
	}
	number := id
	a, err := r.approvals.Approval(ctx, id)
	if err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return corebot.Receipt{}, fmt.Errorf("look for approval %d: %w", id, err)
	}
	by, denied, err := r.mayDecide(ctx, m, c, a)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if denied != "" || a.ID == 0 {
		id = 0
	}
	done := false
	receipt, err := r.approvals.Decide(ctx, m, id, decision, by, func(err error) corebot.Message {
		done = err == nil && denied == ""
		switch again := (*corebot.Resolved)(nil); {
		case denied != "":
			return controlNotice(m, c, denied)
		case errors.As(err, &again):
			return controlNotice(m, c, sentence(again.Error()))
		case errors.Is(err, corebot.ErrCannotBind):
			open := controlNotice(m, c, fmt.Sprintf("%s Approval %d is still open: %s.", sentence(corebot.Plainly(
				err.Error())), a.Request, a.Usage()))
			open.Notice.Actions = a.Actions()
			return open
		case err != nil:
			return controlNotice(m, c, fmt.Sprintf("There is no call %d to say that about.", number))
		case decision.Approve:
			return controlNotice(m, c, fmt.Sprintf("Approved: %s now, if nothing has changed.%s",
				calls(a, "runs", "run"), fromNowOn(decision.For)))
		}
		text := fmt.Sprintf("Denied: %s.", calls(a, "does not run", "do not run"))
		if decision.Stop {
			text += " The answer is stopped."
		}
		return controlNotice(m, c, text)
	})
	if err == nil && done {
		r.decided(m, a, decision)
	}
	return receipt, err
}

// decided tells the turns and the watchers of a decision. The answer to the command tells its own chat.
func (r *Router) decided(m corebot.Message, a corebot.Approval, decision corebot.Decision) {
	if decision.Stop {
		r.active.stop(cmp.Or(a.AskedBy, a.Life), corebot.ErrStopped)
	}
	if a.Detached() && !decision.Approve && m.Key == a.Key {
		r.opts.Live.Publish(live.Event{
			Kind: live.TurnEnded, Key: a.Key, MessageID: a.MessageID, Text: string(corebot.EndRefused),
		})
	}
}

// fromNowOn says how long an approval lasts.
func fromNowOn(l corebot.Lasting) string {
	switch l {
	case corebot.ForSession:
		return " Calls such as this are not asked about again in this session: /rules lists what runs."
	case corebot.ForAlways:
		return " Calls such as this are not asked about again: /rules lists what runs, and revokes it."
	}
	return ""
}

// calls names the calls of a request in a sentence: the one tool, or their number.
func calls(a corebot.Approval, one, many string) string {
	if a.Calls > 1 {
		return fmt.Sprintf("%d calls %s", a.Calls, many)
	}
	return a.Bound.Tool + " " + one
}

// mayDecide asks the policy whether a command may act on a call, and returns the audit event of the command. An unknown
// call is judged as a call of the command's own chat.
func (r *Router) mayDecide(ctx context.Context, m corebot.Message, c corebot.Command,
	a corebot.Approval,
) (by corebot.AuditEvent, denied string, err error) {
	here, err := r.roles.RoleOf(ctx, m.Sender, m.Key)
	if err != nil {
		return by, "", err
	}
	request := policy.Request{
		Tool: c.Name, Role: here, There: here, Principal: m.Sender, Key: m.Key, Target: policy.Target{Chat: m.Key},
		Entry: m.Entry,
	}
	if a.ID != 0 && a.Key != m.Key {
		if request.There, err = r.roles.RoleOf(ctx, m.Sender, corebot.Key{}); err != nil {
			return by, "", err
		}
		request.Target = policy.Target{Chat: a.Key}
	}
	if a.Beyond {
		if request.Everywhere, err = r.roles.RoleOf(ctx, m.Sender, corebot.Key{}); err != nil {
			return by, "", err
		}
		request.Target.Everywhere = true
	}
	decision := r.policy.Authorize(request)
	by = corebot.AuditEvent{
		Event: "approval" + strings.Replace(c.Name, "/", ".", 1), Tool: c.Name, Key: m.Key, Principal: m.Sender,
		Role:  here,
		Entry: corebot.EntryCommand, Rule: decision.Rule, Args: fmt.Sprintf(`{"id":%d}`, a.ID),
	}
	switch {
	case decision.Rule == policy.RulePersonApproves:
		by.Outcome = corebot.OutcomeDenied
		denied = fmt.Sprintf("Only a person can approve a call. Say %s %s in the terminal or in a chat, "+
			"or run `corebot approvals approve %d`.", c.Name, c.Args, a.Request)
	case decision.Rule == policy.RuleApproveBeyond && !decision.Allow && here == corebot.RoleAdmin && a.Key == m.Key:
		by.Outcome, denied = corebot.OutcomeDenied,
			"Only an admin everywhere can approve that: it reaches beyond this chat."
	case !decision.Allow:
		by.Outcome, denied = corebot.OutcomeDenied,
			"Only an admin can say that: of the chat that the call is made in, or everywhere."
	}
	return by, denied, nil
}

// sentence turns the text of an error into a sentence.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
