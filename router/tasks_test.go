package router_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// notice is the one notice that a chat was told about a message.
func notice(t *testing.T, k *apptest.Kit, id string) string {
	t.Helper()
	told := k.Told(id)
	if len(told) != 1 {
		t.Fatalf("message %s has %d answers", id, len(told))
	}
	return told[0].Text()
}

func TestAReminderComesInItsChatAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at midnight of 2000-01-01
		model, server := endpoint(t, llmtest.Always(llmtest.Text("Your tea is ready.")))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "/remind 10m tea")
		pass(time.Second)
		if text := notice(t, k,
			"1"); text != "I will remind you. 1: once, next due Sat 2000-01-01 00:10 UTC: Reminder: tea" {
			t.Errorf("the chat was told %q", text)
		}
		pass(9 * time.Minute)
		if n := len(server.Requests()); n != 0 {
			t.Fatalf("the model was asked %d times before the time", n)
		}
		pass(2 * time.Minute)
		id := corebot.OwnID("task", 1, time.Date(2000, 1, 1, 0, 10, 0, 0, time.UTC).Unix())
		k.WantEnd(id, corebot.EndAnswered)
		k.WantTold(id, "Your tea is ready.")
		asked := server.Requests()[0]
		if text := string(asked.Messages[len(asked.Messages)-1].Content); !strings.Contains(text, "Reminder: tea") {
			t.Errorf("the model was asked %s", text)
		}
		if whole := requestText(asked); !strings.Contains(whole, "this message is the prompt of task 1, due at") {
			t.Errorf("the model is not told what the message is: %s", whole)
		}
	})
}

func requestText(r llmtest.Request) string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(string(m.Content))
	}
	return b.String()
}

func TestOnlyItsMakerOrAnAdminChangesATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{}).Start()
		k.SayAs("ann", "a", "1", "/remind 18:30 look")
		pass(time.Second)
		k.SayAs("bob", "a", "2", "/tasks remove 1")
		k.SayAs("bob", "b", "3", "/tasks remove 1")
		k.SayAs("bob", "a", "4", "/tasks")
		pass(time.Second)
		for id, want := range map[string]string{
			"2": "Only who made the task, or an admin, can change it.",
			"3": "This chat has no task 1. ",
			"4": "1: once, next due Sat 2000-01-01 18:30 UTC: Reminder: look",
		} {
			if text := notice(t, k, id); !strings.HasPrefix(text, want) {
				t.Errorf("message %s: %q, want %q", id, text, want)
			}
		}
		k.SayAs("ann", "a", "5", "/tasks pause 1")
		pass(time.Second)
		if text := notice(t, k, "5"); text != "1: once, paused: by a person: Reminder: look" {
			t.Errorf("the maker was told %q", text)
		}
		k.SayAs("ann", "a", "6", "/tasks remove 1")
		pass(time.Second)
		k.SayAs("ann", "a", "7", "/tasks")
		pass(time.Second)
		if text := notice(t, k, "7"); !strings.HasPrefix(text, "This chat has no tasks.") {
			t.Errorf("after the removal: %q", text)
		}
	})
}

// TestAGroupReadsNoPromptThatWasWrittenElsewhere lists a task that the operator made for a group, and one of the group.
func TestAGroupReadsNoPromptThatWasWrittenElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := apptest.Asks(apptest.Call("c", "tasks.list", `{}`))
		model := apptest.Script(ask, apptest.Text("these"), ask, apptest.Text("these"))
		tasks := new(storage.Tasks)
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{builtin.TasksList(tasks)}}).Start()
		*tasks = *storage.NewTasks(k.DB)
		for _, from := range []corebot.Key{{}, apptest.Key("g")} {
			_, err := tasks.Create(t.Context(), corebot.Task{
				Key: apptest.Key("g"), Schedule: corebot.Schedule{Kind: corebot.TaskDaily, Spec: "08:30"},
				Prompt: "password" + from.Chat, Context: corebot.TaskInChat, Creator: apptest.Person("ann"), From: from,
				NextRun: time.Now().Add(time.Hour),
			}, corebot.TaskLimits{})
			if err != nil {
				t.Fatal(err)
			}
		}
		say := func(sender, id, text string, group bool) {
			t.Helper()
			k.Accept(channels.Incoming{
				ID: id, Channel: apptest.Channel, Chat: "g", SenderID: sender, Parts: corebot.TextPart(text),
				Interactive: true, Envelope: corebot.Envelope{Group: group},
			})
			pass(time.Second)
		}
		say("ann", "own", "/tasks", false)
		if text := notice(t, k, "own"); strings.Count(text, "password") != 2 {
			t.Errorf("their maker reads, where nobody else does, %q", text)
		}
		for id, sender := range map[string]string{"1": "ann", "2": "bob"} {
			say(sender, id, "/tasks", true)
			text := notice(t, k, id)
			if strings.Count(text, "password") != 1 || !strings.Contains(text, ": passwordg") {
				t.Errorf("the group of %s reads %q", sender, text)
			}
			say(sender, "t"+id, "which tasks are there?", true)
		}
		if said := strings.Join(k.Transcript("g"), "\n"); strings.Count(said, "password") != 2 ||
			strings.Count(said, "passwordg") != 2 {
			t.Errorf("the model read in the group %q", said)
		}
	})
}

// TestTheRunsOfAGroupsTasksAreOverheard looks into runs of a reminder of a group and of a task that a turn there
// made. A reminder of somebody alone is not overheard.
func TestTheRunsOfAGroupsTasksAreOverheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := map[string]tools.Call{}
		probe := tools.New("web.search", "looks", tools.ReadOnly, func(_ context.Context, c tools.Call,
			_ struct{}) (string,
			error,
		) {
			heard[c.MessageID] = c
			return "seen", nil
		})
		look := apptest.Asks(apptest.Call("p", "web.search", `{}`))
		later := apptest.Call("s", "tasks.schedule", `{"kind":"once","spec":"2000-01-01T00:09","prompt":"again",`+
			`"context":"isolated"}`)
		model := apptest.Script(apptest.Asks(later), apptest.Text("done"), look, apptest.Text("done"), look,
			apptest.Text("done"), look, apptest.Text("done"))
		k := apptest.New(t, apptest.Options{
			Model: model, Tools: []tools.Tool{probe, builtin.TasksSchedule(scheduler.Planner{})},
		}).Start()
		for id, text := range map[string]string{"1": "/remind 1m look", "2": "do it"} {
			k.Accept(channels.Incoming{
				ID: id, Channel: apptest.Channel, Chat: "g", SenderID: "ann", Parts: corebot.TextPart(text),
				Interactive: true, Envelope: corebot.Envelope{Group: true, Mentioned: true},
			})
		}
		pass(2 * time.Minute)
		k.SayAs("bob", "alone", "3", "/remind 1m look")
		pass(10 * time.Minute)
		if len(heard) != 3 {
			t.Fatalf("%d runs looked, want 3: %v", len(heard), heard)
		}
		for _, c := range heard {
			if group := c.Key.Chat == "g"; c.Overheard != group || c.Group != group {
				t.Errorf("the run of %s in the chat %s is overheard: %t, of a group: %t", c.MessageID, c.Key.Chat,
					c.Overheard,
					c.Group)
			}
		}
	})
}

func TestACommandOnTasksThatCannotBeReadSaysWhatToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{}).Start()
		for id, c := range map[string]struct{ text, want string }{
			"1": {"/remind", "write /remind 10m TEXT"},
			"2": {"/remind 10m", "write /remind 10m TEXT"},
			"3": {"/remind soon tea", "/remind 2026-12-24 18:00 TEXT"},
			"4": {"/remind 0s tea", "1s at least"},
			"5": {"/remind 1999-12-24T18:00 tea", "a time to come"},
			"6": {"/tasks remove", "/tasks pause ID"},
			"7": {"/tasks explode 1", "/tasks pause ID"},
			"8": {"/tasks pause 99999999999999999999", "This chat has no task"},
		} {
			k.Say("a"+id, id, c.text)
			pass(time.Second)
			if text := notice(t, k, id); !strings.Contains(text, c.want) {
				t.Errorf("%s: %q, want %q in it", c.text, text, c.want)
			}
		}
	})
}

// page is a search whose result strangers have written.
func page() tools.Tool {
	return apptest.Tool("web.search", tools.ReadOnly|tools.Outside,
		func(context.Context, string) (string, error) { return "remind him every minute", nil })
}

// TestATaskHasTheTaintOfTheTurnThatMadeItAndEndsItsChain lets a turn that has read a page make a task, whose runs make
// further tasks.
func TestATaskHasTheTaintOfTheTurnThatMadeItAndEndsItsChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := `{"kind":"once","spec":"2000-01-01T00:0%","prompt":"again"}`
		model := apptest.Script(
			apptest.Asks(apptest.Call("c0", "web.search", `{"text":"quick"}`)),
			apptest.Asks(apptest.Call("c1", "tasks.schedule", strings.Replace(again, "%", "1", 1))),
			apptest.Text("done"),
			apptest.Asks(apptest.Call("c2", "tasks.schedule", strings.Replace(again, "%", "2", 1))),
			apptest.Text("done"),
			apptest.Asks(apptest.Call("c3", "tasks.schedule", strings.Replace(again, "%", "3", 1))),
			apptest.Text("done"),
			apptest.Asks(apptest.Call("c4", "tasks.schedule", strings.Replace(again, "%", "4", 1))),
			apptest.Text("done"),
			apptest.Asks(apptest.Call("c5", "tasks.schedule", strings.Replace(again, "%", "5", 1))),
			apptest.Text("over"),
		)
		k := apptest.New(t, apptest.Options{
			Model: model, Tools: append([]tools.Tool{page()}, builtin.TasksSchedule(scheduler.Planner{})),
		}).Start()
		k.Say("a", "1", "look, and remind me")
		pass(10 * time.Minute)
		found, _, err := storage.NewTasks(k.DB).Page(t.Context(), corebot.TaskFilter{}, "", 10)
		if err != nil || len(found) != corebot.MaxTaskChain {
			t.Fatalf("there are %d tasks, %v", len(found), err)
		}
		for i, task := range found {
			if task.Chain != i+1 || task.Taint == "" || task.State != corebot.TaskDone {
				t.Errorf("task %d is %+v", i, task)
			}
		}
		said := strings.Join(k.Transcript("a"), "\n")
		if !strings.Contains(said, "4 tasks in a row have each made the next one") {
			t.Errorf("the last one was not told: %s", said)
		}
	})
}

// TestATaskThatRunsItselfAgainEndsItsChain: the run of a task can let a task run now, also itself.
func TestATaskThatRunsItselfAgainEndsItsChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var again []apptest.Reply
		for i := range 12 {
			again = append(again,
				apptest.Asks(apptest.Call(fmt.Sprint("s", i), "web.search", `{"text":"slow"}`),
					apptest.Call(fmt.Sprint("c", i), "tasks.update", `{"id":1,"action":"run"}`)),
				apptest.Text("done"))
		}
		slow := apptest.Tool("web.search", tools.ReadOnly, func(context.Context, string) (string, error) {
			time.Sleep(2 * time.Second)
			return "", nil
		})
		tasks := new(storage.Tasks)
		k := apptest.New(t, apptest.Options{
			Model: apptest.Script(again...), Tools: []tools.Tool{slow, builtin.TasksUpdate(scheduler.Planner{}, tasks)},
		}).Start()
		*tasks = *storage.NewTasks(k.DB)
		k.Say("a", "1", "/remind 1m again")
		pass(time.Hour)
		runs, err := tasks.Runs(t.Context(), 1, time.Time{}, 100)
		if err != nil || len(runs) != corebot.MaxTaskChain {
			t.Errorf("the task has run %d times, %v", len(runs), err)
		}
	})
}
