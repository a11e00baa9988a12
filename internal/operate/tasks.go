package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// Tasks keeps the scheduled tasks and their runs.
type Tasks interface {
	List(ctx context.Context, f corebot.TaskFilter, after string, limit int) (found []corebot.Task, next string,
		err error)
	Task(ctx context.Context, id int64) (corebot.Task, error)
	Runs(ctx context.Context, task int64, before time.Time, limit int) ([]corebot.TaskRun, error)
	Create(ctx context.Context, task corebot.Task, limits corebot.TaskLimits) (corebot.Task, error)
	Change(ctx context.Context, id, version int64, action corebot.TaskAction, next time.Time) (corebot.Task, error)
}

// Planner knows when schedules are due.
type Planner interface {
	// Preview gives the next due times of a schedule, at most count, in its zone. A schedule that cannot be used is
	// [corebot.ErrInvalid].
	Preview(s corebot.Schedule, now time.Time, count int) ([]time.Time, error)
	// Change prepares a change of a task. One that must not run is neither resumed nor run now.
	Change(ctx context.Context, t corebot.Task, action corebot.TaskAction, now time.Time) (corebot.ChangeTask, error)
	// Zone is the time zone of a schedule that names none.
	Zone() string
	// Limits bound the tasks that are made.
	Limits() corebot.TaskLimits
}

// The operations on tasks.
var (
	ListTasks   = reads("tasks.list", (*Service).ListTasks)
	ShowTask    = reads("tasks.show", (*Service).ShowTask)
	PreviewTask = ofFiles("tasks.preview", (*Service).PreviewTask)
	CreateTask  = changes("tasks.create", (*Service).CreateTask)
	ChangeTask  = changes("tasks.change", (*Service).ChangeTask)
)

// maxTasks bounds a page of tasks: each has its whole prompt.
const maxTasks = 100

type (
	// TaskQuery asks for a part of the tasks; the zero filter means all.
	TaskQuery struct {
		Key   corebot.Key       `json:"key,omitzero"`
		Agent string            `json:"agent,omitempty"`
		State corebot.TaskState `json:"state,omitempty"`
		Part
	}
	// TaskRow is the contract's JSON of a task.
	TaskRow struct {
		ID        int64             `json:"id"`
		Name      string            `json:"name"`
		Agent     string            `json:"agent"`
		ChatID    string            `json:"chatId"` // the key of the conversation
		Kind      corebot.TaskKind  `json:"kind"`
		Spec      string            `json:"spec"`
		TimeZone  string            `json:"timeZone"`
		Context   string            `json:"context"`
		State     corebot.TaskState `json:"state"`
		NextRunAt *time.Time        `json:"nextRunAt"`
		LastRunAt *time.Time        `json:"lastRunAt"`
		LastEnd   string            `json:"lastStatus"`
		Creator   string            `json:"createdBy"`
		Prompt    string            `json:"prompt"`
		Data      string            `json:"data,omitempty"` // words of others that come with the prompt
		File      string            `json:"file,omitempty"` // the event file that made it
		Tools     []string          `json:"tools,omitzero"` // its runs have no others; null: all
		Failures  int               `json:"failures,omitempty"`
		Reason    string            `json:"reason,omitempty"`
		CreatedAt time.Time         `json:"createdAt"`
		Problem   string            `json:"problem,omitempty"` // why it cannot be read
	}
	// TaskRunRow is one due time of a task and what became of it.
	TaskRunRow struct {
		Due       time.Time     `json:"dueAt"`
		Published time.Time     `json:"publishedAt"`
		Life      int64         `json:"message,omitempty"`
		EndedAt   *time.Time    `json:"endedAt"`
		Outcome   string        `json:"outcome"` // empty: it waits or runs
		Error     string        `json:"error,omitempty"`
		MessageID string        `json:"messageId,omitempty"` // `corebot why` tells its life
		Tokens    int64         `json:"tokens"`
		Cost      corebot.Money `json:"cost,omitzero"`
	}
	// TaskRuns asks for a task and at most so many of its runs.
	TaskRuns struct {
		ID    int64 `json:"id"`
		Limit int   `json:"limit"`
	}
	// TaskDetail is a task and its newest runs.
	TaskDetail struct {
		TaskRow
		Runs []TaskRunRow `json:"runs"`
	}
	// NewTask is a task to be made. By is its creator: it runs with the role of that principal.
	NewTask struct {
		Key      corebot.Key         `json:"key"`
		By       corebot.Principal   `json:"by"`
		Schedule corebot.Schedule    `json:"schedule"`
		Name     string              `json:"name,omitempty"`
		Prompt   string              `json:"prompt"`
		Context  corebot.TaskContext `json:"context,omitempty"`
	}
	// TaskChange pauses, resumes, removes or runs tasks.
	TaskChange struct {
		IDs    []int64            `json:"ids"`
		Action corebot.TaskAction `json:"action"`
	}
	// PreviewQuery asks when a schedule is due.
	PreviewQuery struct {
		Schedule corebot.Schedule `json:"schedule"`
		Count    int              `json:"count"`
	}
	// Preview is when a schedule is due next, in its zone.
	Preview struct {
		Times []time.Time `json:"times"`
	}
)

// ListTasks lists tasks, the oldest first.
func (s *Service) ListTasks(ctx context.Context, q TaskQuery) (Page[TaskRow], error) {
	if q.State != "" && !slices.Contains(corebot.TaskStates(), q.State) {
		return Page[TaskRow]{}, fmt.Errorf("%w: state %q: want active, paused or done", corebot.ErrInvalid, q.State)
	}
	f := corebot.TaskFilter{Key: q.Key, Agent: q.Agent, State: q.State}
	found, next, err := s.stores.Tasks.List(ctx, f, q.After, min(q.size(), maxTasks))
	return pageOf(found, next, newTaskRow), err
}

func newTaskRow(t corebot.Task) TaskRow {
	problem := ""
	if t.Damaged != nil {
		problem = t.Damaged.Error()
	}
	return TaskRow{
		Problem: problem,
		ID:      t.ID, Name: t.Name, Agent: t.Key.Agent, ChatID: t.Key.String(), Kind: t.Schedule.Kind,
		Spec:     t.Schedule.Spec,
		TimeZone: cmp.Or(t.Schedule.TimeZone, "UTC"), Context: string(t.Context), State: t.State,
		NextRunAt: orNil(t.NextRun), LastRunAt: orNil(t.LastRun), LastEnd: t.LastEnd, Creator: t.Creator.String(),
		Prompt: t.Prompt, Data: t.Data, File: t.File(), Failures: t.Failures, Reason: t.Reason, CreatedAt: t.CreatedAt,
		Tools: t.Tools,
	}
}

// orNil is a time as JSON has it where there can be none.
func orNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// ShowTask gives a task and its newest runs.
func (s *Service) ShowTask(ctx context.Context, q TaskRuns) (d TaskDetail, err error) {
	task, err := s.stores.Tasks.Task(ctx, q.ID)
	if err != nil {
		return d, corebot.WithHint(err, "`corebot tasks list` shows the ids")
	}
	runs, err := s.stores.Tasks.Runs(ctx, q.ID, time.Time{}, min(max(q.Limit, 0), MaxRows))
	d = TaskDetail{TaskRow: newTaskRow(task), Runs: make([]TaskRunRow, len(runs))}
	for i, r := range runs {
		d.Runs[i] = TaskRunRow{
			r.Due, r.PublishedAt, r.Life, orNil(r.EndedAt), r.Outcome, r.Error, r.MessageID, r.Tokens, r.Cost,
		}
	}
	return d, err
}

// maxPreview bounds the times of a preview.
const maxPreview = 100

// PreviewTask says when a schedule would be due.
func (s *Service) PreviewTask(_ context.Context, q PreviewQuery) (Preview, error) {
	times, err := s.stores.Planner.Preview(s.inZone(q.Schedule), time.Now(), min(max(q.Count, 1), maxPreview))
	return Preview{times}, err
}

// inZone gives a schedule the zone of the settings if it names none.
func (s *Service) inZone(schedule corebot.Schedule) corebot.Schedule {
	schedule.TimeZone = cmp.Or(schedule.TimeZone, s.stores.Planner.Zone())
	return schedule
}

// CreateTask makes a task and returns it.
func (s *Service) CreateTask(ctx context.Context, n NewTask) (TaskRow, error) {
	now := time.Now()
	schedule := s.inZone(n.Schedule)
	times, err := s.stores.Planner.Preview(schedule, now, 1)
	if err != nil {
		return TaskRow{}, err
	}
	task, err := s.stores.Tasks.Create(ctx, corebot.Task{
		Name: n.Name, Key: n.Key, Schedule: schedule, Prompt: n.Prompt, Context: cmp.Or(n.Context, corebot.TaskInChat),
		Creator: n.By, Chain: 1, Anchor: now, NextRun: times[0], Overheard: n.Key.Channel != n.By.Channel,
	}, s.stores.Planner.Limits())
	return newTaskRow(task), err
}

// ChangeTask changes tasks, one after the other. The first that fails ends it.
func (s *Service) ChangeTask(ctx context.Context, c TaskChange) (Done, error) {
	return each(c.IDs, func(id int64) error {
		task, err := s.stores.Tasks.Task(ctx, id)
		if err != nil {
			return err
		}
		change, err := s.stores.Planner.Change(ctx, task, c.Action, time.Now())
		if err != nil {
			return fmt.Errorf("task %d: %w", id, err)
		}
		_, err = s.stores.Tasks.Change(ctx, id, change.Version, change.Action, change.Next)
		return err
	})
}
