package router_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// beat runs one heartbeat of the chat "a", in which ann talks, and returns what it posted.
func beat(t *testing.T, steps ...apptest.Reply) (k *apptest.Kit, posted []string) {
	t.Helper()
	model := apptest.Script(append(append([]apptest.Reply{apptest.Text("hello ann")}, steps...),
		knowsThatItSaid("The disk is full."))...)
	seen := tools.New("fs.list", "lists", tools.ReadOnly, func(context.Context, tools.Call, struct{}) (string, error) {
		return "one file", nil
	})
	k = apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{page(), seen}}).Start()
	err := k.Grants.Grant(t.Context(), corebot.Grant{Principal: apptest.Person("ann"), Role: corebot.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	k.SayAs("ann", "a", "1", "hello")
	pass(time.Second)
	due := time.Now().Add(time.Minute).Truncate(time.Minute)
	_, err = storage.NewTasks(k.DB).Create(t.Context(), corebot.Task{
		Name: "heartbeat", Key: apptest.Key("a"), Prompt: "look at the disk", Context: corebot.TaskIsolated,
		Schedule: corebot.Schedule{Kind: corebot.TaskHeartbeat, Spec: "24h"}, Creator: corebot.AtTerminal(1000),
		Anchor: time.Now(), NextRun: due, Chain: 1,
	}, corebot.TaskLimits{})
	if err != nil {
		t.Fatal(err)
	}
	pass(2 * time.Minute)
	id := corebot.OwnID("task", 1, due.Unix(), "isolated")
	if k.Life(id).End == "" {
		k.SayAs("ann", "a", "stop", "/stop")
		pass(time.Second)
		k.WantEnd(id, corebot.EndStopped)
		return k, nil
	}
	k.WantEnd(id, corebot.EndAnswered)
	for _, m := range k.Told(id) {
		posted = append(posted, m.Text())
	}
	return k, posted
}

// knowsThatItSaid answers whether the model sees that it has said something.
func knowsThatItSaid(said string) apptest.Reply {
	return func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
		answer := "never said"
		for _, m := range r.Messages {
			if m.Role == llm.Assistant && strings.HasPrefix(m.Text, said) {
				answer = "said"
			}
		}
		return apptest.Text(answer)(ctx, r, onText)
	}
}

func TestACalmHeartbeatPostsNothingAndLeavesNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, posted := beat(t, apptest.Asks(apptest.Call("c", "web.search", `{"text":"disk"}`)),
			apptest.Text("**"+corebot.Calm+"**"))
		if len(posted) != 0 {
			t.Errorf("it posted %q", posted)
		}
		if said := k.Transcript("a"); len(said) != 2 {
			t.Errorf("the history is %q", said)
		}
	})
}

// TestAHeartbeatThatHasSomethingToSayTaintsNoChat looks at the chat's next turn after a heartbeat that has read a
// page, and after one that has not.
func TestAHeartbeatThatHasSomethingToSayTaintsNoChat(t *testing.T) {
	for tool, kept := range map[string]bool{"web.search": false, "fs.list": true} {
		t.Run(tool, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				args := map[string]string{"web.search": `{"text":"disk"}`, "fs.list": `{}`}[tool]
				k, posted := beat(t, apptest.Asks(apptest.Call("c", tool, args)), apptest.Text("The disk is full."))
				if len(posted) != 1 || posted[0] != "The disk is full." {
					t.Fatalf("it posted %q", posted)
				}
				k.SayAs("ann", "a", "2", "what is with the disk?")
				pass(time.Second)
				k.WantTold("2", map[bool]string{true: "said", false: "never said"}[kept])
				said := strings.Join(k.Transcript("a"), "\n")
				if strings.Contains(said, "The disk is full.") != kept || strings.Contains(said, "look at the disk") {
					t.Errorf("the history is %q", said)
				}
				entries, err := k.History.Recent(t.Context(), apptest.Key("a"), 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if e.Outside {
						t.Errorf("the chat is tainted: %+v", e)
					}
				}
			})
		})
	}
}

func TestAHeartbeatThatIsStoppedLeavesNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := beat(t, apptest.Hangs())
		if said := k.Transcript("a"); len(said) != 2 {
			t.Errorf("the history is %q", said)
		}
	})
}
