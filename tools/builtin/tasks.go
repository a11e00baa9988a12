package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/tools"
)

var (
	//go:embed tasks_schedule.md
	tasksScheduleDoc string
	//go:embed tasks_list.md
	tasksListDoc string
	//go:embed tasks_update.md
	tasksUpdateDoc string
)

// Tasks keeps the scheduled tasks.
type Tasks interface {
	Page(ctx context.Context, f corebot.TaskFilter, after string, limit int) (tasks []corebot.Task, next string,
		err error)
	Task(ctx context.Context, id int64) (corebot.Task, error)
}

type tasksScheduleArgs struct {
	Kind     corebot.TaskKind    `json:"kind" jsonschema:"once, interval, daily or cron"`
	Spec     string              `json:"spec" jsonschema:"2026-12-24T18:00, 90m, 08:30, or 30 8 * * 1-5"`
	Prompt   string              `json:"prompt" jsonschema:"what to do when it is due"`
	TimeZone string              `json:"timeZone,omitempty" jsonschema:"IANA name such as Europe/Berlin"`
	Name     string              `json:"name,omitempty" jsonschema:"a few words for people"`
	Context  corebot.TaskContext `json:"context,omitempty" jsonschema:"group (if left out) or isolated"`
	ChatID   string              `json:"chatId,omitempty" jsonschema:"another chat of this channel"`
}

// chat is the conversation of the task: the turn's own with its thread, or another one as a whole.
func (a tasksScheduleArgs) chat(c tools.Call) corebot.Key {
	k := c.Key
	if a.ChatID != "" && a.ChatID != k.Chat {
		k.Chat, k.Thread = a.ChatID, ""
	}
	return k
}

// TasksSchedule makes a task, in the commit of the call's own outcome.
func TasksSchedule(planner scheduler.Planner) tools.Tool {
	return tools.NewOwn("tasks.schedule", tasksScheduleDoc, 0, func(_ context.Context, c tools.Call,
		a tasksScheduleArgs,
	) (corebot.Effect, string, error) {
		if err := endsChain(c); err != nil {
			return nil, "", err
		}
		if a.Kind == corebot.TaskHeartbeat {
			return nil, "", corebot.WithHint(fmt.Errorf("%w: only the operator's settings make heartbeats",
				corebot.ErrInvalid), "make a task of the kind interval")
		}
		now := time.Now()
		schedule := corebot.Schedule{Kind: a.Kind, Spec: strings.TrimSpace(a.Spec), TimeZone: cmp.Or(a.TimeZone,
			planner.Default)}
		rule, err := scheduler.Parse(schedule, now)
		if err != nil {
			return nil, "", err
		}
		next, _ := rule.Next(now)
		task := corebot.Task{
			Name: a.Name, Key: a.chat(c), Schedule: schedule, Prompt: a.Prompt, Context: cmp.Or(a.Context,
				corebot.TaskInChat),
			Creator: c.Principal, From: c.Key, Others: c.Others, Taint: c.Taint, Chain: c.Chain + 1, Anchor: now,
			NextRun: next, Group: c.Group, Overheard: c.Overheard || c.Group || a.chat(c) != c.Key,
			Tools: c.Within(),
		}
		if err := task.Validate(); err != nil {
			return nil, "", err
		}
		return corebot.ScheduleTask{Task: task, Limits: planner.Most},
			"scheduled: " + scheduler.Describe(rule, schedule, now, 2) + "; tasks.list shows its id", nil
	}, tools.Touches(func(c tools.Call, a tasksScheduleArgs) policy.Target { return policy.Target{Chat: a.chat(c)} }))
}

// endsChain refuses a further run in a row that the run before it has caused.
func endsChain(c tools.Call) error {
	if c.Chain < corebot.MaxTaskChain {
		return nil
	}
	return fmt.Errorf("%w: %d tasks in a row have each made the next one; this one cannot make another, nor run one",
		corebot.ErrInvalid, c.Chain)
}

// tasksShown is how many tasks of a chat the model is shown.
const tasksShown = 50

type tasksListArgs struct{}

// TasksList lists the tasks of the chat. Tasks that untainted turns of the call's principal alone have made are not
// from outside for him.
func TasksList(all Tasks) tools.Tool {
	return tools.NewSourced("tasks.list", tasksListDoc, tools.ReadOnly,
		func(ctx context.Context, c tools.Call, _ tasksListArgs) (text string, outside bool, err error) {
			found, _, err := all.Page(ctx, corebot.TaskFilter{Key: c.Key}, "", tasksShown)
			if err != nil {
				return "", false, tools.Own(fmt.Errorf("list the tasks: %w", err))
			}
			var b strings.Builder
			for _, t := range found {
				outside = outside || !ownTask(c, t)
				b.WriteString(scheduler.Line(t, t.ReadableBy(c.Principal, c.Overheard)) + "\n")
			}
			return cmp.Or(strings.TrimSuffix(b.String(), "\n"), "[this chat has no tasks]"), outside, nil
		}, tools.Touches(func(c tools.Call, _ tasksListArgs) policy.Target { return policy.Target{Chat: c.Key} }))
}

// ownTask says whether nobody but the call's principal can have had a hand in the texts of a task: an untainted turn of
// his alone has made it. A program can have written an event file. The reason of a pause can be an error of anybody.
func ownTask(c tools.Call, t corebot.Task) bool {
	return c.Principal.ID != "" && len(c.Others) == 0 && t.Creator == c.Principal && t.Taint == "" &&
		len(t.Others) == 0 && t.Origin == "" && t.Data == "" && t.Reason == "" && t.Damaged == nil
}

type tasksUpdateArgs struct {
	ID     int64              `json:"id" jsonschema:"as tasks.list shows it"`
	Action corebot.TaskAction `json:"action" jsonschema:"pause, resume, remove or run"`
}

// TasksUpdate changes a task of the chat, in the commit of the call's own outcome.
func TasksUpdate(planner scheduler.Planner, all Tasks) tools.Tool {
	find := func(ctx context.Context, c tools.Call, id int64) (corebot.Task, error) {
		task, err := all.Task(ctx, id)
		if err == nil && task.Key.Agent != c.Key.Agent {
			err = fmt.Errorf("task %d: %w", id, corebot.ErrNotFound)
		}
		return task, err
	}
	return tools.NewOwn("tasks.update", tasksUpdateDoc, 0, func(ctx context.Context, c tools.Call,
		a tasksUpdateArgs,
	) (corebot.Effect, string, error) {
		task, err := find(ctx, c, a.ID)
		if err != nil {
			return nil, "", err
		}
		if a.Action == corebot.TaskRunNow {
			if err := endsChain(c); err != nil {
				return nil, "", err
			}
		}
		e, err := planner.Change(ctx, task, a.Action, time.Now())
		e.Chain = c.Chain
		return e, fmt.Sprintf("task %d: %s", a.ID, scheduler.Done(a.Action, e.Next)), err
	}, tools.Touches(func(c tools.Call, a tasksUpdateArgs) policy.Target {
		task, err := find(context.Background(), c, a.ID)
		if errors.Is(err, corebot.ErrNotFound) { // the call itself says so
			return policy.Target{Chat: c.Key, Sender: c.Principal}
		}
		return policy.Target{Chat: task.Key, Sender: task.Creator} // of a task that cannot be read: nobody's
	}))
}
