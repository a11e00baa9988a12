package storage

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// makeTask stores a task that is due at once.
func makeTask(t *testing.T, db *DB, change func(*corebot.Task)) corebot.Task {
	t.Helper()
	task := testTask(corebot.Principal{Channel: "test", ID: "ada"})
	task.NextRun = time.Now()
	if change != nil {
		change(&task)
	}
	task, err := NewTasks(db).Create(t.Context(), task, corebot.TaskLimits{})
	must(t, err)
	return task
}

// fire publishes the due time of a task, and claims its message.
func fire(t *testing.T, db *DB, task corebot.Task) corebot.Delivery {
	t.Helper()
	refused, err := NewTasks(db).Fire(t.Context(), []corebot.Firing{{
		Task: task, Due: task.NextRun, Next: task.NextRun.Add(time.Hour),
	}})
	must(t, err)
	must(t, refused[0])
	return claimOf(t, db, task.Key.Chat)
}

// TestAnIsolatedRunUsesUpNoNoticeOfItsChat lets such a run pass between a reply that was given up and the next turn.
func TestAnIsolatedRunUsesUpNoNoticeOfItsChat(t *testing.T) {
	for context, want := range map[corebot.TaskContext]int{corebot.TaskIsolated: 1, corebot.TaskInChat: 0} {
		t.Run(string(context), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := openTest(t, t.TempDir())
				dialogue(t, db, "there", "t1", "hello", "hi")
				deadReply(t, db, "there", "lost")
				task := makeTask(t, db, func(task *corebot.Task) { task.Context = context })
				time.Sleep(time.Millisecond) // claims and deaths of one millisecond count as the claim first
				ends(t, db, fire(t, db, task), corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered})
				publishTest(t, db, "there", "t2")
				found, _, err := NewHistory(db).Recall(t.Context(), claimOf(t, db, "there"), 5)
				if err != nil || len(found.Undelivered) != want {
					t.Errorf("the next turn is told of %d replies, %v; want %d", len(found.Undelivered), err, want)
				}
			})
		})
	}
}

// TestTheMakerOfATaskIsKnownInAnotherChannel looks at the chat of a task whose maker belongs to another channel, as an
// operator does. A stranger of the chat's own channel has the same id.
func TestTheMakerOfATaskIsKnownInAnotherChannel(t *testing.T) {
	db := openTest(t, t.TempDir())
	maker := corebot.Principal{Channel: corebot.TerminalChannel, Account: corebot.TerminalAccount, ID: "1000"}
	task := makeTask(t, db, func(task *corebot.Task) { task.Creator = maker })
	d := fire(t, db, task)
	same := corebot.Principal{Channel: task.Key.Channel, Account: task.Key.Account, ID: maker.ID}
	look := func(when string) {
		t.Helper()
		for p, own := range map[corebot.Principal]bool{maker: true, same: false} {
			shared, err := NewLives(db).Shared(t.Context(), task.Key, p)
			must(t, err)
			if shared == own {
				t.Errorf("%s: for %s the chat has others: %t", when, p, shared)
			}
			life, err := NewLives(db).InChat(t.Context(), task.Key, "", p)
			if found := err == nil && life.ID == d.Life && life.Sender == p; found != own {
				t.Errorf("%s: the newest message of %s is %+v, %v", when, p, life, err)
			}
		}
	}
	look("while it waits")
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	look("when it is dead")
	for p, own := range map[corebot.Principal]bool{maker: true, same: false} {
		dead, err := NewDeadLetters(db).Meant(t.Context(), task.Key, "", p)
		if found := err == nil && dead.ID == d.Life; found != own {
			t.Errorf("the newest dead letter of %s is %+v, %v", p, dead, err)
		}
	}
}

func TestTheCountOfOpenTasksFollowsTheTable(t *testing.T) {
	db := openTest(t, t.TempDir())
	tasks := NewTasks(db)
	change := func(task corebot.Task, a corebot.TaskAction) {
		_, err := tasks.Change(t.Context(), task.ID, 0, a, time.Now())
		must(t, err)
	}
	done, again, gone, paused := makeTask(t, db, nil), makeTask(t, db, nil), makeTask(t, db, nil), makeTask(t, db, nil)
	change(paused, corebot.TaskPause)
	_, err := tasks.Create(t.Context(), done, corebot.TaskLimits{Total: 4})
	if !errors.Is(err, corebot.ErrTooManyTasks) {
		t.Errorf("a fifth task: %v", err)
	}
	for task, next := range map[*corebot.Task]time.Time{&done: {}, &again: time.Now().Add(time.Hour)} {
		for range 2 { // the second one finds another version
			_, err := tasks.Fire(t.Context(), []corebot.Firing{{Task: *task, Due: task.NextRun, Next: next}})
			must(t, err)
		}
	}
	for _, task := range []corebot.Task{done, gone, paused} {
		change(task, corebot.TaskRemove)
	}
	must(t, db.write(t.Context(), "count", func(tx *tx) error {
		read, err := readState(tx.conn, &tally{})
		if tx.total.tasks != 1 || read.total.tasks != 1 {
			t.Errorf("the writer counts %d open tasks, and would read %d", tx.total.tasks, read.total.tasks)
		}
		return err
	}))
}

func TestTheLimitsOfTasksReadNoTaskThatIsDone(t *testing.T) {
	path := planned(t)
	for index, q := range map[string]*query{"tasks_chat_open": countTasksOfChat, "tasks_creator": countTasksOf} {
		if got := plan(t, path, q); !strings.Contains(got, "COVERING INDEX "+index) {
			t.Errorf("%s is not read:\n%s", index, got)
		}
	}
}
