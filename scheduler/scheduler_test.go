package scheduler

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

// rig is a scheduler on a real database, in the virtual time of a bubble. A test can step its wall clock.
type rig struct {
	*storage.Tasks
	dir    string
	t      *testing.T
	db     *storage.DB
	skew   atomic.Int64
	stop   func()
	limits corebot.Limits
}

func (r *rig) Now() time.Time { return time.Now().Round(0).Add(time.Duration(r.skew.Load())) }

func (r *rig) step(d time.Duration) { r.skew.Add(int64(d)) }

func newRig(t *testing.T, o storage.Options) *rig {
	t.Helper()
	dir := t.TempDir()
	db, err := storage.Open(t.Context(), dir, o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Run(ctx)
	}()
	r := &rig{Tasks: storage.NewTasks(db), dir: dir, t: t, db: db, limits: o.Limits}
	t.Cleanup(func() {
		if r.stop != nil {
			r.stop()
		}
		cancel()
		<-ended
		must(t, db.Close())
	})
	return r
}

// start runs the scheduler until the test ends or stop is called.
func (r *rig) start(o Options) {
	r.t.Helper()
	s, err := New(r, o)
	must(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r.stop = func() {
		cancel()
		must(r.t, <-ended)
		r.stop = nil
	}
	synctest.Wait()
}

var creator = corebot.Principal{Channel: "test", ID: "someone"}

func (r *rig) add(kind corebot.TaskKind, spec string) corebot.Task {
	r.t.Helper()
	return r.addTo("chat", kind, spec)
}

func (r *rig) addTo(chat string, kind corebot.TaskKind, spec string) corebot.Task {
	r.t.Helper()
	now := r.Now()
	s := corebot.Schedule{Kind: kind, Spec: spec}
	rule, err := Parse(s, now)
	must(r.t, err)
	next, _ := rule.Next(now)
	task, err := r.Create(r.t.Context(), corebot.Task{
		Key: corebot.Key{Agent: corebot.DefaultAgent, Channel: "test", Chat: chat}, Schedule: s,
		Prompt:  "water the plants",
		Context: corebot.TaskInChat, Creator: creator, Anchor: now, NextRun: next,
	}, corebot.TaskLimits{})
	must(r.t, err)
	return task
}

// claim takes a message, or gives a zero delivery if none comes within a time.
func (r *rig) claim(patience time.Duration) corebot.Delivery {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	ds, err := storage.NewQueue(r.db).Claim(ctx, corebot.InboundPool, 1,
		corebot.ClaimOptions{Lease: 24 * 365 * time.Hour})
	if errors.Is(err, context.DeadlineExceeded) {
		return corebot.Delivery{}
	}
	must(r.t, err)
	return ds[0]
}

func (r *rig) end(d corebot.Delivery, o corebot.Outcome) {
	r.t.Helper()
	must(r.t, storage.NewQueue(r.db).Settle(r.t.Context(), d, o))
}

var answered = corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}

// runs gives the outcomes of a task's runs, newest first.
func (r *rig) runs(task int64) (outcomes []string) {
	r.t.Helper()
	runs, err := r.Runs(r.t.Context(), task, time.Time{}, 1000)
	must(r.t, err)
	for _, run := range runs {
		outcomes = append(outcomes, run.Outcome)
	}
	return outcomes
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestATaskRunsAtItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it begins at midnight of 2000-01-01, UTC
		r := newRig(t, storage.Options{})
		r.start(Options{})
		task := r.add(corebot.TaskDaily, "08:30")
		for day := 1; day <= 3; day++ {
			d := r.claim(25 * time.Hour)
			want := time.Date(2000, 1, day, 8, 30, 0, 0, time.UTC)
			if now := time.Now(); d.Life == 0 || now.Sub(want).Abs() > time.Second {
				t.Fatalf("day %d: message %q at %s, want it at %s", day, d.Message.ID, now.UTC(), want)
			}
			c := d.Caller()
			if c.Principal != creator || c.Entry.Kind != corebot.EntryTask || c.Entry.Interactive() ||
				d.Message.Text() != "water the plants" || !d.Message.Errand.Due.Equal(want) ||
				d.Message.Errand.Task != task.ID {
				t.Errorf("the message is %+v for %+v", d.Message, c)
			}
			r.end(d, answered)
		}
		if got := r.runs(task.ID); !slices.Equal(got, []string{"answered", "answered", "answered"}) {
			t.Errorf("the runs ended as %q", got)
		}
	})
}

func TestASingleTimeIsDueOnceAndTheTaskIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		r.start(Options{})
		task := r.add(corebot.TaskOnce, "2000-01-01T00:10")
		r.end(r.claim(11*time.Minute), answered)
		if d := r.claim(3 * 24 * time.Hour); d.Life != 0 {
			t.Errorf("it came again: %s", d.Message.ID)
		}
		task, err := r.Task(t.Context(), task.ID)
		must(t, err)
		if task.State != corebot.TaskDone || !task.NextRun.IsZero() || task.LastEnd != "answered" {
			t.Errorf("the task is %+v", task)
		}
	})
}

func TestAWeekOfDownTimeIsCaughtUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		every := r.addTo("interval", corebot.TaskInterval, "10m")
		daily := r.addTo("daily", corebot.TaskDaily, "08:30")
		once := r.addTo("once", corebot.TaskOnce, "2000-01-02T12:00")
		yearly := r.addTo("missed", corebot.TaskCron, "0 0 2 1 *")
		time.Sleep(7*24*time.Hour + time.Minute)
		r.start(Options{MaxLate: 24 * time.Hour})
		due := map[int64]string{}
		for range 3 {
			d := r.claim(time.Second)
			if d.Life == 0 {
				t.Fatal("too little was caught up")
			}
			due[d.Message.Errand.Task] = d.Message.Errand.Due.Format("01-02 15:04")
			r.end(d, answered)
		}
		want := map[int64]string{every.ID: "01-08 00:00", daily.ID: "01-07 08:30", once.ID: "01-02 12:00"}
		if fmt.Sprint(due) != fmt.Sprint(want) {
			t.Errorf("caught up %v, want %v", due, want)
		}
		if d := r.claim(8 * time.Minute); d.Life != 0 {
			t.Errorf("more was caught up: %s", d.Message.ID)
		}
		if got := r.runs(yearly.ID); !slices.Equal(got, []string{corebot.RunMissed}) {
			t.Errorf("the due time of last week ended as %q", got)
		}
	})
}

func TestAWallClockThatIsSetRunsNothingTwiceAndLosesNothing(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, storage.Options{})
				r.start(Options{})
				r.add(corebot.TaskInterval, "30m")
				seen := map[string]bool{}
				take := func(patience time.Duration) bool {
					t.Helper()
					d := r.claim(patience)
					if d.Life == 0 {
						return false
					}
					if seen[d.Message.ID] {
						t.Errorf("%s ran twice", d.Message.ID)
					}
					seen[d.Message.ID] = true
					r.end(d, answered)
					return true
				}
				if !take(31 * time.Minute) {
					t.Fatal("nothing was due")
				}
				r.step(jump) // forward: one catch-up, within the time between two looks
				if !take(2 * look) {
					t.Error("a clock that was set ahead made nothing due")
				}
				if take(20 * time.Minute) {
					t.Error("a clock that was set ahead made more due than once")
				}
				r.step(-jump) // back: the next due time is one of the hour to come
				if !take(time.Hour + 2*look) {
					t.Error("after the clock was set back, nothing was due for an hour")
				}
			})
		})
	}
}

func TestATaskThatWasMadeByAClockAheadGoesOnAfterItIsSetBack(t *testing.T) {
	for _, spec := range []corebot.Schedule{
		{Kind: corebot.TaskInterval, Spec: "30m"},
		{Kind: corebot.TaskCron, Spec: "*/30 * * * *"},
	} {
		t.Run(string(spec.Kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, storage.Options{})
				r.start(Options{})
				const jump = 10*365*24*time.Hour + 7*time.Minute
				r.step(jump)
				r.add(spec.Kind, spec.Spec)
				synctest.Wait() // the scheduler has seen the clock ahead
				r.step(-jump)
				for n := range 4 {
					d := r.claim(31*time.Minute + 2*look)
					if d.Life == 0 {
						t.Fatalf("only %d due times came in two hours", n)
					}
					if due := d.Message.Errand.Due; due.After(r.Now()) {
						t.Errorf("the due time %v was published at %v", due, r.Now())
					}
					r.end(d, answered)
				}
			})
		})
	}
}

func TestAPausedTaskIsNotDueAndGoesOnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		r.start(Options{})
		task := r.add(corebot.TaskInterval, "10m")
		_, err := r.Change(t.Context(), task.ID, 0, corebot.TaskPause, time.Time{})
		must(t, err)
		if d := r.claim(time.Hour); d.Life != 0 {
			t.Fatal("a paused task ran")
		}
		_, err = r.Change(t.Context(), task.ID, 0, corebot.TaskResume, time.Now().Add(10*time.Minute))
		must(t, err)
		if d := r.claim(11 * time.Minute); d.Life == 0 {
			t.Fatal("a resumed task did not run")
		}
		if _, err = r.Change(t.Context(), task.ID, 0, corebot.TaskResume, time.Now()); !errors.Is(err,
			corebot.ErrInvalid) {
			t.Errorf("resumed twice: %v", err)
		}
		_, err = r.Change(t.Context(), task.ID, 0, corebot.TaskRemove, time.Time{})
		must(t, err)
		if _, err := r.Task(t.Context(), task.ID); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("a removed task: %v", err)
		}
	})
}

func TestATaskWhoseRunsKeepFailingIsPausedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{TaskFailures: 3})
		r.start(Options{})
		task := r.add(corebot.TaskInterval, "10m")
		fail := corebot.Outcome{Verb: corebot.Dead, Reason: "permanent", Error: "the key was refused"}
		for n, outcome := range []corebot.Outcome{fail, fail, answered, fail, fail, fail} {
			d := r.claim(11 * time.Minute)
			if d.Life == 0 {
				t.Fatalf("run %d did not come", n)
			}
			r.end(d, outcome)
		}
		if d := r.claim(time.Hour); d.Life != 0 {
			t.Error("it ran a fourth time in a row")
		}
		task, err := r.Task(t.Context(), task.ID)
		must(t, err)
		if task.State != corebot.TaskPaused || task.Reason != "3 runs in a row failed" || task.LastEnd != "dead" {
			t.Errorf("the task is %+v", task)
		}
		ds, err := storage.NewQueue(r.db).Claim(t.Context(), corebot.PoolOf(corebot.Outbound, task.Key), 1,
			corebot.ClaimOptions{Lease: time.Minute})
		must(t, err)
		if text := ds[0].Message.Text(); text != "Task 1 is paused, because 3 runs in a row failed. "+
			"/tasks resume 1 starts it again." {
			t.Errorf("the chat is told %q", text)
		}
		runs, err := r.Runs(t.Context(), task.ID, time.Time{}, 1)
		must(t, err)
		if runs[0].Error != "the key was refused" || runs[0].EndedAt.IsZero() {
			t.Errorf("the newest run is %+v", runs[0])
		}
	})
}

// TestATaskWithoutRoomStaysDue fills the queue: the due time waits, and the others go on.
func TestATaskWithoutRoomStaysDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{Limits: corebot.Limits{LaneDepth: 1}})
		var log bytes.Buffer
		r.start(Options{Log: zerolog.New(&log)})
		r.addTo("full", corebot.TaskOnce, "2000-01-01T00:10")
		r.addTo("full", corebot.TaskOnce, "2000-01-01T00:11")
		r.addTo("other", corebot.TaskOnce, "2000-01-01T00:12")
		time.Sleep(15 * time.Minute)
		first, other := r.claim(time.Second), r.claim(time.Second)
		if first.Message.Key.Chat != "full" || other.Message.Key.Chat != "other" {
			t.Fatalf("claimed %v and %v", first.Message.Key, other.Message.Key)
		}
		r.end(first, answered)
		if d := r.claim(2 * retryAfter); d.Message.Key.Chat != "full" {
			t.Errorf("the task that had no room did not run")
		}
		r.stop()
		// the passes in between, one every ten seconds, met the same
		if n := bytes.Count(log.Bytes(), []byte("could not be published")); n != 1 || !bytes.Contains(log.Bytes(),
			[]byte("published again")) {
			t.Errorf("the want of room stands %d times in the log:\n%s", n, log.Bytes())
		}
	})
}

// TestATaskThatCannotBeStoredHoldsNoOther has the database refuse every row that names one of the tasks.
func TestATaskThatCannotBeStoredHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		side, err := sql.Open("sqlite", filepath.Join(r.dir, storage.FileName)+"?_pragma=busy_timeout(5000)")
		must(t, err)
		_, err = side.Exec(`CREATE TRIGGER refuses BEFORE INSERT ON message_life
			WHEN NEW.message_id GLOB 'corebot:task/2/*' BEGIN SELECT RAISE(ABORT, 'no'); END`)
		must(t, errors.Join(err, side.Close()))
		for _, chat := range []string{"a", "b", "c"} {
			r.addTo(chat, corebot.TaskDaily, "00:10")
		}
		r.start(Options{})
		time.Sleep(10 * time.Minute)
		for _, chat := range []string{"a", "c"} {
			if d := r.claim(time.Second); d.Message.Key.Chat != chat {
				t.Errorf("claimed the message of %q, want that of %q", d.Message.Key.Chat, chat)
			}
		}
		synctest.Wait()
		task, err := r.Task(t.Context(), 2)
		must(t, err)
		if task.State != corebot.TaskPaused || !strings.Contains(task.Reason, "its message cannot be stored: ") {
			t.Errorf("the task is %+v", task)
		}
	})
}

func TestTasksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		task := r.add(corebot.TaskInterval, "10m")
		for name, limits := range map[string]corebot.TaskLimits{
			"this chat": {PerChat: 1}, "this person": {PerCreator: 1}, "all chats": {Total: 1},
		} {
			if _, err := r.Create(t.Context(), task, limits); !errors.Is(err, corebot.ErrTooManyTasks) {
				t.Errorf("beyond the limit of %s: %v", name, err)
			}
		}
		for name, task := range map[string]corebot.Task{
			"no prompt": {Key: task.Key, Context: corebot.TaskInChat},
			"a long prompt": {Key: task.Key, Context: corebot.TaskInChat, Prompt: string(make([]byte,
				corebot.MaxTaskPrompt+1))},
			"no context": {Key: task.Key, Prompt: "x"},
			"no chat":    {Prompt: "x", Context: corebot.TaskIsolated},
			"a bad name": {Key: task.Key, Prompt: "x", Context: corebot.TaskInChat, Name: "a\nb"},
		} {
			if _, err := r.Create(t.Context(), task, corebot.TaskLimits{}); err == nil {
				t.Errorf("%s was taken", name)
			}
		}
	})
}

// TestNothingWakesWhereNoTaskWaits counts the looks at the store in a day.
func TestNothingWakesWhereNoTaskWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		c := &counted{Store: r}
		s, err := New(c, Options{})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(24 * time.Hour)
		if n := c.looks.Load(); n != 1 {
			t.Errorf("it looked %d times", n)
		}
		cancel()
		must(t, <-ended)
	})
}

type counted struct {
	Store
	looks atomic.Int64
}

func (c *counted) NextDue(ctx context.Context, after time.Time) (time.Time, bool, error) {
	c.looks.Add(1)
	return c.Store.NextDue(ctx, after)
}
