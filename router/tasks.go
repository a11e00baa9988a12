package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Tasks keeps the tasks that chat commands make, list and change.
type Tasks interface {
	Page(ctx context.Context, f corebot.TaskFilter, after string, limit int) (found []corebot.Task, next string,
		err error)
	Task(ctx context.Context, id int64) (corebot.Task, error)
	// Command accepts a control message together with the effect of its command, in one commit. It calls notice with
	// the task, or with the rule of the data that forbids the effect. A denied command has no effect.
	Command(ctx context.Context, m corebot.Message, by corebot.AuditEvent, e corebot.Effect,
		notice func(corebot.Task, error) corebot.Message) (corebot.Receipt, error)
}

// Planner reads what people say about time.
type Planner interface {
	// Reminder reads "10m tea", "18:30 tea" and "2026-12-24T18:00 tea" as a task without a place and a maker.
	Reminder(text string, now time.Time) (corebot.Task, error)
	Change(ctx context.Context, t corebot.Task, action corebot.TaskAction,
		now time.Time) (corebot.ChangeTask, error)
	Line(t corebot.Task, prompt bool) string
	Limits() corebot.TaskLimits
}

// tasksShown is how many tasks /tasks shows.
const tasksShown = 30

const tasksUsage = "/tasks lists the tasks of this chat. /tasks pause ID, /tasks resume ID, /tasks run ID and /tasks " +
	"remove ID change one."

// remind accepts a /remind.
func (r *Router) remind(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if r.opts.Planner == nil {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "There are no tasks here."))
	}
	task, err := r.opts.Planner.Reminder(c.Args, time.Now())
	if err != nil {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, inChat(err)))
	}
	task.Key, task.Creator, task.From = m.Key, m.Sender, m.Key
	task.Group, task.Overheard = m.Envelope.Group, m.Envelope.Group
	_, by, err := r.judge(ctx, m, c, m.Sender)
	if err != nil {
		return corebot.Receipt{}, err
	}
	e := corebot.ScheduleTask{Task: task, Limits: r.opts.Planner.Limits()}
	return r.opts.Tasks.Command(ctx, m, by, e, func(made corebot.Task, err error) corebot.Message {
		if err != nil {
			return controlNotice(m, c, inChat(err))
		}
		return controlNotice(m, c, "I will remind you. "+r.opts.Planner.Line(made, true))
	})
}

// tasks accepts a /tasks: the list, or a change of one task of the chat.
func (r *Router) tasks(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	words := strings.Fields(c.Args)
	answer := func(text string) (corebot.Receipt, error) { return r.ledger.Answer(ctx, m, controlNotice(m, c, text)) }
	switch {
	case r.opts.Planner == nil:
		return answer("There are no tasks here.")
	case len(words) == 0:
		text, err := r.taskList(ctx, m)
		if err != nil {
			return corebot.Receipt{}, err
		}
		return answer(text)
	case len(words) != 2 || !slices.Contains(taskActions, corebot.TaskAction(words[0])):
		return answer(tasksUsage)
	}
	id, err := strconv.ParseInt(words[1], 10, 64)
	var task corebot.Task
	if err == nil {
		task, err = r.opts.Tasks.Task(ctx, id)
	}
	switch {
	case errors.Is(err, corebot.ErrNotFound), errors.Is(err, strconv.ErrSyntax), errors.Is(err, strconv.ErrRange),
		err == nil && task.Key != m.Key:
		return answer(fmt.Sprintf("This chat has no task %s. %s", corebot.Plainly(words[1]), tasksUsage))
	case err != nil:
		return corebot.Receipt{}, err
	}
	e, err := r.opts.Planner.Change(ctx, task, corebot.TaskAction(words[0]), time.Now())
	if err != nil {
		return answer(inChat(err))
	}
	decision, by, err := r.judge(ctx, m, c, task.Creator)
	if err != nil {
		return corebot.Receipt{}, err
	}
	return r.opts.Tasks.Command(ctx, m, by, e, func(now corebot.Task, err error) corebot.Message {
		switch {
		case !decision.Allow:
			return controlNotice(m, c, "Only who made the task, or an admin, can change it.")
		case err != nil:
			return controlNotice(m, c, inChat(err))
		case e.Action == corebot.TaskRemove:
			return controlNotice(m, c, fmt.Sprintf("Task %d is removed.", id))
		case e.Action == corebot.TaskRunNow:
			return controlNotice(m, c, fmt.Sprintf("Task %d runs now.", id))
		}
		return controlNotice(m, c, r.taskLine(m, now))
	})
}

var taskActions = []corebot.TaskAction{corebot.TaskPause, corebot.TaskResume, corebot.TaskRemove, corebot.TaskRunNow}

// taskLine is a task as the chat of a message reads it.
func (r *Router) taskLine(m corebot.Message, t corebot.Task) string {
	return r.opts.Planner.Line(t, t.ReadableBy(m.Sender, m.Envelope.Group))
}

func (r *Router) taskList(ctx context.Context, m corebot.Message) (string, error) {
	found, next, err := r.opts.Tasks.Page(ctx, corebot.TaskFilter{Key: m.Key}, "", tasksShown)
	if err != nil {
		return "", fmt.Errorf("list the tasks of a chat: %w", err)
	}
	if len(found) == 0 {
		return `This chat has no tasks. /remind 10m TEXT makes a reminder; or ask for what is to happen and when.`, nil
	}
	var b strings.Builder
	for _, t := range found {
		b.WriteString(r.taskLine(m, t) + "\n")
	}
	if next != "" {
		b.WriteString("There are more; `corebot tasks list` shows all.\n")
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// inChat is a refusal as the chat reads it: what is wrong, and what to write instead.
func inChat(err error) string {
	text := strings.TrimPrefix(err.Error(), "invalid schedule: ")
	if hint := corebot.HintOf(err); hint != "" {
		text += " (" + hint + ")"
	}
	return corebot.Plainly(text)
}
