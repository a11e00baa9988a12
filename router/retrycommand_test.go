package router_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// broke is a failure that no further attempt would mend.
func broke() error {
	return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("no credit")}
}

// fails is a kit whose first turns fail for good; the next ones answer.
func fails(t *testing.T, times int) *apptest.Kit {
	t.Helper()
	var replies []apptest.Reply
	for range times {
		replies = append(replies, apptest.Fails(broke()))
	}
	for range 3 {
		replies = append(replies, apptest.Text("at last"))
	}
	return apptest.New(t, apptest.Options{Model: apptest.Script(replies...)}).Start()
}

// replays are the notes of the audit about messages that were tried again, or asked for, oldest first.
func replays(t *testing.T, k *apptest.Kit) []corebot.AuditEvent {
	t.Helper()
	events, err := storage.NewAudit(k.DB).List(t.Context(), corebot.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	events = slices.DeleteFunc(events, func(e corebot.AuditEvent) bool { return e.Event != "dead_letter.replay" })
	slices.Reverse(events)
	return events
}

func TestTheChatHearsHowToHaveAMessageTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fails(t, 1)
		k.Say("a", "m-17", "hello")
		pass(time.Second)
		k.WantTold("m-17", "Sorry, I could not answer this message. Something failed inside Corebot. "+
			"An operator can see more with `corebot why m-17`. Send \"/retry m-17\" to have it tried again.")
	})
}

func TestRetryTriesAMessageAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fails(t, 1)
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.Say("a", "r1", "/retry 1")
		k.Say("a", "r2", "/retry 1") // in a row
		k.Say("a", "r2", "/retry 1") // delivered twice
		pass(time.Second)
		k.WantEnd("1", corebot.EndAnswered)
		k.WantTold("r1", "Message 1 will be tried again.")
		if told := k.Told("r2"); len(told) != 1 || !strings.HasPrefix(told[0].Text(),
			"Message 1 is not given up: it ") {
			t.Errorf("the second /retry was told %+v", told)
		}
		if told := k.Told("1"); len(told) != 2 || told[1].Text() != "at last" || k.Life("1").Run != 2 {
			t.Errorf("the message was told %+v", told)
		}
		if got := replays(t, k); len(got) != 1 || got[0].Principal.ID != apptest.Sender || got[0].Tool != "/retry" ||
			got[0].Rule != "own-message" || got[0].Outcome != corebot.OutcomeSuccess {
			t.Errorf("the audit has %+v", got)
		}
		k.Say("a", "r3", "/retry 1")
		k.WantTold("r3", "Message 1 is not given up: it was answered.")
	})
}

func TestFiftyRetriesAtOnceDeliverOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fails(t, 1)
		k.Say("a", "1", "hello")
		pass(time.Second)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { k.Say("a", fmt.Sprint("r", i), "/retry") })
		}
		wg.Wait()
		pass(time.Second)
		k.WantEnd("1", corebot.EndAnswered)
		if told := k.Told("1"); len(told) != 2 || k.Life("1").Run != 2 || len(replays(t, k)) != 1 {
			t.Errorf("run %d, told %+v", k.Life("1").Run, told)
		}
	})
}

func TestRetryWithoutAnIdMeansTheNewestOfWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fails(t, 3)
		k.Say("a", "1", "first")
		k.Say("a", "2", "second")
		pass(time.Second)
		k.SayAs("bob", "a", "3", "of another sender")
		pass(time.Second)
		k.Say("a", "r", "/retry")
		pass(time.Second)
		k.WantTold("r", "Message 2 will be tried again.")
		k.WantEnd("1", corebot.EndDead)
		k.WantEnd("2", corebot.EndAnswered)
		k.WantEnd("3", corebot.EndDead)
		k.SayAs("carol", "a", "r2", "/retry")
		k.WantTold("r2", "No message of yours in this chat was given up.")
	})
}

func TestRetryIsForTheSenderOrAnAdminAndAStrangerIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fails(t, 1)
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.SayAs("mallory", "a", "r1", "/retry 1")
		k.SayAs("", "a", "r2", "/retry 1") // somebody whom the channel cannot name
		pass(time.Second)
		k.WantEnd("1", corebot.EndDead)
		for _, id := range []string{"r1", "r2"} {
			k.WantTold(id, "Only who sent the message, or an admin, can have it tried again.")
		}
		got := replays(t, k)
		if len(got) != 2 || got[0].Principal.ID != "mallory" || got[0].Outcome != corebot.OutcomeDenied ||
			got[0].Rule != "others-message" || !strings.Contains(got[0].Args, `"messageId":"1"`) {
			t.Errorf("the audit has %+v", got)
		}
		if err := k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person("root"),
			Role:      corebot.RoleAdmin,
		}); err != nil {
			t.Fatal(err)
		}
		k.SayAs("root", "b", "r3", "/retry 1") // from another chat
		k.WantTold("r3", "There is no message 1 in this chat.")
		k.SayAs("root", "a", "r4", "/retry 1")
		pass(time.Second)
		k.WantEnd("1", corebot.EndAnswered)
	})
}

func TestRetrySaysWhatThereIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Model: apptest.Script(apptest.Fails(broke()), apptest.Hangs()),
			Bus:   bus.Options{Limits: corebot.Limits{LaneDepth: 1}},
		}).Start()
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.Say("a", "2", "hangs")
		pass(time.Second)
		k.Say("a", "r1", "/retry 2")
		k.WantTold("r1", "Message 2 is not given up: it waits for its answer, or is being answered.")
		k.Say("a", "r2", "/retry 1")
		k.WantTold("r2", "There is no room for message 1 now; it is kept. Ask again a little later.")
		k.WantEnd("1", corebot.EndDead)
		if err := k.DeadLetters.Drop(t.Context(), k.Life("1").ID); err != nil {
			t.Fatal(err)
		}
		k.Say("a", "r3", "/retry 1")
		k.WantTold("r3", "Message 1 was dropped and cannot be tried again. Please send it anew.")
		k.Say("a", "r4", "/retry nothing")
		k.WantTold("r4", "There is no message nothing in this chat.")
		k.Say("a", "r5", "/retry no\u202ething")
		k.WantTold("r5", "There is no message nothing in this chat.")
	})
}

func TestARetrySurvivesACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k := apptest.New(t, apptest.Options{Dir: dir, Model: apptest.Script(apptest.Fails(broke()))}).Start()
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.Shutdown()
		k.Say("a", "r", "/retry 1")
		k.Crash()
		k = apptest.New(t, apptest.Options{Dir: dir, Model: apptest.Script(apptest.Text("at last"))}).Start()
		pass(time.Second)
		k.WantEnd("r", corebot.EndApplied)
		k.WantEnd("1", corebot.EndAnswered)
		if a := k.SayAs(apptest.Sender, "a", "r", "/retry 1"); !a.Duplicate || k.Life("1").Run != 2 {
			t.Errorf("the /retry again: %+v, run %d", a, k.Life("1").Run)
		}
	})
}

func TestAReplayRunsAsItsSenderWithTheRoleOfToday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := apptest.Call("c1", "mcp.reload", `{"text":"x"}`) // an admin's
		model := apptest.Script(apptest.Asks(call), apptest.Fails(broke()), apptest.Asks(call), apptest.Text("done"))
		var runs int
		reload := apptest.Tool("mcp.reload", tools.ReadOnly, func(context.Context, string) (string, error) {
			runs++
			return "reloaded", nil
		})
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{reload}}).Start()
		k.Say("a", "1", "reload")
		pass(time.Second)
		if runs != 0 || len(model.Requests()[0].Tools) != 0 {
			t.Fatalf("a normal sender was offered %v, it ran %d times", model.Requests()[0].Tools, runs)
		}
		if err := k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person(apptest.Sender),
			Role:      corebot.RoleAdmin,
		}); err != nil {
			t.Fatal(err)
		}
		if err := k.DeadLetters.Replay(t.Context(), k.Life("1").ID, true); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if runs != 1 || len(model.Last().Tools) != 1 {
			t.Errorf("an admin by now was offered %v, it ran %d times", model.Last().Tools, runs)
		}
	})
}

func TestADeadLettersTokensAreCountedOnceThroughItsReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		search := apptest.Tool("web.search", tools.ReadOnly, func(context.Context, string) (string, error) {
			return "found", nil
		})
		k := apptest.New(t, apptest.Options{Tools: []tools.Tool{search}, Model: apptest.Script(
			apptest.Asks(apptest.Call("c1", "web.search", `{"text":"x"}`)), apptest.Fails(broke()),
			apptest.Text("done"))}).Start()
		k.Say("a", "1", "look")
		pass(time.Second)
		if u := k.Life("1").Usage; u.InputTokens != 10 || u.OutputTokens != 5 {
			t.Errorf("the dead letter has cost %+v", u)
		}
		k.Say("a", "r", "/retry")
		pass(time.Second)
		k.WantEnd("1", corebot.EndAnswered)
		if u := k.Life("1").Usage; u.InputTokens != 20 || u.OutputTokens != 10 {
			t.Errorf("with its replay the message has cost %+v", u)
		}
	})
}

func TestHelpListsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{}).Start()
		k.Say("a", "1", "/help")
		pass(time.Second)
		if told := k.Told("1"); len(told) != 1 || !strings.Contains(told[0].Text(), "/retry [ID|all]") {
			t.Errorf("told %+v", told)
		}
	})
}
