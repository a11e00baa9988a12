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

// Waits stores what tool calls wait for.
type Waits interface {
	// Wait returns a wait in any state. An unknown number is [corebot.ErrNotFound].
	Wait(ctx context.Context, id int64) (corebot.Pending, error)
	// Command stores a /resume, its effect on the wait (id 0: none) and the notice in one commit. It calls notice with
	// the result: nil, [*corebot.NoLongerWaits], [corebot.ErrTooLarge], [corebot.ErrNoWord] or [corebot.ErrNotFound].
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
	if short || e != nil && e.Heartbeat || w.Kind == corebot.WaitJob {
		return result
	}
	job := d.Job()
	told := notice(d, fmt.Sprintf("wait-%d", w.ID), waitText(w, job), corebot.NoticeWait)
	if *told.Notice = w.NoticeOf(); job != 0 {
		told.Notice.Actions = []corebot.Action{told.Notice.Actions[0], corebot.StopJobAction(job)}
	}
	result.Replies = []corebot.Message{told}
	return result
}

// waitText tells a chat what its answer waits for, or one of its jobs (0: none). A job that waits holds up no message.
func waitText(w corebot.Pending, job int64) string {
	var b strings.Builder
	who := "This answer"
	if job != 0 {
		who = fmt.Sprintf("Job %d", job)
	}
	until := w.Until.UTC().Format("15:04:05 MST on 2 January")
	if w.Kind == corebot.WaitWord {
		fmt.Fprintf(&b, "%s waits for a word, until %s at the latest (wait %d)", who, until, w.ID)
	} else {
		fmt.Fprintf(&b, "%s waits until %s (wait %d)", who, until, w.ID)
	}
	if w.For != "" {
		b.WriteString(": " + corebot.Plainly(w.For))
	}
	b.WriteString(". ")
	if job == 0 {
		b.WriteString("What is said here meanwhile is answered afterwards. ")
	}
	if w.Kind == corebot.WaitWord {
		fmt.Fprintf(&b, "/resume %d TEXT gives the word.", w.ID)
	} else {
		fmt.Fprintf(&b, "/resume %d ends the wait now.", w.ID)
	}
	if job != 0 {
		return b.String() + fmt.Sprintf(" /stop %d stops the job.", job)
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
		case errors.As(err, &over), errors.Is(err, corebot.ErrTooLarge), errors.Is(err, corebot.ErrNoWord):
			return controlNotice(m, c, sentence(corebot.Plainly(err.Error())))
		case err != nil:
			return controlNotice(m, c, fmt.Sprintf("Nothing of this chat waits under the number %d.", id))
		}
		return controlNotice(m, c, "The answer goes on.")
	})
}

// Jobs stores the work that turns have given to other turns.
type Jobs interface {
	// Job returns a job in any state. An unknown number is [corebot.ErrNotFound].
	Job(ctx context.Context, id int64) (corebot.Job, error)
	// Page gives the open jobs whose results a conversation gets, oldest first, or with all set every job.
	Page(ctx context.Context, of corebot.Key, all bool, after string, limit int) (found []corebot.Job, next string,
		err error)
	// Command stores a /stop of a job, its effect (id 0: none) and the notice in one commit. It calls notice with the
	// result: nil, [*corebot.NoLongerRuns] or [corebot.ErrNotFound].
	Command(ctx context.Context, m corebot.Message, id int64, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
}

// jobsShown is how many jobs a chat is told of.
const jobsShown = 30

// jobs answers a /jobs: the open jobs of the chat.
func (r *Router) jobs(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	var found []corebot.Job
	var next string
	if r.opts.Jobs != nil {
		var err error
		if found, next, err = r.opts.Jobs.Page(ctx, m.Key, false, "", jobsShown); err != nil {
			return corebot.Receipt{}, fmt.Errorf("list the jobs of chat %s: %w", m.Key, err)
		}
	}
	var b strings.Builder
	for _, j := range found {
		b.WriteString(jobLine(j, time.Now()) + "\n")
	}
	switch {
	case len(found) == 0:
		b.WriteString("No job of this chat is open.")
	case next != "":
		b.WriteString("There are more; `corebot jobs list` shows all.")
	default:
		b.WriteString("/stop and the number of a job stops it.")
	}
	return r.ledger.Answer(ctx, m, controlNotice(m, c, b.String()))
}

// jobLine is an open job in one line.
func jobLine(j corebot.Job, now time.Time) string {
	var about []string
	if j.Background {
		about = append(about, "in the background")
	}
	if j.Kind == corebot.JobAsk {
		about = append(about, "by the agent "+j.Key.Agent)
	}
	if j.Depth > 1 {
		about = append(about, fmt.Sprintf("%d deep", j.Depth))
	}
	about = append(about, fmt.Sprintf("for %s", now.Sub(j.CreatedAt).Round(time.Second)))
	if j.Waits != "" {
		about = append(about, "waits for "+j.Waits)
	}
	return fmt.Sprintf("Job %d (%s): %s", j.ID, strings.Join(about, ", "), corebot.Plainly(j.Prompt))
}

// stopJob accepts a /stop of a job of its chat. Only the principal for whom the job works, or an admin, can stop it.
func (r *Router) stopJob(ctx context.Context, m corebot.Message, c corebot.Command, id int64) (corebot.Receipt, error) {
	unknown := controlNotice(m, c, fmt.Sprintf("This chat has no job %d: /jobs lists the open ones. /stop alone stops "+
		"the answer that is being made.", id))
	if r.opts.Jobs == nil {
		return r.ledger.Answer(ctx, m, unknown)
	}
	j, err := r.opts.Jobs.Job(ctx, id)
	if err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return corebot.Receipt{}, fmt.Errorf("look for job %d: %w", id, err)
	}
	if here := j.ID != 0 && (j.Results == m.Key || j.Key.Acts() == m.Key); !here {
		return r.ledger.Answer(ctx, m, unknown)
	}
	decision, by, err := r.judge(ctx, m, c, j.Principal)
	if err != nil {
		return corebot.Receipt{}, err
	}
	return r.opts.Jobs.Command(ctx, m, id, by, func(err error) corebot.Message {
		switch over := (*corebot.NoLongerRuns)(nil); {
		case !decision.Allow:
			return controlNotice(m, c, "Only the person for whom the job works, or an admin, can stop it.")
		case errors.As(err, &over):
			return controlNotice(m, c, sentence(over.Error()))
		case err != nil:
			return unknown
		}
		return controlNotice(m, c, fmt.Sprintf("Stopping job %d.", id))
	})
}

// StopJob cancels the turn of a job that the store has stopped.
func (r *Router) StopJob(life int64) { r.active.stop(life, corebot.ErrStopped) }

// toItsCall takes notices out of the result of a job. The call that began the job is told how it ended. So the chat is
// not told, too.
func toItsCall(d corebot.Delivery, result corebot.Result) corebot.Result {
	if d.Job() == 0 {
		return result
	}
	result.Replies = slices.DeleteFunc(result.Replies, func(m corebot.Message) bool {
		if m.Notice == nil {
			return false
		}
		switch m.Notice.Kind {
		case corebot.NoticeStopped, corebot.NoticeGaveUp, corebot.NoticeDelayed, corebot.NoticeRefused:
			return true
		}
		return false
	})
	if o := &result.Outcome; o.Verb == corebot.Dead {
		o.Plain = whyGivenUp(d, *o)
	}
	return result
}

// jobOverBudget ends a job whose turn may not begin because a cap is used up. It does not wait for the next day: a turn
// waits for it.
func jobOverBudget(scope corebot.BudgetScope) corebot.Result {
	return corebot.Result{Outcome: corebot.Outcome{
		Verb: corebot.Done, End: corebot.EndRefused, Reason: refusedBudget, Plain: capOf(scope) + " is used up",
	}}
}
