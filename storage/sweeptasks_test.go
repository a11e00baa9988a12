package storage

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// A chat that sets reminders every day leaves nothing behind for ever. A task stays while it can be due, while it was
// done a short time ago, and while the message of a run needs it.
func TestATaskThatIsDoneIsForgottenWithItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		tasks := NewTasks(db)
		begin := time.Now()
		add := func(chat string, next time.Time) corebot.Task {
			task, err := tasks.Create(t.Context(), corebot.Task{
				Name: chat, Key: testKey(chat), Prompt: "tea", Context: corebot.TaskInChat, Anchor: begin,
				Creator: corebot.Principal{Channel: "test", ID: "ann"}, NextRun: next,
			}, corebot.TaskLimits{})
			must(t, err)
			return task
		}
		fire := func(task corebot.Task, next time.Time) {
			refused, err := tasks.Fire(t.Context(), []corebot.Firing{{Task: task, Due: task.NextRun, Next: next}})
			must(t, err)
			must(t, refused[0])
		}
		finish := func(verb corebot.OutcomeVerb, end corebot.End) {
			must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{Verb: verb, End: end}))
		}
		fire(add("over", begin), time.Time{})
		finish(corebot.Done, corebot.EndAnswered)
		fire(add("dead", begin), time.Time{})
		finish(corebot.Dead, corebot.EndDead)
		fire(add("ran", begin), time.Time{})
		finish(corebot.Done, corebot.EndAnswered)
		fire(add("active", begin), begin.Add(90*day))
		finish(corebot.Done, corebot.EndAnswered)
		paused := add("paused", begin.Add(time.Hour))
		_, err := tasks.Change(t.Context(), paused.ID, 0, corebot.TaskPause, time.Time{})
		must(t, err)
		fire(add("waits", begin), time.Time{})
		again := add("again", begin)

		time.Sleep(20 * day)
		fire(again, time.Time{})
		retention := keeping(t, db, RetentionOptions{Messages: 30 * day, Dedupe: day})
		names := func() []string { return sideQuery(t, dir, `SELECT name FROM tasks ORDER BY id`) }
		must(t, retention.Sweep(t.Context()))
		if n := len(names()); n != 7 {
			t.Fatalf("after 20 days %d tasks are left", n)
		}
		sideQuery(t, dir, `UPDATE tasks SET last_run = ? WHERE name = 'ran'`, time.Now().UnixMilli()) // by hand
		// more runs than one operation deletes
		sideQuery(t, dir, `INSERT INTO task_runs (task_id, due, published_at, life_id) WITH RECURSIVE n(i) AS
			(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 450) SELECT 1, i, 0, 0 FROM n`)
		time.Sleep(15 * day)
		must(t, retention.Sweep(t.Context()))
		if got := names(); !slices.Equal(got, []string{"dead", "ran", "active", "paused", "waits", "again"}) {
			t.Errorf("after 35 days there are %v", got)
		}
		if n := sideQuery(t, dir, `SELECT COUNT(*) FROM task_runs WHERE task_id = 1`); n[0] != "0" {
			t.Errorf("%s runs of the task are left", n[0])
		}
		wantWhole(t, db)
	})
}

// A task whose maker or speakers cannot be read would run as somebody else.
func TestADamagedTaskCanOnlyBePausedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	tasks := NewTasks(db)
	task, err := tasks.Create(t.Context(), corebot.Task{
		Key: testKey("a"), Prompt: "tea", Context: corebot.TaskInChat, NextRun: time.Now().Add(time.Hour),
		Creator: corebot.Principal{Channel: "test", ID: "ann"},
	}, corebot.TaskLimits{})
	must(t, err)
	sideQuery(t, dir, `UPDATE tasks SET others = '{'`)
	for _, c := range []struct {
		action corebot.TaskAction
		want   error
	}{
		{corebot.TaskRunNow, corebot.ErrInvalid},
		{corebot.TaskPause, nil},
		{corebot.TaskResume, corebot.ErrInvalid},
		{corebot.TaskRemove, nil},
	} {
		_, err := tasks.Change(t.Context(), task.ID, 0, c.action, time.Now().Add(time.Hour))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.action, err)
		}
	}
}
