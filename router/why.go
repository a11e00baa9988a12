package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/sorted"
)

// Lives returns the lives of a chat's messages.
type Lives interface {
	// InChat finds the message of a chat with this id. Without an id it is the asker's newest message. If there is
	// none, the error is [corebot.ErrNotFound].
	InChat(ctx context.Context, k corebot.Key, messageID string, asker corebot.Principal) (corebot.Life, error)
	// Shared says whether somebody else than p has spoken in a chat, in whatever thread and session of it.
	Shared(ctx context.Context, k corebot.Key, p corebot.Principal) (bool, error)
}

// why accepts a /why. The sender of a message, or an admin, is told its life in words. Messages of other chats do not
// exist for it.
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
		return r.ledger.Refuse(ctx, m, by,
			controlNotice(m, c, "Only who sent the message, or an admin, can hear what became of it."))
	}
	return r.ledger.Answer(ctx, m, controlNotice(m, c, r.biography(life, r.mayReadErrors(ctx, m))))
}

// maxHappenings bounds the events that are told of one message; the newest are told.
const maxHappenings = 20

// happening is something that happened to a message.
type happening struct {
	at   time.Time
	text string
}

// biography tells a life in words: its state, then its events, oldest first. Errors are only for a chat
// that admins alone read, because they can name things outside of the chat, such as machines.
func (r *Router) biography(l corebot.Life, admin bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Message %s: %s.", l.MessageID, stateInWords(l))
	if l.Model != "" {
		fmt.Fprintf(&b, "\nAnswered by the model %s.", visible(l.Model))
	}
	if admin && l.LastError != "" {
		fmt.Fprintf(&b, "\nLast error: %s", clip(r.opts.Redact(visible(l.LastError)), maxErrorShown))
	}
	all := r.happenings(l, admin)
	if more := len(all) - maxHappenings; more > 0 {
		fmt.Fprintf(&b, "\n(%d earlier steps are left out)", more)
		all = all[more:]
	}
	for _, h := range all {
		fmt.Fprintf(&b, "\n%s  %s", h.at.UTC().Format("15:04:05"), h.text)
	}
	return b.String()
}

// stateInWords is the state of a message, in a few words.
func stateInWords(l corebot.Life) string {
	switch {
	case l.End == corebot.EndMerged && l.MergedInto != nil:
		return fmt.Sprintf("merged: it was answered together with message %s", l.MergedInto.MessageID)
	case l.End == corebot.EndReplaced && l.MergedInto != nil:
		return fmt.Sprintf("edited before it was answered: message %s is its new text", l.MergedInto.MessageID)
	case l.End == corebot.EndDeleted:
		return "deleted before it was answered"
	case l.End == corebot.EndHeard:
		return "kept as context: it did not ask for an answer, or came too late for one"
	case l.End == corebot.EndDead:
		return fmt.Sprintf("given up; it is kept, and /retry %s tries it again", l.MessageID)
	case l.End == corebot.EndStopped && l.Reason == stopInterrupt:
		return "stopped, for a newer message"
	case l.End == corebot.EndRefused && l.Reason == refusedBudget:
		return "refused: the budget of the day was used up"
	case l.End == corebot.EndRefused && l.Reason == refusedOthers:
		return "refused: others had spoken in the session, and an admin of the chat could have begun a new one"
	case l.End == corebot.EndRefused && l.Reason == corebot.ReasonNoAnswer:
		return "refused: an open approval is answered by a command, and a message answers nothing"
	case l.End == "" && l.State == "waiting: "+corebot.HeldBack: // until a time that nobody knows
		return "waits for its turn: other chats of its sender come first, or the sender's rate is used up"
	case l.End == "" && !l.WakeAt.IsZero() && strings.HasPrefix(l.State, "waiting: "):
		return fmt.Sprintf("%s until %s", waitInWords(strings.TrimPrefix(l.State, "waiting: ")),
			l.WakeAt.UTC().Format("15:04:05 MST"))
	}
	return l.State
}

// waitInWords says what the head of a chat waits for.
func waitInWords(why string) string {
	switch why {
	case "backoff":
		return "waits to be tried again"
	case corebot.Throttled:
		return "waits for the chat's rate limit"
	case corebot.AwaitingApproval:
		return "waits for a pending approval"
	case corebot.AwaitingTime:
		return "waits for a time that the answer has set"
	case corebot.AwaitingWord:
		return "waits for a word from outside"
	case corebot.AwaitingJob:
		return "waits for the results of jobs"
	case corebot.Collecting:
		return "waits for more messages of its sender"
	case corebot.Quarantined:
		return "waits for another message that may have broken Corebot off"
	}
	return "waits"
}

func (r *Router) happenings(l corebot.Life, admin bool) []happening {
	var all []happening
	add := func(at time.Time, format string, args ...any) {
		if !at.IsZero() {
			all = append(all, happening{at, fmt.Sprintf(format, args...)})
		}
	}
	add(l.PublishedAt, "accepted")
	add(l.DeliverAt, "due, at the time that its sender gave")
	if l.Attempts > 0 {
		add(l.ClaimedAt, "begun, attempt %d", l.Attempts)
	}
	for _, a := range l.AttemptLog {
		add(a.At, "%s", r.attemptInWords(a, admin))
	}
	for _, s := range l.Steps {
		if text := stepInWords(s); text != "" {
			add(s.StartedAt, "%s", text)
		}
	}
	add(l.EndedAt, "ended: %s", l.End)
	for _, r := range l.Replies {
		if j := r.Job; j != nil {
			add(r.PublishedAt, "began %s", j)
			add(r.EndedAt, "job %d ended: %s", j.ID, j.State)
			continue
		}
		if r.Direction == corebot.Inbound && r.Key != l.Key { // to another agent
			add(r.PublishedAt, "gave work to message %s", r.MessageID)
			add(r.EndedAt, "message %s ended: %s", r.MessageID, r.End)
			continue
		}
		add(r.PublishedAt, "%s written", r.Kind)
		add(r.EndedAt, "%s %s", r.Kind, r.End)
	}
	sorted.By(all, func(a, b happening) int { return a.at.Compare(b.at) })
	return all
}

// attemptInWords says how an attempt ended. The reason is one sentence for everybody; the error itself is for admins.
func (r *Router) attemptInWords(a corebot.Attempt, admin bool) string {
	text := map[string]string{
		"retry": "an attempt failed", "limited": "an attempt met a rate limit and is not counted",
		"lease_lost": "an attempt broke off with Corebot",
		"edit":       "it is an edit", "dead": "given up", "replayed": fmt.Sprintf("tried again, run %d", a.Run),
	}[a.What]
	if text == "" {
		text = a.What
	}
	if a.What == "edit" {
		return text + " " + visible(a.Plain)
	}
	if a.Plain != "" {
		text += ": " + strings.TrimSuffix(a.Plain, ".")
	}
	if admin && a.Error != "" {
		text += ": " + clip(r.opts.Redact(visible(a.Error)), maxErrorShown)
	}
	return text
}

func stepInWords(s corebot.Step) string {
	switch {
	case s.Kind == corebot.StepModel && s.Answer != nil:
		return fmt.Sprintf("the model%s asked for %d tool calls", named(s.Answer.Model), len(s.Answer.Calls))
	case s.Kind == corebot.StepFacts && s.Answer != nil:
		return "facts were looked for in older messages"
	case s.Kind == corebot.StepSummary && s.Answer != nil:
		return "older messages were summarised"
	case s.Kind == corebot.StepTranscript && s.Answer != nil && s.Answer.Model == "":
		return "a recording was not transcribed: " + s.Answer.Text
	case s.Kind == corebot.StepTranscript && s.Answer != nil:
		return "a recording was transcribed" + named(s.Answer.Model)
	case s.Kind == corebot.StepTool && s.Result != nil && s.Result.Later != 0:
		return fmt.Sprintf("tool %s: the answer went on without it, and approval %d stayed open", s.Call.Tool,
			s.Result.Later)
	case s.Kind == corebot.StepTool && s.Result != nil:
		return fmt.Sprintf("tool %s: %s", s.Call.Tool, s.Result.Outcome)
	case s.Kind == corebot.StepTool && s.State == corebot.StepAwaiting:
		return fmt.Sprintf("tool %s: waits for an admin's approval", s.Call.Tool)
	case s.Kind == corebot.StepTool && s.State == corebot.StepWaiting:
		return fmt.Sprintf("tool %s: waits", s.Call.Tool)
	case s.Kind == corebot.StepTool && s.Call != nil:
		return fmt.Sprintf("tool %s: begun", s.Call.Tool)
	case s.Kind == corebot.StepMerge && s.Merged != nil:
		return fmt.Sprintf("merged message %s", s.Merged.ID)
	}
	return ""
}

// named puts a model's name behind its label.
func named(model string) string {
	if model == "" {
		return ""
	}
	return " " + visible(model)
}
