package router

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// notice is what Corebot itself says about a delivery. Its id depends only on the run and the name, so every repetition
// has the same id.
func notice(d corebot.Delivery, name, text string, about corebot.NoticeKind,
	actions ...corebot.Action,
) corebot.Message {
	return corebot.TextNotice(d.Caller().Results(), d.RunID()+"/"+name, d.Message.ID, text,
		corebot.Notice{Kind: about, Actions: actions})
}

// Reasons of ends that have their own words for people. They are stored; they never change.
const (
	stopInterrupt = "interrupt"
	refusedBudget = "budget"
	refusedOthers = policy.RuleSessionOfOthers
)

// stopped ends a message by /stop or by a newer prompt, and keeps the work done so far in the history.
func stopped(d corebot.Delivery, done corebot.Result, interrupted bool) corebot.Result {
	reason, text := "stop", "Stopped."
	if interrupted {
		reason, text = stopInterrupt, "Stopped, for your newer message."
	}
	done.Outcome = corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped, Reason: reason}
	done.Replies = []corebot.Message{notice(d, "stopped", text, corebot.NoticeStopped)}
	return done
}

// longDelay is the shortest rate-limit delay that a chat is told about.
const longDelay = time.Minute

// delayed tells the chat once that a rate limit delays its answer. The text is the same in every attempt, so
// repetitions are duplicates.
func delayed(d corebot.Delivery, o corebot.Outcome) []corebot.Message {
	if o.Class != corebot.RateLimited.String() {
		return nil
	}
	since := d.LimitedAt
	if since.IsZero() {
		since = d.ClaimedAt
	}
	if o.At.Sub(since) < longDelay {
		return nil
	}
	return []corebot.Message{notice(d, "delayed",
		"The model provider limits how often it can be asked, so this answer takes longer. "+
			"The message keeps its place and is tried again by itself. /status tells when, and /stop ends it.",
		corebot.NoticeDelayed, corebot.StopAction())}
}

// help lists the chat commands, without the commands of the terminal itself.
func help() string {
	var b strings.Builder
	b.WriteString("Commands of this chat:")
	for _, c := range corebot.Commands() {
		fmt.Fprintf(&b, "\n%-13s %s", strings.TrimSpace(c.Name+" "+c.Args), c.Summary)
	}
	fmt.Fprintf(&b, "\n%-13s %s", "//TEXT", "say /TEXT itself; a path such as /tmp/x is text anyway")
	return b.String()
}

// command answers a chat command that kept its place in the lane.
func command(d corebot.Delivery) corebot.Result {
	done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	switch c, _, _ := corebot.ParseCommand(d.Message.Text()); c.Name {
	case "/new", "/reset":
		return corebot.Result{Outcome: done, NewSession: true, Replies: []corebot.Message{notice(d, "new",
			"A new conversation begins here.", corebot.NoticeCommand)}}
	default:
		return corebot.Result{Outcome: done, Replies: []corebot.Message{notice(d, "help", help(),
			corebot.NoticeCommand)}}
	}
}

// begins returns the command by which a delivery is to begin a new session. The result does is false if the delivery
// begins none, or was already allowed to begin one. A run with a journal was allowed before its agent began, and its
// work is not thrown away.
func begins(d corebot.Delivery) (c corebot.Command, does bool) {
	switch {
	case d.Damaged != nil:
		return c, false
	case d.Opens():
		return corebot.Command{Name: "/new"}, len(d.Journal) == 0
	case d.Message.Kind == corebot.KindCommand:
		c, _, _ = corebot.ParseCommand(d.Message.Text())
		return c, c.Name == "/new" || c.Name == "/reset"
	}
	return c, false
}

// sessionOfOthers ends a message that wants to begin a new session but may not, because others have spoken in the
// current session. No turn can add a speaker between this check and the commit, because the lane's lease is held. A
// message that the chat only hears can: it stays in the ended session. If the session cannot be read, the attempt has
// failed and begins nothing. The check also holds for a stopped message, because a stopped message still begins its
// session.
func (r *Router) sessionOfOthers(ctx context.Context, d corebot.Delivery) (corebot.Result, bool) {
	c, does := begins(d)
	if !does {
		return corebot.Result{}, false
	}
	denied, err := r.deniedSession(context.WithoutCancel(ctx), d.Message, c)
	switch {
	case err != nil:
		o := r.queue.Verdict(d, err)
		if o.Verb != corebot.Dead {
			return corebot.Result{Outcome: o}, true
		}
		result := r.deadLetter(ctx, d, o, err, nil)
		result.NewSession = false
		return result, true
	case denied.Outcome != corebot.OutcomeDenied:
		return corebot.Result{}, false
	}
	text := fmt.Sprintf("Others have spoken in this session: an admin of this chat can begin a new one. "+
		"So can an operator, with `corebot chats reset %s`.", d.Message.Key)
	if d.Opens() {
		text += " Nothing was begun, and your text was not answered. Send it without the command to say it in this " +
			"session."
	}
	return corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndRefused, Reason: refusedOthers},
		Replies: []corebot.Message{notice(d, "refused", text, corebot.NoticeRefused)},
		Command: denied,
	}, true
}

// deniedSession asks the policy whether the sender of a message may end the session. The returned event has the outcome
// denied if not.
func (r *Router) deniedSession(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.AuditEvent, error) {
	speaker := m.Sender
	other, found, err := r.ledger.Another(ctx, m.Key, m.Sender)
	if err != nil {
		return corebot.AuditEvent{}, fmt.Errorf("look who has spoken in the session: %w", err)
	}
	if found {
		speaker = other
	}
	_, by, err := r.judge(ctx, m, c, speaker)
	return by, err
}
