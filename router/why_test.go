package router_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
)

// wantTelling fails the test unless a /why was answered with one notice that has all of these.
func wantTelling(t *testing.T, k *apptest.Kit, id string, parts ...string) {
	t.Helper()
	told := k.Told(id)
	if len(told) != 1 || told[0].Kind != corebot.KindNotice {
		t.Fatalf("%s was told %+v", id, told)
	}
	for _, part := range parts {
		if !strings.Contains(told[0].Text(), part) {
			t.Errorf("%s was told %q, which lacks %q", id, told[0].Text(), part)
		}
	}
}

func TestWhyTellsTheLifeOfAMessageInWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(searches("slow", "second"), apptest.Text("done"), apptest.Fails(broke()),
			apptest.Hangs())
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		pass(time.Second)
		k.Say("a", "w1", "/why") // the newest of mine: it runs
		k.Say("a", "s", "/steer enough")
		pass(time.Minute)
		wantTelling(t, k, "w1", "Message 1: running.", "accepted", "begun, attempt 1",
			"the model scripted asked for 2 tool calls")
		k.Say("a", "w2", "/why 1")
		wantTelling(t, k, "w2", "Message 1: answered.", "Answered by the model scripted.", "tool web.search: success",
			"merged message s", "ended: answered", "reply written")
		k.Say("a", "w3", "/why s")
		wantTelling(t, k, "w3", "Message s: merged: it was answered together with message 1.")
		k.Say("a", "2", "fail")
		pass(time.Second)
		k.Say("a", "w4", "/why")
		wantTelling(t, k, "w4", "Message 2: given up;", "/retry 2")
		if told := k.Told("w4"); strings.Contains(told[0].Text(), "no credit") {
			t.Errorf("the sender reads the error itself: %q", told[0].Text())
		}
		k.Say("a", "3", "hang")
		pass(time.Second)
		k.Say("a", "stop", "/stop")
		pass(time.Second)
		k.Say("a", "w5", "/why 3")
		wantTelling(t, k, "w5", "Message 3: stopped.")
		k.Say("a", "w6", "/why stop")
		wantTelling(t, k, "w6", "Message stop: applied.")
	})
}

func TestWhyTellsOfASummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{})
		k.Say("a", "1", "go on")
		step := corebot.Step{
			Kind: corebot.StepSummary, State: corebot.StepDone, Answer: &corebot.Answer{Model: "m"},
			StartedAt: time.Now(), EndedAt: time.Now(),
		}
		if err := k.Ledger.Summarize(t.Context(), k.Claim(), step, corebot.Summary{
			Session: 1, Through: 1,
			Text: "short",
		}); err != nil {
			t.Fatal(err)
		}
		k.Say("a", "w", "/why")
		wantTelling(t, k, "w", "older messages were summarised")
	})
}

func TestWhyIsForTheSenderOrAnAdminAndForThisChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Model: apptest.Script(apptest.Fails(broke()),
			apptest.Text("private"), apptest.Fails(broke()))}).Start()
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.Say("b", "2", "hello")
		pass(time.Second)
		k.SayAs("mallory", "a", "w1", "/why 1")
		k.WantTold("w1", "Only who sent the message, or an admin, can hear what became of it.")
		k.Say("a", "w2", "/why 2") // my own, of another chat
		k.WantTold("w2", "There is no message 2 in this chat.")
		k.SayAs("mallory", "b", "w3", "/why")
		k.WantTold("w3", "No message of yours is known in this chat.")
		if err := k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person("root"),
			Role:      corebot.RoleAdmin,
		}); err != nil {
			t.Fatal(err)
		}
		k.SayAs("root", "a", "w4", "/why 1")
		wantTelling(t, k, "w4", "Message 1: given up")
		if told := k.Told("w4"); strings.Contains(told[0].Text(), "no credit") {
			t.Errorf("somebody else reads the error in his chat: %q", told[0].Text())
		}
		k.SayAs("root", "own", "3", "hello")
		pass(time.Second)
		k.SayAs("root", "own", "w5", "/why 3")
		wantTelling(t, k, "w5", "Message 3: given up", "Last error: no credit")
		wantDenied(t, k, `why /why others-message mallory {"id":1,"messageId":"1"}`)
		if a := k.SayAs("root", "a", "w4", "/why 1"); !a.Duplicate || len(k.Told("w4")) != 1 {
			t.Error("the /why again is no duplicate")
		}
	})
}

func TestWhyTellsTheNewestOfManySteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := make([]string, 30)
		k := apptest.New(t, apptest.Options{
			Model: apptest.Script(searches(many...), apptest.Text("done")),
			Tools: []tools.Tool{slowSearch()},
		}).Start()
		k.Say("a", "1", "look")
		pass(time.Second)
		k.Say("a", "w", "/why")
		wantTelling(t, k, "w", "earlier steps are left out", "ended: answered")
		if n := strings.Count(k.Told("w")[0].Text(), "\n"); n != 22 {
			t.Errorf("it has %d lines behind the first", n)
		}
	})
}

func TestHelpListsEveryCommandAndEachOfThemDoesSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{}).Start()
		k.Say("a", "help", "/help")
		pass(time.Second)
		for i, c := range corebot.Commands() {
			wantTelling(t, k, "help", "\n"+strings.TrimSpace(c.Name+" "+c.Args)+" ", c.Summary)
			id := string(rune('A' + i))
			k.Say("b", id, c.Name)
			pass(time.Second)
			if told := k.Told(id); len(told) != 1 {
				t.Errorf("%s was answered with %+v", c.Name, told)
			}
		}
	})
}

func TestAControlMessageIsHeldToTheSizeOfAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{})
		m := corebot.Message{
			ID: "s", Direction: corebot.Control, Kind: corebot.KindControl, Key: apptest.Key("a"),
			Sender: apptest.Person("x"),
			Parts:  corebot.TextPart("/steer " + strings.Repeat("x", 1<<20)),
		}
		if _, err := k.Router.Control(t.Context(), m); !errors.Is(err, corebot.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
}
