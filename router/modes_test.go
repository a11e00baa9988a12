package router_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

func TestAnInterruptStopsTheTurnAndTheNewerPromptRunsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(searches("quick", "slow"), apptest.Text("to the newer one"))
		k := apptest.New(t, apptest.Options{
			Model: model, Tools: []tools.Tool{slowSearch()}, Queueing: corebot.Queueing{Mode: corebot.ModeInterrupt},
		}).Start()
		k.Say("a", "1", "look")
		pass(5 * time.Second)
		k.Say("a", "2", "look elsewhere")
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		if reason := k.Life("1").Reason; reason != "interrupt" {
			t.Errorf("the reason is %q", reason)
		}
		k.WantTold("1", "Stopped, for your newer message.")
		k.WantTold("2", "to the newer one")
		want := []string{
			"user: look", `assistant: web.search({"text":"quick"})web.search({"text":"slow"})`, "tool: found quick",
			"tool: stopped by the user; it may or may not have taken effect", stoppedNote, "user: look elsewhere",
			"assistant: to the newer one",
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is\n%q, want\n%q", got, want)
		}
		if n := turns(t, k, "stopped"); n != 1 {
			t.Errorf("%v turns count as stopped", n)
		}
	})
}

func TestAnInterruptThatOnlyTheStoreKnowsOfEndsTheTurnAtItsNextClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		queueing := corebot.Queueing{Mode: corebot.ModeInterrupt}
		k := apptest.New(t, apptest.Options{
			Dir: dir, Model: apptest.Always(apptest.Hangs()),
			Queueing: queueing,
		}).Start()
		k.Say("a", "1", "look")
		pass(time.Second)
		m := k.Life("1").Message
		newer := *m
		newer.ID, newer.Parts = "2", corebot.TextPart("look elsewhere")
		// a crash falls before the router hears of it
		if r, err := k.Bus.Publish(t.Context(), newer); err != nil || r.Stops != k.Life("1").ID {
			t.Fatalf("%+v, %v", r, err)
		}
		k.Crash()
		k = apptest.New(t, apptest.Options{
			Dir: dir, Model: apptest.Script(apptest.Text("done")),
			Queueing: queueing,
		}).Start()
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		k.WantTold("1", "Stopped, for your newer message.")
		k.WantTold("2", "done")
	})
}

func TestPromptsOfOneSenderAreCollectedIntoOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Always(apptest.Text("done"))
		k := apptest.New(t, apptest.Options{Model: model, Queueing: corebot.Queueing{
			Mode:     corebot.ModeCollect,
			Debounce: 2 * time.Second,
		}}).Start()
		k.Say("a", "1", "look")
		pass(time.Second)
		k.Say("a", "2", "for cats")
		pass(time.Second)
		k.Say("a", "3", "and dogs")
		k.SayAs("bob", "a", "4", "hello")
		pass(time.Minute)
		want := []string{
			"user: look", "user: for cats", "user: and dogs", "assistant: done", "user: hello",
			"assistant: done",
		}
		if got := k.Transcript("a"); !slices.Equal(got, want) {
			t.Errorf("the history is %q, want %q", got, want)
		}
		if n := len(model.Requests()); n != 2 {
			t.Errorf("the model was asked %d times", n)
		}
		for _, id := range []string{"2", "3"} {
			k.WantEnd(id, corebot.EndMerged)
			if into := k.Life(id).MergedInto; into == nil || into.MessageID != "1" {
				t.Errorf("message %s was merged into %+v", id, into)
			}
		}
		if told := k.Told("1"); len(told) != 1 || !slices.Equal(told[0].Answers(), []string{"1", "2", "3"}) {
			t.Errorf("the reply is %+v", told)
		}
	})
}

func TestAChatHasItsOwnMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Model: apptest.Always(apptest.After(10*time.Second, searches("quick"))),
			Tools: []tools.Tool{slowSearch()},
		}).Start()
		if err := storage.NewChats(k.DB).SetQueueMode(t.Context(), apptest.Key("a"), corebot.ModeSteer); err != nil {
			t.Fatal(err)
		}
		for _, chat := range []string{"a", "b"} {
			k.Say(chat, chat+"1", "look")
			pass(5 * time.Second)
			k.Say(chat, chat+"2", "elsewhere")
			pass(10 * time.Second)
		}
		k.WantEnd("a2", corebot.EndMerged)
		k.WantEnd("b2", "")
	})
}

func TestCommandsOfOneSenderUseUpNobodyElsesInTheSameChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t,
			apptest.Options{Bus: bus.Options{Limits: corebot.Limits{Control: corebot.Rate{
				Every: 30 * time.Second,
				Burst: 30,
			}}}}).Start()
		say := func(sender, chat, id, text string) error {
			_, err := k.Door.Accept(t.Context(), channels.Incoming{
				ID: id, Channel: apptest.Channel, Chat: chat,
				SenderID: sender, Parts: corebot.TextPart(text),
			})
			return err
		}
		flood := func(sender, chat string) (refused int) {
			for i := range 35 {
				if err := say(sender, chat, fmt.Sprint(sender, i), "/nonsense"); errors.Is(err,
					corebot.ErrCommandRate) {
					refused++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			return refused
		}
		if n := flood("stranger", "group"); n != 5 {
			t.Errorf("%d of 35 commands of one sender were refused", n)
		}
		for _, command := range []string{"/status", "/stop", "/why"} {
			if err := say("operator", "group", command, command); err != nil {
				t.Errorf("%s of another sender: %v", command, err)
			}
		}
		flood("", "nameless")
		if err := say("", "nameless", "one more", "/status"); !errors.Is(err, corebot.ErrCommandRate) {
			t.Errorf("those without an id are one sender of a chat: %v", err)
		}
		if err := say("", "another", "another", "/status"); err != nil {
			t.Errorf("those without an id in another chat: %v", err)
		}
	})
}

func TestAFloodOfCommandsIsRefusedAndNobodyIsKeptFromStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Model: apptest.Always(apptest.Hangs()),
			Bus:   bus.Options{Limits: corebot.Limits{Control: corebot.Rate{Every: time.Minute, Burst: 3}}},
		}).Start()
		for _, id := range []string{"s1", "s2", "s3"} {
			k.Say("a", id, "/why")
		}
		for i, id := range []string{"s4", "s5"} {
			_, err := k.Door.Accept(t.Context(), channels.Incoming{
				ID: id, Channel: apptest.Channel, Chat: "a",
				SenderID: apptest.Sender, Parts: corebot.TextPart("/stop"),
			})
			busy := (*corebot.Busy)(nil)
			if !errors.As(err, &busy) || !errors.Is(err, corebot.ErrCommandRate) || busy.Tell != (i == 0) {
				t.Errorf("refusal %d of the flood is %#v", i+1, err)
			}
		}
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.Say("a", "s6", "/stop")
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		pass(time.Minute)
		k.Say("a", "s7", "/why")
	})
}
