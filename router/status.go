package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Situations says what a chat does now.
type Situations interface {
	Situation(ctx context.Context, k corebot.Key) (corebot.Situation, error)
}

// status answers a /status. It asks only the store, so it also works in a chat whose turn hangs.
func (r *Router) status(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if r.opts.Chats == nil {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "Corebot runs."))
	}
	s, err := r.opts.Chats.Situation(ctx, m.Key)
	if err != nil {
		return corebot.Receipt{}, fmt.Errorf("read what chat %s does: %w", m.Key, err)
	}
	var agent, model string
	if r.opts.Describe != nil {
		agent, model = r.opts.Describe(m.Key.Agent)
	}
	text := describe(s, agent, model, time.Now())
	role, err := r.roles.RoleOf(ctx, m.Sender, m.Key)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if role == corebot.RoleAdmin && r.opts.Accounts != nil {
		for _, line := range r.opts.Accounts(ctx) {
			text += "\nChannel " + corebot.Plainly(line)
		}
	}
	return r.ledger.Answer(ctx, m, controlNotice(m, c, text))
}

// describe puts the situation of a chat into words.
func describe(s corebot.Situation, agent, model string, now time.Time) string {
	var b strings.Builder
	switch {
	case s.Running:
		fmt.Fprintf(&b, "An answer has been in the making for %s.", now.Sub(s.RunningSince).Round(time.Second))
	case slices.ContainsFunc(s.Awaited, func(a corebot.Approval) bool { return !a.Detached() }):
		b.WriteString("An answer waits for an admin's approval.")
	case s.Why == corebot.AwaitingTime || s.Why == corebot.AwaitingWord || s.Why == corebot.AwaitingJob:
		fmt.Fprintf(&b, "An answer %s.", waitInWords(s.Why))
	case s.Why != "":
		fmt.Fprintf(&b, "The next message %s until %s.", waitInWords(s.Why), s.WakeAt.UTC().Format("15:04:05 MST"))
	case s.Waiting > 0:
		b.WriteString("The next message is about to be answered.")
	default:
		b.WriteString("Nothing is being answered.")
	}
	describeAwaited(&b, s.Awaited, "")
	describeAwaited(&b, s.AwaitedOfJobs, " of a job")
	for _, w := range s.Waits {
		if w.Kind == corebot.WaitJob {
			fmt.Fprintf(&b, "\nJob %d: /jobs tells more, /stop %d stops it", w.ID, w.ID)
			continue
		}
		fmt.Fprintf(&b, "\nWait %d, for %s, until %s: /resume %d", w.ID, w.Awaiting(),
			w.Until.UTC().Format("15:04:05 MST on 2 January"), w.ID)
	}
	if s.Waiting > 0 {
		fmt.Fprintf(&b, "\nWaiting: %d", s.Waiting)
	}
	if s.Deferred > 0 {
		fmt.Fprintf(&b, "\nDeferred for a budget or to a later time: %d, the first until %s", s.Deferred,
			s.BackAt.UTC().Format("15:04 MST on 2 January"))
	}
	if agent != "" {
		fmt.Fprintf(&b, "\nAgent: %s", corebot.Plainly(agent))
	}
	fmt.Fprintf(&b, "\nSession: %d\nQueue mode: %s", s.Session, cmp.Or(string(s.QueueMode), "the default"))
	switch {
	case s.Model != "":
		fmt.Fprintf(&b, "\nModel: %s, for this session", s.Model)
	case model != "":
		fmt.Fprintf(&b, "\nModel: %s", model)
	}
	return b.String()
}

// describeAwaited lists requests for approvals.
func describeAwaited(b *strings.Builder, all []corebot.Approval, of string) {
	for _, a := range all {
		if a.ID != a.Request { // the first call of the request has told it
			continue
		}
		what := a.Bound.Tool
		if a.Calls > 1 {
			what = fmt.Sprintf("%s and %d more", what, a.Calls-1)
		}
		if a.Detached() {
			of = ", whose answer has come without it"
		}
		fmt.Fprintf(b, "\nApproval %d%s: %s, until %s: /approve %d or /deny %d", a.Request, of, what,
			a.ExpiresAt.UTC().Format("15:04:05 MST"), a.Request, a.Request)
	}
}

// Contexts says what the next request to the model would carry if a principal wrote in a chat.
type Contexts interface {
	Context(ctx context.Context, k corebot.Key, p corebot.Principal) (corebot.ContextUse, error)
}

// contextUse answers a /context. It asks no model, so it also works while an answer is made.
func (r *Router) contextUse(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	text := "Nobody knows here what a request carries."
	if r.opts.Contexts != nil {
		switch use, err := r.opts.Contexts.Context(ctx, m.Key, m.Sender); {
		case errors.Is(err, corebot.ErrNotFound):
			text = "The agent of this chat runs in another process, or not at all."
		case err != nil:
			return corebot.Receipt{}, fmt.Errorf("weigh the next request of chat %s: %w", m.Key, err)
		default:
			text = use.Describe(r.opts.Spending.Accounting)
		}
	}
	return r.ledger.Answer(ctx, m, controlNotice(m, c, text))
}
