package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

// gateFunc is a gate that a test decides.
type gateFunc func(corebot.Task) corebot.Verdict

func (g gateFunc) Judge(_ context.Context, t corebot.Task) (corebot.Verdict, error) { return g(t), nil }

func TestATaskWhoseMakerMayNotTalkIsPausedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		banned, elsewhere := r.add(corebot.TaskDaily, "08:30"), r.addTo("shut", corebot.TaskDaily, "08:30")
		fine := r.addTo("fine", corebot.TaskDaily, "08:30")
		admins := corebot.Key{Agent: corebot.DefaultAgent, Channel: "test", Chat: "admins"}
		r.start(Options{Gate: gateFunc(func(task corebot.Task) corebot.Verdict {
			switch task.ID {
			case banned.ID:
				return corebot.Verdict{Fault: "its maker may not talk", Tell: task.Key}
			case elsewhere.ID:
				return corebot.Verdict{Fault: "its chat is shut", Tell: admins}
			}
			return corebot.Verdict{}
		})})
		if d := r.claim(9 * time.Hour); d.Message.Key != fine.Key {
			t.Errorf("claimed the message of %v, want that of %v", d.Message.Key, fine.Key)
		}
		if d := r.claim(time.Second); d.Life != 0 {
			t.Errorf("claimed the message of %v too", d.Message.Key)
		}
		told := map[corebot.Key]string{}
		for range 2 {
			ds, err := storage.NewQueue(r.db).Claim(t.Context(), corebot.PoolOf(corebot.Outbound, admins), 1,
				corebot.ClaimOptions{Lease: time.Minute})
			must(t, err)
			told[ds[0].Message.Key] = ds[0].Message.Text()
		}
		if got, want := told[banned.Key],
			"Task 1 is paused, because its maker may not talk. /tasks resume 1 starts it "+
				"again."; got != want {
			t.Errorf("the chat is told %q, want %q", got, want)
		}
		if got, want := told[admins], "Task 2 of main:test::shut is paused, because its chat is shut. `corebot tasks "+
			"resume 2` starts it again."; got != want {
			t.Errorf("the admins are told %q, want %q", got, want)
		}
		for _, id := range []int64{banned.ID, elsewhere.ID} {
			if task, err := r.Task(t.Context(), id); err != nil || task.State != corebot.TaskPaused ||
				len(r.runs(id)) != 0 {
				t.Errorf("task %d is %+v, %v", id, task, err)
			}
		}
	})
}

// TestATaskOfAnotherProcessStaysDue lets a process that lacks the agent of a task look at it for a day, beside a task
// of its own. Then one comes that has the agent.
func TestATaskOfAnotherProcessStaysDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		theirs, ours := r.addTo("theirs", corebot.TaskDaily, "08:30"), r.addTo("ours", corebot.TaskDaily, "09:30")
		looks := 0
		r.start(Options{Gate: gateFunc(func(task corebot.Task) corebot.Verdict {
			looks++
			return corebot.Verdict{Wait: task.ID == theirs.ID}
		})})
		d := r.claim(10 * time.Hour)
		if d.Message.Key != ours.Key {
			t.Fatalf("claimed the message of %v", d.Message.Key)
		}
		r.end(d, answered)
		time.Sleep(13 * time.Hour)
		r.stop()
		if most := int(24 * time.Hour / look); looks > most {
			t.Errorf("it looked %d times at a task that it cannot run, want %d at most", looks, most)
		}
		if task, err := r.Task(t.Context(), theirs.ID); err != nil || task.State != corebot.TaskActive {
			t.Errorf("the task is %+v, %v", task, err)
		}
		r.start(Options{})
		if d := r.claim(time.Second); d.Message.Key != theirs.Key {
			t.Errorf("the other process claims the message of %v", d.Message.Key)
		}
	})
}

// TestAMessageWaitsBehindFewRunsOfTasks has many tasks due at the same second, and somebody who talks meanwhile. The
// tasks run all the same, one for each that ends. A run that waits for something makes room too.
func TestAMessageWaitsBehindFewRunsOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks, atOnce = 100, 3
		r := newRig(t, storage.Options{})
		for i := range tasks {
			r.addTo(fmt.Sprint("chat", i), corebot.TaskDaily, "08:30")
		}
		r.start(Options{AtOnce: atOnce})
		time.Sleep(9 * time.Hour)
		said := corebot.Message{
			ID: "said", Direction: corebot.Inbound, Kind: corebot.KindPrompt, Sender: creator,
			Parts: corebot.TextPart("x"),
			Key:   corebot.Key{Agent: corebot.DefaultAgent, Channel: "test", Chat: "talks"},
		}
		_, err := storage.NewQueue(r.db).Publish(t.Context(), []corebot.Message{said}, corebot.Limits{})
		must(t, err)
		for n, seen := 1, map[string]bool{}; len(seen) <= tasks; n++ {
			d := r.claim(2 * fullPause)
			if d.Life == 0 {
				t.Fatalf("after %d messages came %q", len(seen), d.Message.ID)
			}
			if d.Message.ID == "said" && n > atOnce+1 {
				t.Errorf("what was said came as number %d", n)
			}
			if n%7 == 0 {
				r.end(d, corebot.Outcome{
					Verb: corebot.Wait, Reason: corebot.AwaitingApproval,
					At: time.Now().Add(24 * time.Hour),
				})
			} else {
				r.end(d, answered)
			}
			seen[d.Message.ID] = true
		}
	})
}

func TestATaskThatMustNotRunIsNeitherResumedNorRunNow(t *testing.T) {
	shut := corebot.Verdict{Fault: "its chat is shut"}
	p := Planner{Gate: gateFunc(func(corebot.Task) corebot.Verdict { return shut })}
	task := corebot.Task{ID: 1, Schedule: corebot.Schedule{Kind: corebot.TaskDaily, Spec: "08:30"}}
	for action, refused := range map[corebot.TaskAction]bool{
		corebot.TaskPause: false, corebot.TaskRemove: false, corebot.TaskResume: true, corebot.TaskRunNow: true,
	} {
		_, err := p.Change(t.Context(), task, action, time.Now())
		if got := errors.Is(err, corebot.ErrInvalid) && strings.HasSuffix(err.Error(),
			"its chat is shut"); got != refused {
			t.Errorf("%s: %v", action, err)
		}
	}
}

// halfDamaged is a store of which one task cannot be read.
type halfDamaged struct{ *rig }

func (s halfDamaged) Page(context.Context, corebot.TaskFilter, string, int) ([]corebot.Task, string, error) {
	return nil, "", errors.New("the database is malformed")
}

func (s halfDamaged) Due(ctx context.Context, now time.Time, after corebot.Task, limit int) ([]corebot.Task, error) {
	found, err := s.rig.Due(ctx, now, after, limit)
	for i, task := range found {
		if task.ID == 1 {
			found[i] = corebot.Task{ID: 1, NextRun: task.NextRun, Damaged: errors.New("the database is malformed")}
		}
	}
	return found, err
}

func TestATaskThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		r.add(corebot.TaskInterval, "10m")
		r.addTo("other", corebot.TaskInterval, "10m")
		s, err := New(halfDamaged{r}, Options{})
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for range 2 {
			d := r.claim(11 * time.Minute)
			if d.Message.Key.Chat != "other" {
				t.Fatalf("the message %q of chat %q came", d.Message.ID, d.Message.Key.Chat)
			}
			r.end(d, answered)
		}
		cancel()
		must(t, <-ended)
	})
}
