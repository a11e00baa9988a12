package scheduler_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/storage"
)

var stormTasks = flag.Int("storm.tasks", 1_000, "tasks that are due at one moment while a chat talks")

// timekeeper answers each message after the same time, and notes when it began with each prompt of the chat "talk".
type timekeeper struct {
	takes time.Duration
	mu    sync.Mutex
	begun map[string]time.Time
	tasks int
}

func (k *timekeeper) Turn(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
	k.mu.Lock()
	if d.Message.Errand != nil {
		k.tasks++
	} else {
		k.begun[d.Message.ID] = time.Now()
	}
	k.mu.Unlock()
	select {
	case <-time.After(k.takes):
	case <-ctx.Done():
		return corebot.Result{}, context.Cause(ctx)
	}
	return corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}}, nil
}

func (k *timekeeper) look(id string) (begun time.Time, tasks int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.begun[id], k.tasks
}

// TestAStormOfDueTasksLeavesAChatItsAnswers has many tasks due at one moment, while somebody else talks. The answer of
// a slow percentile takes at most twice the time that it takes without them. The time of a turn is that of a fast
// model. With -storm.tasks=100000 it prints the figures of docs/performance.md.
func TestAStormOfDueTasksLeavesAChatItsAnswers(t *testing.T) {
	brain := &timekeeper{takes: 50 * time.Millisecond, begun: map[string]time.Time{}}
	k := apptest.New(t, apptest.Options{
		Brain: brain, Bus: bus.Options{Turns: 16}, Router: router.Options{Workers: 16},
		Tasks: scheduler.Options{AtOnce: 8},
	})
	k.Start()
	quiet := talk(t, k, brain, "quiet", max(24, *stormTasks/250))
	due := time.Now().Add(time.Duration(*stormTasks)*100*time.Microsecond + time.Second).Truncate(time.Second)
	addTasks(t, k, *stormTasks, due)
	time.Sleep(time.Until(due))
	storm := talk(t, k, brain, "storm", max(24, *stormTasks/250))
	_, ran := brain.look("")
	t.Logf("of %d messages, p50 and p99: %v and %v alone; %v and %v beside %d due tasks, of which %d began",
		len(storm), at(quiet, 50), at(quiet, 99), at(storm, 50), at(storm, 99), *stormTasks, ran)
	if ran == 0 || ran == *stormTasks && *stormTasks > 10_000 {
		t.Errorf("%d of %d tasks began meanwhile: the test proves nothing", ran, *stormTasks)
	}
	percent := 90 // of so few answers
	if len(storm) >= 200 {
		percent = 99
	}
	if slow, limit := at(storm, percent), 2*at(quiet, percent); slow > limit {
		t.Errorf("beside due tasks %d of 100 answers came within %v, want %v", percent, slow, limit)
	}
}

// addTasks makes tasks of many people in many chats, due at one moment. The limits are the usual ones: 100,000 tasks
// reach each of them.
func addTasks(t *testing.T, k *apptest.Kit, n int, due time.Time) {
	t.Helper()
	tasks, now := storage.NewTasks(k.DB), time.Now()
	var adding sync.WaitGroup
	for worker := range 64 {
		adding.Go(func() {
			for i := worker; i < n; i += 64 {
				if _, err := tasks.Create(t.Context(), corebot.Task{
					Key: apptest.Key(fmt.Sprint("chat ", i%1000)), Prompt: "water the plants",
					Schedule: corebot.Schedule{Kind: corebot.TaskOnce, Spec: due.Format(time.RFC3339)},
					Context:  corebot.TaskInChat, Anchor: now, NextRun: due,
					Creator: corebot.Principal{Channel: apptest.Channel, ID: fmt.Sprint("sender ", i%200)},
				}, corebot.TaskLimits{PerChat: 100, PerCreator: 500, Total: 100_000}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	adding.Wait()
}

// talk says something again and again, and returns how long each answer took, the shortest first.
func talk(t *testing.T, k *apptest.Kit, brain *timekeeper, name string, n int) (took []time.Duration) {
	t.Helper()
	for i := range n {
		id, said := fmt.Sprint(name, i), time.Now()
		k.Accept(channels.Incoming{
			ID: id, Channel: apptest.Channel, Chat: "talk", SenderID: "talker", Parts: corebot.TextPart("hello"),
		})
		for {
			begun, _ := brain.look(id)
			if !begun.IsZero() {
				took = append(took, begun.Sub(said)+brain.takes)
				time.Sleep(time.Until(begun.Add(brain.takes + 20*time.Millisecond)))
				break
			}
			if time.Since(said) > 30*time.Second {
				t.Fatalf("%s was not answered", id)
			}
			time.Sleep(time.Millisecond)
		}
	}
	slices.Sort(took)
	return took
}

func at(took []time.Duration, percent int) time.Duration {
	return took[min(len(took)*percent/100, len(took)-1)].Round(time.Millisecond / 10)
}
