package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Waits stores what tool calls wait for.
type Waits interface {
	// Wait returns a wait in any state. An unknown number is [corebot.ErrNotFound].
	Wait(ctx context.Context, id int64) (corebot.Pending, error)
	// Command stores a /resume, its effect on the wait (id 0: none) and the notice in one commit. It calls notice with
	// the result: nil, [*corebot.NoLongerWaits], [corebot.ErrTooLarge] or [corebot.ErrNotFound].
	Command(ctx context.Context, m corebot.Message, id int64, word corebot.Word, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
}

// shortWait is the longest wait for a time that the chat is not told about.
const shortWait = time.Minute

// waits ends the claim of a turn of which a call waits. The message keeps its place. Its chat is told once: each claim
// of the turn makes the same notice.
func (r *Router) waits(d corebot.Delivery, done corebot.Result, w corebot.Pending) corebot.Result {
	result := corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Wait, At: w.Until, Reason: w.Awaiting()}, Spent: done.Spent,
	}
	e, short := d.Message.Errand, w.Kind != corebot.WaitWord && w.Until.Sub(w.CreatedAt) < shortWait
	if short || e != nil && e.Heartbeat {
		return result
	}
	told := notice(d, fmt.Sprintf("wait-%d", w.ID), waitText(w), corebot.NoticeWait)
	*told.Notice = w.NoticeOf()
	result.Replies = []corebot.Message{told}
	return result
}

// waitText tells a chat what its answer waits for.
func waitText(w corebot.Pending) string {
	var b strings.Builder
	until := w.Until.UTC().Format("15:04:05 MST on 2 January")
	if w.Kind == corebot.WaitWord {
		fmt.Fprintf(&b, "This answer waits for a word, until %s at the latest (wait %d)", until, w.ID)
	} else {
		fmt.Fprintf(&b, "This answer waits until %s (wait %d)", until, w.ID)
	}
	if w.For != "" {
		b.WriteString(": " + corebot.Plainly(w.For))
	}
	b.WriteString(". What is said here meanwhile is answered afterwards. ")
	if w.Kind == corebot.WaitWord {
		fmt.Fprintf(&b, "/resume %d TEXT gives the word.", w.ID)
	} else {
		fmt.Fprintf(&b, "/resume %d ends the wait now.", w.ID)
	}
	return b.String() + " /steer TEXT ends it with something to say, and /stop ends the answer."
}

// resume accepts a /resume: it gives a word to a turn of its chat that waits. Only the sender of the turn's message, or
// an admin, can. The word of anybody but that sender counts as text from outside.
func (r *Router) resume(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if r.opts.Waits == nil {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "Nothing waits here."))
	}
	number, text, _ := strings.Cut(c.Args, " ")
	id, err := corebot.ParseWaitID(number)
	if err != nil {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, fmt.Sprintf("Say which wait, by its number: %s. /status "+
			"tells what waits in this chat.", corebot.UsageOf(c.Name))))
	}
	w, err := r.opts.Waits.Wait(ctx, id)
	if err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return corebot.Receipt{}, fmt.Errorf("look for wait %d: %w", id, err)
	}
	here := w.ID != 0 && (w.Key == m.Key || w.Results == m.Key)
	decision, by, err := r.judge(ctx, m, c, w.Principal)
	if err != nil {
		return corebot.Receipt{}, err
	}
	effect := id
	if !here {
		by.Outcome, effect = "", 0
	}
	word := corebot.Word{
		Text: strings.TrimSpace(text), Outside: m.Sender != w.Principal || m.Sender.ID == "" || m.Envelope.Group,
	}
	return r.opts.Waits.Command(ctx, m, effect, word, by, func(err error) corebot.Message {
		switch over := (*corebot.NoLongerWaits)(nil); {
		case here && !decision.Allow:
			return controlNotice(m, c, "Only who sent the message whose answer waits, or an admin, can say that.")
		case errors.As(err, &over), errors.Is(err, corebot.ErrTooLarge):
			return controlNotice(m, c, sentence(corebot.Plainly(err.Error())))
		case err != nil:
			return controlNotice(m, c, fmt.Sprintf("Nothing of this chat waits under the number %d.", id))
		}
		return controlNotice(m, c, "The answer goes on.")
	})
}
