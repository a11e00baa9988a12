package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/corebot/corebot"
)

// Tasks stores the tasks and their runs. Every change of a task leaves an audit event in its own commit. A due time
// becomes a message in the commit that advances its task.
type Tasks struct {
	db *DB
	by corebot.AuditEvent
}

// NewTasks returns the tasks of a database, for changes by the operator.
func NewTasks(db *DB) *Tasks { return &Tasks{db, byOperator()} }

// As returns the tasks for changes by somebody else, as [DeadLetters.As] does.
func (s *Tasks) As(by corebot.AuditEvent) *Tasks { return &Tasks{s.db, by} }

const taskColumns = `SELECT k.id, k.version, k.name, k.agent, k.channel, k.account, k.chat, k.thread, k.kind, k.spec,
		k.time_zone,
	k.prompt, k.context, k.state, k.reason, k.creator, k.made_in, k.others, k.taint, k.in_group, k.overheard, k.chain,
	k.failures, k.origin, k.data, k.tools, k.created_at, k.anchor_at,
	COALESCE(k.next_run, 0), k.last_run, COALESCE((SELECT CASE WHEN r.outcome = '' THEN COALESCE(m."end", '') ELSE
			r.outcome END
		FROM task_runs r LEFT JOIN message_life m ON m.id = r.life_id WHERE r.task_id = k.id ORDER BY r.due DESC
				LIMIT 1), '')
	FROM tasks k `

var (
	taskByID = &query{taskColumns + `WHERE k.id = ?`}
	dueTasks = &query{taskColumns +
		`WHERE k.state = 'active' AND k.next_run IS NOT NULL AND k.next_run <= ?1 AND (k.next_run, k.id) > (?2, ?3)
		ORDER BY k.next_run, k.id LIMIT ?4 + 0`}
	firstDue  = &query{`SELECT COALESCE(MIN(next_run), 0) FROM tasks WHERE state = 'active' AND next_run > ?`}
	listTasks = &query{taskColumns +
		`WHERE k.id > ?1 AND (?2 = '' OR k.agent = ?2) AND (?3 = '' OR k.creator = ?3) AND (?4 = '' OR k.state = ?4)
		ORDER BY k.id LIMIT ?5 + 0`}
	tasksOfChat = &query{taskColumns +
		`WHERE k.chat = ?1 AND k.channel = ?2 AND k.account = ?3 AND k.agent = ?4 AND k.thread = ?5 AND k.id > ?6
		AND (?7 = '' OR k.creator = ?7) AND (?8 = '' OR k.state = ?8) ORDER BY k.id LIMIT ?9 + 0`}
	// tasksOfFiles are tasks without an end: each is made anew when its event file changes
	tasksOfFiles = &query{taskColumns + `WHERE k.origin <> '' AND k.origin > ? AND k.kind = 'cron' AND k.state <> 'done'
		ORDER BY k.origin LIMIT ? + 0`}
	taskOfOrigin = &query{taskColumns + `WHERE k.origin = ? AND k.origin <> ''`}

	countTasksOfChat = &query{`SELECT COUNT(*) FROM tasks WHERE chat = ? AND channel = ? AND account = ? AND agent = ?
			AND thread = ? AND state <> 'done'`}
	countTasksOf = &query{`SELECT COUNT(*) FROM tasks WHERE creator = ? AND state <> 'done'`}
	countTasks   = &query{`SELECT COUNT(*) FROM tasks WHERE state <> 'done'`} // once: see totals

	insertTask = &query{`INSERT INTO tasks (name, agent, channel, account, chat, thread, kind, spec, time_zone, prompt,
			context, state, creator,
		made_in, others, taint, in_group, overheard, chain, origin, data, tools, created_at, anchor_at,
			next_run)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'active', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	advanceTask = &query{`UPDATE tasks SET version = version + 1, last_run = MAX(last_run, ?1), next_run = ?2,
		state = CASE WHEN ?2 IS NULL THEN 'done' ELSE state END, ended_at = CASE WHEN ?2 IS NULL THEN ?3 ELSE 0 END
		WHERE id = ?4 AND version = ?5 AND state = 'active'`}
	planTask = &query{`UPDATE tasks SET version = version + 1, next_run = ? WHERE id = ? AND version = ? AND state =
			'active'`}
	setTask = &query{`UPDATE tasks SET version = version + 1, state = ?, reason = ?, next_run = ?, anchor_at = ?,
			failures = 0, ended_at = ? WHERE id = ?`}
	ranTask  = &query{`UPDATE tasks SET version = version + 1, last_run = MAX(last_run, ?) WHERE id = ?`}
	dropTask = &query{`DELETE FROM tasks WHERE id = ?`}

	insertRun = &query{`INSERT INTO task_runs (task_id, due, published_at, life_id, ended_at, outcome) VALUES (?, ?, ?,
			?, ?, ?)
		ON CONFLICT (task_id, due) DO NOTHING`}
	trimRuns = &query{`DELETE FROM task_runs WHERE task_id = ?1 AND due < (SELECT due FROM task_runs WHERE task_id = ?1
			ORDER BY due DESC LIMIT 1 OFFSET ?2)`}
	dropRuns = &query{`DELETE FROM task_runs WHERE task_id = ?`}
	endRun   = &query{`UPDATE task_runs SET outcome = ?, error = ?, ended_at = ? WHERE task_id = ? AND due = ?`}
	runsOf   = &query{`SELECT r.task_id, r.due, r.published_at, r.life_id, MAX(r.ended_at, COALESCE(m.ended_at, 0)),
		CASE WHEN r.outcome = '' THEN COALESCE(m."end", '') ELSE r.outcome END, r.error, COALESCE(m.message_id, ''),
		COALESCE(m.input_tokens + m.output_tokens, 0), COALESCE(m.cost, 0)
		FROM task_runs r LEFT JOIN message_life m ON m.id = r.life_id WHERE r.task_id = ? AND r.due < ? ORDER BY
				r.due DESC
				LIMIT ? + 0`}

	failTask  = &query{`UPDATE tasks SET failures = failures + 1 WHERE id = ?`}
	fineTask  = &query{`UPDATE tasks SET failures = 0 WHERE id = ? AND failures > 0`}
	pauseTask = &query{`UPDATE tasks SET version = version + 1, state = 'paused', reason = ? WHERE id = ? AND state =
			'active' AND failures >= ?`}
)

// keptRuns is how many runs of a task are kept.
const keptRuns = 100

// scanTask reads a row. A row that is not what was written does not keep the others from being read.
func scanTask(s scanner) (t corebot.Task, err error) {
	var creator, from, others, tools string
	k := &t.Key
	err = s.Scan(&t.ID, &t.Version, &t.Name, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread,
		(*string)(&t.Schedule.Kind), &t.Schedule.Spec, &t.Schedule.TimeZone, &t.Prompt, (*string)(&t.Context),
		(*string)(&t.State), &t.Reason, &creator, &from, &others, &t.Taint, &t.Group, &t.Overheard, &t.Chain,
		&t.Failures, &t.Origin, &t.Data, &tools, moment{&t.CreatedAt}, moment{&t.Anchor}, moment{&t.NextRun},
		moment{&t.LastRun}, &t.LastEnd)
	if err != nil {
		return t, err
	}
	if t.Creator, err = corebot.ParsePrincipal(creator); err == nil && from != "" {
		t.From, err = corebot.ParseKey(from)
	}
	if err == nil && others != "" {
		err = json.Unmarshal([]byte(others), &t.Others)
	}
	if err == nil && tools != "" {
		err = json.Unmarshal([]byte(tools), &t.Tools)
	}
	if err != nil {
		t.Damaged = fmt.Errorf("task %d cannot be read: %w", t.ID, err)
	}
	return t, nil
}

// Create stores a new task and returns it with its number. Where there are as many tasks as a limit allows, the error
// is [corebot.ErrTooManyTasks]. A task whose origin another one has is not stored again: Create returns the other.
func (s *Tasks) Create(ctx context.Context, task corebot.Task, limits corebot.TaskLimits) (corebot.Task, error) {
	task, _, err := s.CreateOnce(ctx, task, limits)
	return task, err
}

// CreateOnce is Create, and says whether it made the task: another task can have its origin.
func (s *Tasks) CreateOnce(ctx context.Context, task corebot.Task, limits corebot.TaskLimits) (has corebot.Task,
	made bool, err error,
) {
	err = s.db.write(ctx, "task.create", func(t *tx) (err error) {
		made = false // a transaction can run again
		if task.Origin != "" {
			if has, err = oneTask(t, taskOfOrigin, task.Origin); err != nil || has.ID != 0 {
				return err
			}
		}
		has, err = s.createTx(t, task, limits)
		made = err == nil
		return err
	})
	return has, made, err
}

// createTx checks its rules before it writes.
func (s *Tasks) createTx(t *tx, task corebot.Task, limits corebot.TaskLimits) (corebot.Task, error) {
	if err := task.Validate(); err != nil {
		return task, err
	}
	if task.Origin != "" {
		known, err := oneTask(t, taskOfOrigin, task.Origin)
		if err != nil || known.ID != 0 {
			return known, err
		}
	}
	k, creator := task.Key, task.Creator.String()
	if err := roomForTaskTx(t, k, creator, limits); err != nil {
		return task, err
	}
	others, from, tools := "", "", ""
	if len(task.Others) > 0 {
		raw, _ := json.Marshal(task.Others) // strings: cannot fail
		others = string(raw)
	}
	if task.Tools != nil {
		raw, _ := json.Marshal(task.Tools) // likewise
		tools = string(raw)
	}
	if task.From != (corebot.Key{}) {
		from = task.From.String()
	}
	task.State, task.CreatedAt, task.Version = corebot.TaskActive, t.now, 1
	var err error
	task.ID, err = t.insert(insertTask, task.Name, k.Agent, k.Channel, k.Account, k.Chat, k.Thread,
		string(task.Schedule.Kind),
		task.Schedule.Spec, task.Schedule.TimeZone, task.Prompt, string(task.Context), creator, from, others,
		task.Taint, task.Group, task.Overheard, task.Chain, task.Origin, task.Data, tools, t.now, task.Anchor,
		orNull(task.NextRun))
	if err != nil {
		return task, err
	}
	t.planned = true
	t.total.tasks++
	return task, s.noteTx(t, "task.create", task, map[string]any{
		"kind": task.Schedule.Kind, "spec": task.Schedule.Spec, "timeZone": task.Schedule.TimeZone,
	})
}

// roomForTaskTx refuses a task over a limit. The tasks of all chats can be many, so that nothing counts them here.
func roomForTaskTx(t *tx, k corebot.Key, creator string, limits corebot.TaskLimits) error {
	for _, limit := range []struct {
		most  int
		of    string
		err   error
		count *query
		args  []any
	}{
		{
			limits.PerChat, "this chat", corebot.ErrChatHasTooMany, countTasksOfChat,
			[]any{k.Chat, k.Channel, k.Account, k.Agent, k.Thread},
		},
		{limits.PerCreator, "this person", corebot.ErrTooManyTasks, countTasksOf, []any{creator}},
		{limits.Total, "all chats", corebot.ErrTooManyTasks, nil, nil},
	} {
		n := int(t.total.tasks)
		if limit.most <= 0 {
			continue
		}
		if limit.count != nil {
			if _, err := t.one(limit.count, []any{&n}, limit.args...); err != nil {
				return err
			}
		}
		if n >= limit.most {
			return corebot.WithHint(fmt.Errorf("%w: %s has %d", limit.err, limit.of, n),
				"remove one first")
		}
	}
	return nil
}

// orNull is a time as it is stored where there can be none.
func orNull(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at
}

func (s *Tasks) noteTx(t *tx, event string, task corebot.Task, note map[string]any) error {
	all := map[string]any{"task": task.ID, "chat": task.Key.String()}
	for name, value := range note {
		all[name] = value
	}
	return changeTx(t, s.by, event, task.Key, all)
}

// scheduleEffectTx handles [corebot.ScheduleTask].
func (s *Tasks) scheduleEffectTx(t *tx, e corebot.ScheduleTask) error {
	_, err := s.createTx(t, e.Task, e.Limits)
	if errors.Is(err, corebot.ErrInvalid) || errors.Is(err, corebot.ErrTooLarge) {
		return &corebot.Refused{Err: err}
	}
	return err
}

// changeEffectTx handles [corebot.ChangeTask].
func (s *Tasks) changeEffectTx(t *tx, e corebot.ChangeTask) error {
	_, err := s.changeTx(t, e)
	if errors.Is(err, corebot.ErrInvalid) || errors.Is(err, corebot.ErrNotFound) {
		return &corebot.Refused{Err: err}
	}
	return err
}

// Command accepts a control message together with the effect of its command, in one commit, with the notice. It calls
// notice with the task as it is then, or with the rule of the data that forbids the effect. A command that by says is
// denied has no effect, and its event goes to the audit. A duplicate changes nothing.
func (s *Tasks) Command(ctx context.Context, m corebot.Message, by corebot.AuditEvent, e corebot.Effect,
	notice func(corebot.Task, error) corebot.Message,
) (r corebot.Receipt, err error) {
	packed, hands := &pack([]corebot.Message{m})[0], s.As(by)
	err = s.db.write(ctx, "task.command", func(t *tx) (err error) {
		if r, err = s.db.controlTx(t, packed, false); err != nil || r.Duplicate {
			return err
		}
		var task corebot.Task
		if by.Outcome == corebot.OutcomeDenied {
			err = auditTx(t, []corebot.AuditEvent{by})
		} else {
			task, err = hands.commandTx(t, e)
		}
		if err != nil && !errors.Is(err, corebot.ErrInvalid) && !errors.Is(err, corebot.ErrNotFound) &&
			!errors.Is(err, corebot.ErrTooLarge) && !noRoom(err) {
			return err
		}
		return noticeTx(t, &pack([]corebot.Message{notice(task, err)})[0], r.Life)
	})
	return r, err
}

func (s *Tasks) commandTx(t *tx, e corebot.Effect) (task corebot.Task, err error) {
	switch e := e.(type) {
	case corebot.ScheduleTask:
		return s.createTx(t, e.Task, e.Limits)
	case corebot.ChangeTask:
		if _, err = s.changeTx(t, e); err == nil {
			task, err = oneTask(t, taskByID, e.ID)
		}
		return task, err
	}
	return task, fmt.Errorf("%w: %T is no effect on a task", corebot.ErrInvalid, e)
}

// oneTask reads the task that a query finds; the zero task: none.
func oneTask(t *tx, q *query, args ...any) (task corebot.Task, err error) {
	err = t.each(q, func(row scanner) (err error) {
		task, err = scanTask(row)
		return err
	}, args...)
	return task, err
}

// OfFiles gives the repeated tasks that were made of event files, by their origins behind one, at most limit of them.
func (s *Tasks) OfFiles(ctx context.Context, after string, limit int) ([]corebot.Task, error) {
	return s.list(ctx, tasksOfFiles, after, limit)
}

// Task returns a task. An unknown number is [corebot.ErrNotFound].
func (s *Tasks) Task(ctx context.Context, id int64) (corebot.Task, error) {
	found, err := s.list(ctx, taskByID, id)
	if err == nil && len(found) == 0 {
		err = unknownTask(id)
	}
	if err != nil {
		return corebot.Task{}, err
	}
	return found[0], nil
}

func unknownTask(id int64) error {
	return corebot.WithHint(fmt.Errorf("task %d: %w", id, corebot.ErrNotFound), "`corebot tasks list` shows the ids")
}

func (s *Tasks) list(ctx context.Context, q *query, args ...any) (out []corebot.Task, err error) {
	err = s.db.reader.each(ctx, q, func(row scanner) error {
		found, err := scanTask(row)
		out = append(out, found)
		return err
	}, args...)
	return out, err
}

// Page gives the tasks behind a cursor, oldest first, at most limit of them, and the cursor behind them.
func (s *Tasks) Page(ctx context.Context, f corebot.TaskFilter, after string,
	limit int,
) (out []corebot.Task, next string, err error) {
	var id int64
	if err := behind(after, "tasks", &id); err != nil {
		return nil, "", err
	}
	creator := ""
	if f.Creator != (corebot.Principal{}) {
		creator = f.Creator.String()
	}
	if k := f.Key; k != (corebot.Key{}) {
		out, err = s.list(ctx, tasksOfChat, k.Chat, k.Channel, k.Account, k.Agent, k.Thread, id, creator,
			string(f.State),
			limit)
	} else {
		out, err = s.list(ctx, listTasks, id, f.Agent, creator, string(f.State), limit)
	}
	return out, nextPage(out, limit, func(t corebot.Task) string { return cursor("tasks", t.ID) }), err
}

// Runs gives the runs of a task, newest first, at most limit of them. before is the due time of an earlier page's last
// run; zero: the newest.
func (s *Tasks) Runs(ctx context.Context, task int64, before time.Time, limit int) (out []corebot.TaskRun, err error) {
	place := int64(math.MaxInt64)
	if !before.IsZero() {
		place = before.UnixMilli()
	}
	err = s.db.reader.each(ctx, runsOf, func(row scanner) error {
		var r corebot.TaskRun
		err := row.Scan(&r.Task, moment{&r.Due}, moment{&r.PublishedAt}, &r.Life, moment{&r.EndedAt}, &r.Outcome,
			&r.Error, &r.MessageID, &r.Tokens, (*int64)(&r.Cost))
		out = append(out, r)
		return err
	}, task, place, limit)
	return out, err
}

// Change pauses, resumes or removes a task, or lets it run now, and returns the task before the change. The caller
// gives the version of the task that it has read; 0 means any. A resumed task is due at next. A task that is not in
// the state for the action is [corebot.ErrInvalid].
func (s *Tasks) Change(ctx context.Context, id, version int64, action corebot.TaskAction,
	next time.Time,
) (was corebot.Task, err error) {
	err = s.db.write(ctx, "task."+string(action), func(t *tx) (err error) {
		was, err = s.changeTx(t, corebot.ChangeTask{ID: id, Version: version, Action: action, Next: next})
		return err
	})
	return was, err
}

func (s *Tasks) changeTx(t *tx, e corebot.ChangeTask) (was corebot.Task, err error) {
	id, version, action, next := e.ID, e.Version, e.Action, e.Next
	was, err = oneTask(t, taskByID, id)
	if err == nil && was.ID == 0 {
		err = unknownTask(id)
	}
	if err == nil && version != 0 && version != was.Version {
		err = corebot.WithHint(fmt.Errorf("%w: task %d has changed meanwhile", corebot.ErrInvalid, id),
			"look at it again")
	}
	if err == nil && was.Damaged != nil && (action == corebot.TaskRunNow || action == corebot.TaskResume) {
		err = fmt.Errorf("%w: %w", corebot.ErrInvalid, was.Damaged)
	}
	if err != nil {
		return was, err
	}
	switch state := was.State; {
	case action == corebot.TaskPause && state == corebot.TaskActive:
		_, err = t.exec(setTask, string(corebot.TaskPaused), "", nil, was.Anchor, int64(0), id)
	case action == corebot.TaskResume && state == corebot.TaskPaused && !next.IsZero():
		_, err = t.exec(setTask, string(corebot.TaskActive), "", next, t.now, int64(0), id)
	case action == corebot.TaskRemove:
		if _, err = t.exec(dropRuns, id); err == nil {
			_, err = t.exec(dropTask, id)
		}
		if state != corebot.TaskDone {
			t.total.tasks--
		}
	case action == corebot.TaskRunNow:
		due := t.now.Truncate(time.Second)
		run := was
		run.Chain = max(was.Chain, e.Chain+1)
		if _, err = s.publishTx(t, run, due); err == nil {
			_, err = t.exec(ranTask, due, id)
		}
	default:
		return was, corebot.WithHint(fmt.Errorf("%w: task %d is %s: it cannot be changed by %s", corebot.ErrInvalid, id,
			state,
			action), "look at it with tasks.list or `corebot tasks show`")
	}
	if err != nil {
		return was, err
	}
	t.planned = true
	return was, s.noteTx(t, "task."+string(action), was, nil)
}
