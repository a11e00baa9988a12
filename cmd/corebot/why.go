package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/sorted"
)

func newWhy(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Print the whole life of a message, from publish to delivery",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			told, err := look(s, cmd, operate.Why, operate.ByMessage{MessageID: args[0]})
			if err != nil {
				return err
			}
			for _, life := range told.Lives {
				if asJSON {
					err = printJSON(cmd, life)
				} else {
					err = tell(cmd.OutOrStdout(), life.Whole())
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// tell writes a life: how it stands, then what happened, in the order of time.
func tell(w io.Writer, l corebot.Life) error {
	t := &teller{w: w}
	t.line("message %s (%s %s) in %s", printable(l.MessageID), l.Direction, l.Kind, l.Key)
	t.line("  state       %s", l.State)
	if l.Reason != "" {
		t.line("  reason      %s", l.Reason)
	}
	if l.LastError != "" {
		t.line("  last error  %s", oneLine(l.LastError, 300))
	}
	if l.Model != "" {
		t.line("  model       %s", oneLine(l.Model, 100))
	}
	if l.Run > 1 {
		t.line("  run         %d (it was replayed)", l.Run)
	}
	if task, due, ok := corebot.RunOfTask(l.MessageID); ok {
		t.line("  this is     the run of task %d that was due %s", task, clock(due))
	}
	if j := l.Job; j != nil {
		t.line("  this is     %s of message %s: %s", j, cmp.Or(printable(j.Parent.MessageID), "that is deleted"),
			oneLine(j.Outcome(), 300))
	} else if l.Cause != nil {
		t.line("  caused by   %s", printable(l.Cause.MessageID))
	}
	if l.MergedInto != nil {
		what := "merged into"
		if l.End == corebot.EndReplaced {
			what = "replaced by its edit"
		}
		t.line("  %s %s", what, printable(l.MergedInto.MessageID))
	}
	if l.End == "" && l.WakeAt.After(l.PublishedAt) && !l.WakeAt.Equal(l.DeliverAt) {
		t.line("  due         %s", clock(l.WakeAt))
	}
	for _, e := range eventsOf(l) {
		t.line("  %s  %s", clock(e.at), e.text)
	}
	return t.err
}

// event is something that happened to a message, or will.
type event struct {
	at   time.Time
	text string
}

func eventsOf(l corebot.Life) []event {
	var events []event
	add := func(at time.Time, format string, args ...any) {
		if !at.IsZero() {
			events = append(events, event{at, fmt.Sprintf(format, args...)})
		}
	}
	add(l.PublishedAt, "accepted from %s", senderOf(l))
	if _, runs := corebot.RunOfApproval(l.MessageID); runs {
		add(l.DeliverAt, "its request was approved, or expires")
	} else {
		add(l.DeliverAt, "due by its deliverAt")
	}
	for _, a := range l.AttemptLog {
		add(a.At, "run %d: %s", a.Run, detail(attemptOf(a), a.Error))
	}
	if l.Attempts > 0 {
		add(l.ClaimedAt, "claimed, attempt %d", l.Attempts)
	}
	for _, s := range l.Steps {
		at, text := stepEvent(s)
		add(at, "%s", text)
	}
	add(l.EndedAt, "ended: %s%s", l.End, tokensOf(l))
	for _, r := range l.Replies {
		if j := r.Job; j != nil {
			now := ""
			if r.End == "" {
				now = ", now " + detail(r.State, r.LastError)
			}
			add(r.PublishedAt, "%s begun: message %s%s", j, printable(r.MessageID), now)
			add(r.EndedAt, "job %d ended: %s", j.ID, oneLine(j.Outcome(), 200))
			continue
		}
		now := ""
		if r.End == "" {
			now = ", now " + detail(r.State, r.LastError)
		}
		if request, is := corebot.RunOfApproval(r.MessageID); is {
			add(r.PublishedAt, "approval %d stays open: message %s runs its calls if it is given%s", request,
				printable(r.MessageID), now)
			add(r.EndedAt, "message %s ended: %s", printable(r.MessageID), detail(string(r.End), r.Reason))
			continue
		}
		add(r.PublishedAt, "%s %s enqueued%s", r.Kind, printable(r.MessageID), now)
		add(r.EndedAt, "%s %s %s", r.Kind, printable(r.MessageID), detail(string(r.End), r.LastError))
	}
	sorted.By(events, func(a, b event) int { return a.at.Compare(b.at) })
	return events
}

// attemptOf names what an attempt came to, and the class of its error. The death of a message has its reason in its
// error.
func attemptOf(a corebot.Attempt) string {
	what := a.What
	if what == "limited" {
		what = "retry, not counted"
	}
	if a.Class != "" && what != "dead" {
		what += ", " + a.Class
	}
	return what
}

// detail is a word and, where there is one, the error behind it.
func detail(what, err string) string {
	if err == "" {
		return what
	}
	return what + ": " + oneLine(err, 200)
}

func senderOf(l corebot.Life) string {
	if l.Sender.ID == "" {
		return "a sender without an id"
	}
	return l.Sender.String()
}

func tokensOf(l corebot.Life) string {
	if l.Usage == (corebot.Usage{}) {
		return ""
	}
	cost := ""
	if l.Cost > 0 {
		cost = ", cost " + l.Cost.String()
	}
	estimated := ""
	if l.Estimated > 0 {
		estimated = fmt.Sprintf(", %d of them estimated", l.Estimated)
	}
	return fmt.Sprintf(" (%d tokens in, %d out%s%s)", l.Usage.InputTokens, l.Usage.OutputTokens, estimated, cost)
}

// teller writes lines and keeps the first error.
type teller struct {
	w   io.Writer
	err error
}

func (t *teller) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

// stepEvent says when a step happened and what it was.
func stepEvent(s corebot.Step) (time.Time, string) {
	switch {
	case s.Kind == corebot.StepModel && s.Answer != nil:
		return s.EndedAt, fmt.Sprintf("step %d: the model asked for %s", s.Position,
			count(int64(len(s.Answer.Calls)), "tool call"))
	case s.Kind == corebot.StepFacts && s.Answer != nil:
		return s.EndedAt, fmt.Sprintf("step %d: facts were looked for in older messages by %s", s.Position,
			oneLine(s.Answer.Model, 64))
	case s.Kind == corebot.StepSummary && s.Answer != nil:
		return s.EndedAt, fmt.Sprintf("step %d: older messages were summarised by %s", s.Position,
			cmp.Or(oneLine(s.Answer.Model, 64), "an extract"))
	case s.Kind == corebot.StepTool && s.Result != nil && s.Result.Later != 0:
		return s.EndedAt, fmt.Sprintf("step %d: %s %s: the answer went on without it (corebot approvals show %d)",
			s.Position, oneLine(s.Call.Tool, 64), oneLine(string(s.Call.Args), 80), s.Result.Later)
	case s.Kind == corebot.StepTool && s.Result != nil:
		return s.EndedAt, fmt.Sprintf("step %d: %s %s: %s", s.Position, oneLine(s.Call.Tool, 64),
			oneLine(string(s.Call.Args), 80), s.Result.Outcome)
	case s.Kind == corebot.StepTool && s.State == corebot.StepAwaiting:
		return s.StartedAt, fmt.Sprintf("step %d: %s %s waits for an admin's approval (corebot approvals list)",
			s.Position,
			oneLine(s.Call.Tool, 64), oneLine(string(s.Call.Args), 80))
	case s.Kind == corebot.StepTool && s.State == corebot.StepWaiting:
		return s.StartedAt, fmt.Sprintf("step %d: %s %s waits (corebot waits list)", s.Position,
			oneLine(s.Call.Tool, 64), oneLine(string(s.Call.Args), 80))
	case s.Kind == corebot.StepTool && s.Call != nil:
		return s.StartedAt, fmt.Sprintf("step %d: %s was begun", s.Position, oneLine(s.Call.Tool, 64))
	case s.Kind == corebot.StepMerge && s.Merged != nil:
		return s.EndedAt, fmt.Sprintf("step %d: merged message %s", s.Position, printable(s.Merged.ID))
	case s.Kind == corebot.StepPart && s.Sent != nil:
		as := ""
		if len(s.Sent.IDs) > 0 {
			as = " as " + oneLine(strings.Join(s.Sent.IDs, ", "), 80)
		}
		return s.EndedAt, fmt.Sprintf("part %d was sent: bytes %d to %d of the text%s", s.Position+1, s.Sent.From,
			s.Sent.To, as)
	case s.Kind == corebot.StepPart:
		return s.EndedAt, fmt.Sprintf("part %d was sent", s.Position+1)
	}
	return time.Time{}, ""
}
