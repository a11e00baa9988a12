package router

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
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

// inLane answers a chat command that kept its place in the lane.
func (r *Router) inLane(ctx context.Context, d corebot.Delivery) corebot.Result {
	done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	switch c, _, _ := corebot.ParseCommand(d.Message.Text()); c.Name {
	case "/undo":
		return r.undo(ctx, d, c)
	case "/memory":
		return r.memory(ctx, d, c)
	case "/rewind":
		return r.changeSession(ctx, d, c, rewind)
	case "/fork":
		return r.changeSession(ctx, d, c, r.fork)
	case "/new", "/reset":
		return corebot.Result{Outcome: done, NewSession: true, Replies: []corebot.Message{notice(d, "new",
			"A new conversation begins here.", corebot.NoticeCommand)}}
	default:
		return corebot.Result{Outcome: done, Replies: []corebot.Message{notice(d, "help", help(),
			corebot.NoticeCommand)}}
	}
}

// ofOwnSession are the commands that nobody gives in a session in which others have spoken, but an admin.
var ofOwnSession = []string{"/new", "/reset", "/rewind", "/fork"}

// begins returns the command by which a delivery is to begin a new session, or to rewind or copy this one. The result
// does is false if the delivery does nothing of this, or was already allowed to. A run with a journal was allowed
// before its agent began, and its work is not thrown away.
func begins(d corebot.Delivery) (c corebot.Command, does bool) {
	switch {
	case d.Damaged != nil:
		return c, false
	case d.Opens():
		return corebot.Command{Name: "/new"}, len(d.Journal) == 0
	case d.Message.Kind == corebot.KindCommand:
		c, _, _ = corebot.ParseCommand(d.Message.Text())
		return c, slices.Contains(ofOwnSession, c.Name)
	}
	return c, false
}

// sessionOfOthers ends a message that wants to begin a new session, or to rewind or copy the current one, and may not,
// because others have spoken there. No turn can add a speaker between this check and the commit, because
// the lane's lease is held. A message that the chat only hears can: it stays in the ended session. If the session
// cannot be read, the attempt has failed and begins nothing. The check also holds for a stopped message, because a
// stopped message still begins its session.
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
	can, command := "begin a new one", "reset"
	switch c.Name {
	case "/rewind":
		can, command = "rewind it", "rewind"
	case "/fork":
		can, command = "copy it", "fork"
	}
	text := fmt.Sprintf("Others have spoken in this session: an admin of this chat can %s. "+
		"So can an operator, with `corebot chats %s %s`.", can, command, d.Message.Key)
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

// Sessions makes a new chat of a session, and takes the newest exchanges out of a session. The audit event says who
// asks for it. A command that is given again gets what it has done.
type Sessions interface {
	// ForkFor copies a session into a new chat.
	ForkFor(ctx context.Context, by corebot.AuditEvent, f corebot.Fork) (corebot.Forked, error)
	RewindFor(ctx context.Context, by corebot.AuditEvent, k corebot.Key, n int, life int64) (corebot.Rewound, error)
	// Named is the chat of a name beside another chat. It is [corebot.ErrInvalid] where people cannot make chats by
	// themselves, and where another agent would answer.
	Named(k corebot.Key, name string) (corebot.Key, error)
}

// changeSession answers a command that rewinds or copies its session. An error that is about the command is the answer.
func (r *Router) changeSession(ctx context.Context, d corebot.Delivery, c corebot.Command,
	do func(context.Context, Sessions, corebot.AuditEvent, corebot.Delivery, corebot.Command) (string, error),
) corebot.Result {
	if r.opts.Sessions == nil {
		return says(d, c, "Sessions cannot be changed here.")
	}
	_, by, err := r.judge(ctx, d.Message, c, d.Message.Sender) // of others: see sessionOfOthers
	text := ""
	if err == nil {
		text, err = do(ctx, r.opts.Sessions, by, d, c)
	}
	switch {
	case err == nil:
		return says(d, c, text)
	case errors.Is(err, corebot.ErrInvalid), errors.Is(err, corebot.ErrNotFound):
		why := strings.TrimPrefix(inChat(err), corebot.ErrInvalid.Error()+": ")
		result := says(d, c, sentence(why))
		result.Outcome.End, result.Outcome.Reason = corebot.EndRefused, strings.TrimPrefix(c.Name, "/")
		return result
	}
	o := r.queue.Verdict(d, err)
	if o.Verb == corebot.Dead {
		return r.deadLetter(ctx, d, o, err, nil)
	}
	return corebot.Result{Outcome: o}
}

// says answers a command.
func says(d corebot.Delivery, c corebot.Command, text string) corebot.Result {
	return corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		Replies: []corebot.Message{notice(d, strings.TrimPrefix(c.Name, "/"), text, corebot.NoticeCommand)},
	}
}

func rewind(ctx context.Context, s Sessions, by corebot.AuditEvent, d corebot.Delivery, c corebot.Command) (string,
	error,
) {
	n := 1
	if c.Args != "" {
		var err error
		if n, err = strconv.Atoi(c.Args); err != nil || n < 1 || n > corebot.MaxRewound {
			return "", fmt.Errorf("%w: /rewind takes a number from 1 to %d", corebot.ErrInvalid, corebot.MaxRewound)
		}
	}
	done, err := s.RewindFor(ctx, by, d.Message.Key, n, d.Life)
	switch {
	case errors.Is(err, corebot.ErrNotFound), err == nil && done.Exchanges == 0:
		return "There is nothing to rewind in this conversation.", nil
	case err != nil:
		return "", err
	}
	what := "Your last message and its answer are"
	if done.Exchanges > 1 {
		what = fmt.Sprintf("The last %d messages and their answers are", done.Exchanges)
	}
	return what + " rewound: the model does not see them any more. They are kept. What tools did meanwhile is not " +
		"undone: messages that were sent, memory, tasks. /undo undoes changes of files." + factsStay(done.Facts), nil
}

// factsStay says that rewound messages have left facts; nothing if they have not.
func factsStay(n int64) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " 1 fact that was said there stays: /memory lists it, and /memory forget NUMBER forgets it."
	}
	return fmt.Sprintf(" %d facts that were said there stay: /memory lists them, and /memory forget NUMBER forgets "+
		"one.", n)
}

// fork answers a /fork. Without a name the new chat is called after the old one and the number of the command.
func (r *Router) fork(ctx context.Context, s Sessions, by corebot.AuditEvent, d corebot.Delivery,
	c corebot.Command,
) (string, error) {
	f, words := corebot.Fork{From: d.Message.Key, Life: d.Life}, strings.Fields(c.Args)
	if n := len(words); n >= 2 && words[n-2] == "at" {
		f.At, words = words[n-1], words[:n-2]
	}
	name := f.From.Chat + "-" + strconv.FormatInt(d.Life, 10)
	switch len(words) {
	case 0:
	case 1:
		name = words[0]
	default:
		return "", fmt.Errorf("%w: the name of a chat is one word: %s", corebot.ErrInvalid, corebot.UsageOf(c.Name))
	}
	var err error
	if f.To, err = s.Named(f.From, name); err != nil {
		return "", err
	}
	done, err := s.ForkFor(ctx, by, f)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("The chat %s has what was said here: %d entries of the history.", corebot.Plainly(f.To.Chat),
		done.Entries)
	if done.Older > 0 {
		text += fmt.Sprintf(" %d older entries were too many.", done.Older)
	}
	switch {
	case f.To.Channel == corebot.ConsoleChannel:
		text += fmt.Sprintf(" It is at /chats/%s of the console.", url.PathEscape(f.To.String()))
	case r.opts.Owner.Is(f.To.Channel):
		text += fmt.Sprintf(" `corebot chat --chat %s` opens it.", corebot.Plainly(f.To.Chat))
	}
	return text + " Memory, files, tasks, roles and approvals stay with this chat.", nil
}
