package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Lives tells what became of the messages of a chat.
type Lives interface {
	// InChat finds the message of a chat with that id, or, without one, the newest of who asks. None is [corebot.ErrNotFound].
	InChat(ctx context.Context, k corebot.Key, messageID string, asker corebot.Principal) (corebot.Life, error)
}

// why accepts a /why: whoever sent a message, or an admin, hears its life in words. Messages of other chats are not there for it.
func (r *Router) why(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	life, err := r.lives.InChat(ctx, m.Key, c.Args, m.Sender)
	switch {
	case errors.Is(err, corebot.ErrNotFound) && c.Args == "":
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "No message of yours is known in this chat."))
	case errors.Is(err, corebot.ErrNotFound):
		return r.ledger.Answer(ctx, m, controlNotice(m, c, nothingMeant(c.Args)))
	case err != nil:
		return corebot.Receipt{}, fmt.Errorf("look for what to tell: %w", err)
	}
	decision, by, err := r.judge(ctx, m, c, life.Sender)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if !decision.Allow {
		by.Args = about(life)
		return r.ledger.Refuse(ctx, m, by, controlNotice(m, c, "Only who sent the message, or an admin, can hear what became of it."))
	}
	return r.ledger.Answer(ctx, m, controlNotice(m, c, biography(life, by.Role == corebot.RoleAdmin)))
}

// maxHappenings bounds what is told of one message: the newest.
const maxHappenings = 20

// happening is something that happened to a message.
type happening struct {
	at   time.Time
	text string
}

// biography tells a life in words: how it stands, then what happened, oldest first. Errors may name what is none of a chat's business, such
// as the machines behind it: they are for admins.
func biography(l corebot.Life, admin bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Message %s: %s.", l.MessageID, standing(l))
	if admin && l.LastError != "" {
		fmt.Fprintf(&b, "\nLast error: %s", l.LastError)
	}
	all := happenings(l)
	if more := len(all) - maxHappenings; more > 0 {
		fmt.Fprintf(&b, "\n(%d earlier steps are left out)", more)
		all = all[more:]
	}
	for _, h := range all {
		fmt.Fprintf(&b, "\n%s  %s", h.at.UTC().Format("15:04:05"), h.text)
	}
	return b.String()
}

// standing is how a message stands, in a few words.
func standing(l corebot.Life) string {
	switch {
	case l.End == corebot.EndMerged && l.MergedInto != nil:
		return fmt.Sprintf("merged: it was answered together with message %s", l.MergedInto.MessageID)
	case l.End == corebot.EndDead:
		return fmt.Sprintf("given up (%s); it is kept, and /retry %s tries it again", l.Reason, l.MessageID)
	case l.End != "" && l.Reason != "":
		return fmt.Sprintf("%s (%s)", l.End, l.Reason)
	}
	return l.State
}

func happenings(l corebot.Life) []happening {
	var all []happening
	add := func(at time.Time, format string, args ...any) {
		if !at.IsZero() {
			all = append(all, happening{at, fmt.Sprintf(format, args...)})
		}
	}
	add(l.PublishedAt, "accepted")
	for _, a := range l.AttemptLog {
		add(a.At, "run %d: %s", a.Run, a.What)
	}
	if l.Attempts > 0 {
		add(l.ClaimedAt, "begun, attempt %d", l.Attempts)
	}
	for _, s := range l.Steps {
		if text := stepInWords(s); text != "" {
			add(s.StartedAt, "%s", text)
		}
	}
	add(l.EndedAt, "ended: %s", l.End)
	for _, r := range l.Replies {
		add(r.PublishedAt, "%s written", r.Kind)
		add(r.EndedAt, "%s %s", r.Kind, r.End)
	}
	slices.SortStableFunc(all, func(a, b happening) int { return a.at.Compare(b.at) })
	return all
}

func stepInWords(s corebot.Step) string {
	switch {
	case s.Kind == corebot.StepModel && s.Answer != nil:
		return fmt.Sprintf("the model asked for %d tool calls", len(s.Answer.Calls))
	case s.Kind == corebot.StepSummary && s.Answer != nil:
		return "older messages were summarised"
	case s.Kind == corebot.StepTool && s.Result != nil:
		return fmt.Sprintf("tool %s: %s", s.Call.Tool, s.Result.Outcome)
	case s.Kind == corebot.StepTool && s.State == corebot.StepAwaiting:
		return fmt.Sprintf("tool %s: waits for an admin's word", s.Call.Tool)
	case s.Kind == corebot.StepTool && s.Call != nil:
		return fmt.Sprintf("tool %s: begun", s.Call.Tool)
	case s.Kind == corebot.StepMerge && s.Merged != nil:
		return fmt.Sprintf("took in message %s", s.Merged.ID)
	}
	return ""
}
