package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// A due time of a task becomes a message, and the end of this message ends the run. Each is one commit.

// publishTx publishes a due time of a task: the message and the run. A due time that was published before is left as
// it is. Without room the error is that of the bus.
func (s *Tasks) publishTx(t *tx, task corebot.Task, due time.Time) (life int64, err error) {
	message := pack([]corebot.Message{task.Message(due)})
	r, err := publishTx(t, &message[0], s.db.limits.ForTasks())
	if err == nil && errors.Is(r.Err, corebot.ErrConflict) { // an earlier version of Corebot wrote it in other words
		return r.Life, nil
	}
	if err != nil || r.Err != nil {
		return 0, errors.Join(err, r.Err)
	}
	if r.Duplicate {
		return r.Life, nil
	}
	if _, err := t.exec(insertRun, task.ID, due, t.now, r.Life, int64(0), ""); err != nil {
		return 0, err
	}
	_, err = t.exec(trimRuns, task.ID, keptRuns-1)
	return r.Life, err
}

// Due gives the tasks that are due at a moment, the earliest first, at most limit of them. A further page begins behind
// the task after; the zero task means the first page.
func (s *Tasks) Due(ctx context.Context, now time.Time, after corebot.Task, limit int) ([]corebot.Task, error) {
	place := int64(math.MinInt64)
	if !after.NextRun.IsZero() {
		place = after.NextRun.UnixMilli()
	}
	found, err := s.list(ctx, dueTasks, now, place, after.ID, limit)
	if err == nil || ctx.Err() != nil || !ofSQLite(err) || !ofTheFile(err) {
		return found, err
	}
	return s.dueOneByOne(ctx, now, place, after.ID, limit)
}

// duePlaces reads the index alone: the rows of some tasks cannot be read.
var duePlaces = &query{`SELECT id, next_run FROM tasks INDEXED BY tasks_due WHERE state = 'active'
	AND next_run IS NOT NULL AND next_run <= ?1 AND (next_run, id) > (?2, ?3) ORDER BY next_run, id LIMIT ?4 + 0`}

// dueOneByOne is [Tasks.Due] where a part of the table is damaged. A task that cannot be read is given as damaged, so
// that the others run.
func (s *Tasks) dueOneByOne(ctx context.Context, now time.Time, place, id int64, limit int) (all []corebot.Task,
	err error,
) {
	err = s.db.reader.each(ctx, duePlaces, func(row scanner) error {
		var t corebot.Task
		err := row.Scan(&t.ID, moment{&t.NextRun})
		all = append(all, t)
		return err
	}, now, place, id, limit)
	if err != nil {
		return nil, err
	}
	return all, s.oneByOne(ctx, all)
}

// oneByOne reads each of some tasks. A task that cannot be read is marked as damaged.
func (s *Tasks) oneByOne(ctx context.Context, all []corebot.Task) error {
	for i := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		found, bad := s.list(ctx, taskByID, all[i].ID)
		switch {
		case bad == nil && len(found) == 1:
			all[i] = found[0]
		case bad != nil && !(ofSQLite(bad) && ofTheFile(bad)):
			return bad
		default:
			all[i].Damaged = fmt.Errorf("task %d cannot be read: %w", all[i].ID, cmp.Or(bad, corebot.ErrNotFound))
		}
	}
	return nil
}

// taskPlaces reads the index alone.
var taskPlaces = &query{`SELECT id, agent, channel, account, chat, thread FROM tasks INDEXED BY tasks_chat
	WHERE id > ?1 AND (?2 = '' OR agent = ?2) AND (?3 = '' OR chat = ?3 AND channel = ?4 AND account = ?5
	AND thread = ?6) ORDER BY id LIMIT ?7 + 0`}

// List is [Tasks.Page] for an operator, by agent, chat and state. Where a part of the table is damaged, it gives the
// other tasks, and each task that cannot be read as damaged, whatever its state. Such a page can be shorter than limit.
func (s *Tasks) List(ctx context.Context, f corebot.TaskFilter, after string, limit int) (out []corebot.Task,
	next string, err error,
) {
	out, next, err = s.Page(ctx, f, after, limit)
	if err == nil || ctx.Err() != nil || !ofSQLite(err) || !ofTheFile(err) {
		return out, next, err
	}
	var id int64
	if err := behind(after, "tasks", &id); err != nil {
		return nil, "", err
	}
	var all []corebot.Task
	k := f.Key
	err = s.db.reader.each(ctx, taskPlaces, func(row scanner) error {
		t := corebot.Task{}
		err := row.Scan(&t.ID, &t.Key.Agent, &t.Key.Channel, &t.Key.Account, &t.Key.Chat, &t.Key.Thread)
		all = append(all, t)
		return err
	}, id, cmp.Or(k.Agent, f.Agent), k.Chat, k.Channel, k.Account, k.Thread, limit)
	if err == nil {
		err = s.oneByOne(ctx, all)
	}
	if err != nil {
		return nil, "", err
	}
	next = nextPage(all, limit, func(t corebot.Task) string { return cursor("tasks", t.ID) })
	return slices.DeleteFunc(all, func(t corebot.Task) bool {
		return t.Damaged == nil && f.State != "" && t.State != f.State
	}), next, nil
}

// runningTasks counts runs whose messages a worker has, or could have now: the heads of lanes that are leased or ready.
var runningTasks = &query{`SELECT COUNT(*) FROM (SELECT 1 FROM task_runs r INDEXED BY task_runs_open
	JOIN message_queue q ON q.life_id = r.life_id JOIN lanes l ON l.id = q.lane_id
	WHERE r.ended_at = 0 AND r.life_id > 0
	AND (l.leased = 1 OR l.wake_at <= ?1 AND l.waiting = '' AND l.held_for IS NULL)
	AND NOT EXISTS (SELECT 1 FROM message_queue h WHERE h.lane_id = l.id AND h.seq > l.past AND h.seq < q.seq)
	LIMIT ?2 + 0)`}

// Running is how many runs a worker has, or could have now, counted up to most. A run that waits for something else,
// such as an approval, a backoff or another message of its chat, is not counted.
func (s *Tasks) Running(ctx context.Context, most int) (n int, err error) {
	_, err = s.db.reader.one(ctx, runningTasks, []any{&n}, s.db.clock.now(), most)
	return n, err
}

// NextDue is when the next task behind a moment is due; ok is false if none ever is.
func (s *Tasks) NextDue(ctx context.Context, after time.Time) (at time.Time, ok bool, err error) {
	_, err = s.db.reader.one(ctx, firstDue, []any{moment{&at}}, after)
	return at, !at.IsZero(), err
}

// Changed receives after commits that have changed when tasks are due.
func (s *Tasks) Changed() <-chan struct{} { return s.db.planned }

// Now is the wall clock by which tasks are due.
func (s *Tasks) Now() time.Time { return s.db.clock.now() }

// Fire publishes due times and advances their tasks, in one commit. A task that has changed since it was read is left
// alone. The errors are in the order of the firings, and each leaves its task due: that of a task without room is
// [corebot.ErrLaneFull] or the like. If one due time cannot be published, each has a commit of its own.
func (s *Tasks) Fire(ctx context.Context, firings []corebot.Firing) (refused []error, err error) {
	if refused, err = s.fireTogether(ctx, firings); err == nil || !ofOneFiring(err) {
		return refused, err
	}
	refused = make([]error, len(firings))
	for i := range firings {
		one, err := s.fireTogether(ctx, firings[i:i+1])
		switch {
		case err == nil:
			refused[i] = one[0]
		case ofOneFiring(err):
			refused[i] = err
		default:
			return nil, err
		}
	}
	return refused, nil
}

func (s *Tasks) fireTogether(ctx context.Context, firings []corebot.Firing) (refused []error, err error) {
	err = s.db.write(ctx, "tasks.fire", func(t *tx) error {
		refused = make([]error, len(firings))
		for i, f := range firings {
			err := s.fireTx(t, f)
			if err != nil && !noRoom(err) {
				return err
			}
			refused[i] = err
		}
		return nil
	})
	return refused, err
}

// ofOneFiring says whether an error is of one task, its chat or its rows. Any other error would be that of all tasks.
func ofOneFiring(err error) bool {
	return corebot.Unstorable(err) || ofSQLite(err) && ofTheFile(err)
}

func (s *Tasks) fireTx(t *tx, f corebot.Firing) error {
	var version int64
	var state string
	if _, err := t.one(versionOfTask, []any{&version, &state}, f.Task.ID); err != nil {
		return err
	}
	if version != f.Task.Version || state != string(corebot.TaskActive) {
		return nil
	}
	if f.Fault != "" {
		if _, err := t.exec(setTask, string(corebot.TaskPaused), f.Fault, nil, f.Task.Anchor, int64(0),
			f.Task.ID); err != nil {
			return err
		}
		return tellPausedTx(t, f.Task, f.Fault, f.Tell, 0)
	}
	switch {
	case f.Skip:
	case f.Missed:
		if _, err := t.exec(insertRun, f.Task.ID, f.Due, t.now, int64(0), t.now, corebot.RunMissed); err != nil {
			return err
		}
	default:
		if _, err := s.publishTx(t, f.Task, f.Due); err != nil {
			return err
		}
	}
	if t.taskLate > 0 && !f.Skip {
		n := corebot.Kept{Good: 1}
		if f.Missed || t.now.Sub(f.Due) > t.taskLate {
			n = corebot.Kept{Bad: 1}
		}
		if err := keptTx(t, corebot.ObjectiveTasks, t.now, n); err != nil {
			return err
		}
	}
	advanced, err := t.exec(advanceTask, f.Due, orNull(f.Next), t.now, f.Task.ID, version)
	if f.Next.IsZero() {
		t.total.tasks -= advanced // it is done
	}
	return err
}

var versionOfTask = &query{`SELECT version, state FROM tasks WHERE id = ?`}

// Plan sets the next due time of tasks anew, such as after the wall clock was set back. A task that has changed since
// it was read is left alone.
func (s *Tasks) Plan(ctx context.Context, tasks []corebot.Task) error {
	return s.db.write(ctx, "tasks.plan", func(t *tx) error {
		for _, task := range tasks {
			if _, err := t.exec(planTask, orNull(task.NextRun), task.ID, task.Version); err != nil {
				return err
			}
		}
		t.planned = true
		return nil
	})
}

// endRunTx notes how the message of a due task ended, in the commit that ends it. A task whose runs keep failing is
// paused, and its chat is told.
func endRunTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	e := d.Message.Errand
	if e == nil {
		return nil
	}
	t.planned = true // there is room for another run
	if _, err := t.exec(endRun, string(o.End), runes.Head(o.Error, maxRunError), t.now, e.Task, e.Due); err != nil {
		return err
	}
	if o.End != corebot.EndDead {
		_, err := t.exec(fineTask, e.Task)
		return err
	}
	if _, err := t.exec(failTask, e.Task); err != nil || t.taskEnds == 0 {
		return err
	}
	reason := fmt.Sprintf("%d runs in a row failed", t.taskEnds)
	n, err := t.exec(pauseTask, reason, e.Task, t.taskEnds)
	if err != nil || n == 0 {
		return err
	}
	task := corebot.Task{ID: e.Task, Name: e.Name, Key: d.Message.Key}
	return tellPausedTx(t, task, reason, task.Key, d.Life)
}

// tellPausedTx tells a conversation of a task that Corebot has paused, and leaves an audit event. The zero Key is no
// conversation. cause is the life whose end has paused the task; 0: none.
func tellPausedTx(t *tx, task corebot.Task, reason string, to corebot.Key, cause int64) error {
	t.planned = true
	by := corebot.AuditEvent{Entry: corebot.EntryItself}
	err := (&Tasks{by: by}).noteTx(t, "task.pause", task, map[string]any{"reason": reason})
	if err != nil || to == (corebot.Key{}) {
		return err
	}
	what, command := fmt.Sprintf("Task %d", task.ID), fmt.Sprintf("/tasks resume %d", task.ID)
	if task.Name != "" {
		what += fmt.Sprintf(" (%s)", task.Name)
	}
	notice := corebot.Notice{Kind: corebot.NoticeTask}
	if to == task.Key {
		notice.Actions = []corebot.Action{{Name: "resume", Label: "Resume", Command: command}}
	} else {
		what, command = what+" of "+task.Key.String(), fmt.Sprintf("`corebot tasks resume %d`", task.ID)
	}
	return noticeTx(t, &pack([]corebot.Message{{
		ID: corebot.OwnID("task", task.ID, "paused", t.now.UnixMilli()), Direction: corebot.Outbound, Key: to,
		Kind: corebot.KindNotice, Notice: &notice,
		Parts: corebot.TextPart(fmt.Sprintf("%s is paused, because %s. %s starts it again.", what, reason, command)),
	}})[0], cause)
}

// maxRunError is how many bytes of an error a run keeps.
const maxRunError = 500

// taskOver is true for a task k that is done, and last ran, before a moment. A run whose message waits or is a dead
// letter keeps its task.
const taskOver = `k.state = 'done' AND MAX(k.ended_at, k.last_run) < ?
	AND NOT EXISTS (SELECT 1 FROM task_runs o JOIN message_life m ON m.id = o.life_id
	  WHERE o.task_id = k.id AND m."end" IN ('', 'dead'))`

var (
	newestTask    = &query{`SELECT COALESCE(MAX(id), 0) FROM tasks`}
	overTasks     = &query{`SELECT k.id, ` + taskOver + ` FROM tasks k WHERE k.id > ? ORDER BY k.id LIMIT ? + 0`}
	dropOverTasks = &query{`DELETE FROM tasks AS k WHERE k.id BETWEEN ? AND ? AND ` + taskOver}
	dropOverRuns  = &query{`DELETE FROM task_runs WHERE (task_id, due) IN (
		SELECT r.task_id, r.due FROM tasks k JOIN task_runs r ON r.task_id = k.id WHERE k.id BETWEEN ? AND ?
		AND ` + taskOver + ` LIMIT ? + 0)`}
)

// sweepTasks deletes tasks that are done, with their runs.
func (r *Retention) sweepTasks(ctx context.Context, before time.Time) error {
	return r.tasks.pass(ctx, r, newestTask, func(after int64) (rows int, last int64, err error) {
		over := false
		err = r.db.reader.each(ctx, overTasks, func(s scanner) error {
			var this bool
			err := s.Scan(&last, &this)
			rows, over = rows+1, over || this
			return err
		}, before, after, sweepRows)
		for more := over; more && err == nil; {
			err = r.drop(ctx, "tasks", func(t *tx) (int64, error) {
				runs, err := t.exec(dropOverRuns, after+1, last, before, sweepRows)
				if more = runs == sweepRows; more || err != nil {
					return 0, err
				}
				return t.exec(dropOverTasks, after+1, last, before)
			})
		}
		return rows, last, err
	})
}
