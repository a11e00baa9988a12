package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// Change prepares a change of a task, and stores nothing. A task resumes with its first due time after now. A schedule
// without one is refused with [ErrPast] or [ErrNever]. The gate can refuse to resume a task or to run it now. A task
// that a file makes cannot be removed, unless it runs once.
func (p Planner) Change(ctx context.Context, task corebot.Task, action corebot.TaskAction,
	now time.Time,
) (corebot.ChangeTask, error) {
	e := corebot.ChangeTask{ID: task.ID, Version: task.Version, Action: action}
	switch action {
	case corebot.TaskPause:
		return e, nil
	case corebot.TaskRemove:
		if file := task.File(); file != "" && task.Schedule.Kind != corebot.TaskOnce {
			return e, corebot.WithHint(fmt.Errorf("%w: the file events/%s makes this task", corebot.ErrInvalid,
				file), "delete the file, and the task goes with it; or pause the task")
		}
		return e, nil
	case corebot.TaskRunNow:
	case corebot.TaskResume:
		rule, err := Parse(task.Schedule, now)
		if err != nil {
			return e, err
		}
		e.Next, _ = rule.Next(now)
	default:
		return e, corebot.WithHint(fmt.Errorf("%w: action %q", corebot.ErrInvalid, action),
			"write pause, resume, remove or run")
	}
	if p.Gate == nil {
		return e, nil
	}
	verdict, err := p.Gate.Judge(ctx, task)
	if err == nil && verdict.Fault != "" {
		err = fmt.Errorf("%w: the task must not run, because %s", corebot.ErrInvalid, verdict.Fault)
	}
	return e, err
}

// Done says in a few words what a change has done.
func Done(action corebot.TaskAction, next time.Time) string {
	switch action {
	case corebot.TaskPause:
		return "paused"
	case corebot.TaskResume:
		return "goes on, next due " + next.UTC().Format(time.RFC3339)
	case corebot.TaskRemove:
		return "removed"
	}
	return "runs now"
}

// Describe says what a schedule is and when it is due next: the first count times, in the zone of the schedule.
func Describe(r Rule, s corebot.Schedule, now time.Time, count int) string {
	var times []string
	for _, due := range r.Preview(now, count) {
		times = append(times, due.Format("Mon 2006-01-02 15:04 MST"))
	}
	return fmt.Sprintf("%s %s, next due %s", s.Kind, s.Spec, strings.Join(times, ", then "))
}

// Preview gives the next due times, at most count, in the zone of the schedule.
func (r Rule) Preview(after time.Time, count int) (times []time.Time) {
	for range count {
		due, ok := r.Next(after)
		if !ok {
			break
		}
		times, after = append(times, due.In(r.location)), due
	}
	return times
}

// Planner reads schedules for operators and chat commands.
type Planner struct {
	Default string // the zone of a schedule that names none
	Most    corebot.TaskLimits
	Gate    Gate // nil: every task may run
}

// Limits bound how many tasks there can be.
func (p Planner) Limits() corebot.TaskLimits { return p.Most }

// Line calls [Line].
func (p Planner) Line(t corebot.Task, prompt bool) string { return Line(t, prompt) }

// Preview gives the next due times of a schedule, at most count, in its zone.
func (p Planner) Preview(s corebot.Schedule, now time.Time, count int) ([]time.Time, error) {
	rule, err := Parse(s, now)
	if err != nil {
		return nil, err
	}
	return rule.Preview(now, count), nil
}

// Zone is the zone of a schedule that names none.
func (p Planner) Zone() string { return p.Default }

// linePrompt bounds the prompt in a line, in bytes.
const linePrompt = 200

// shown makes a text of a person or a model fit for a part of a line. It escapes control characters, so that they
// cannot change how the rest of the line reads.
func shown(text string) string {
	return corebot.EscapeFunc(strings.Join(strings.Fields(text), " "), func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// Line describes a task in one line, with the beginning of its prompt or without it: see [corebot.Task.ReadableBy].
func Line(t corebot.Task, prompt bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: ", t.ID)
	if t.Name != "" {
		fmt.Fprintf(&b, "%s, ", shown(t.Name))
	}
	b.WriteString(string(t.Schedule.Kind))
	if t.Schedule.Kind != corebot.TaskOnce { // its due time says it all
		b.WriteString(" " + shown(t.Schedule.Spec))
	}
	switch {
	case t.State == corebot.TaskPaused:
		fmt.Fprintf(&b, ", paused: %s", cmp.Or(t.Reason, "by a person"))
	case t.NextRun.IsZero():
		b.WriteString(", done")
	default:
		location, err := zone(t.Schedule.TimeZone)
		if err != nil {
			location = time.UTC
		}
		fmt.Fprintf(&b, ", next due %s", t.NextRun.In(location).Format("Mon 2006-01-02 15:04 MST"))
	}
	if t.LastEnd != "" {
		fmt.Fprintf(&b, ", last run %s", t.LastEnd)
	}
	if !prompt {
		return b.String() + " (made elsewhere: its prompt is not shown here)"
	}
	text := shown(t.Prompt)
	if len(text) > linePrompt {
		text = runes.Head(text, linePrompt) + "…"
	}
	return b.String() + ": " + text
}
