package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// inSession fails the test unless a chat is in a session in which exactly this was said.
func inSession(t *testing.T, k *apptest.Kit, session int64, said ...string) {
	t.Helper()
	chat, err := storage.NewChats(k.DB).Chat(t.Context(), apptest.Key("a"))
	if err != nil || chat.Session != session {
		t.Errorf("the chat is in session %d, %v; want %d", chat.Session, err, session)
	}
	if got := k.Transcript("a"); !slices.Equal(got, said) {
		t.Errorf("in the session was said %q, want %q", got, said)
	}
}

func TestNewWithATextIsThePromptOfTheNewSession(t *testing.T) {
	for _, command := range []string{"/new", "/RESET"} {
		synctest.Test(t, func(t *testing.T) {
			model := apptest.Always(apptest.Text("hm"))
			k := apptest.New(t, apptest.Options{Model: model}).Start()
			k.Say("a", "1", "the first secret")
			pass(time.Second)
			for range 2 { // the second is a copy
				k.Say("a", "2", command+"  plan my week\nwell ")
				pass(time.Second)
			}
			k.WantTold("2", "hm")
			inSession(t, k, 2, "user: plan my week\nwell", "assistant: hm")
			requests := model.Requests()
			if len(requests) != 2 {
				t.Fatalf("the model was asked %d times", len(requests))
			}
			prompt := ""
			for _, m := range requests[1].Messages {
				prompt += m.Text + "\n"
			}
			if strings.Contains(prompt, "secret") || !strings.Contains(prompt,
				"begins a new conversation: what was said before is not shown any more") {
				t.Errorf("the prompt is %s", prompt)
			}
			k.Say("a", "3", "and then?")
			pass(time.Second)
			inSession(t, k, 2, "user: plan my week\nwell", "assistant: hm", "user: and then?", "assistant: hm")
		})
	}
}

func TestNewWithATextLosesNothingInACrash(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first := apptest.New(t, apptest.Options{Dir: dir, Model: apptest.Script(apptest.Text("old"),
			apptest.Hangs())}).Start()
		first.Say("a", "1", "the first secret")
		pass(time.Second)
		first.Say("a", "2", "/new plan my week")
		pass(time.Second)
		first.Crash() // in the middle of its turn
		second := apptest.New(t, apptest.Options{Dir: dir, Model: apptest.Script(apptest.Text("planned"))}).Start()
		pass(time.Minute)
		second.WantTold("2", "planned")
		inSession(t, second, 2, "user: plan my week", "assistant: planned")
		second.Close()
	})
}

func TestNewWithATextBeginsTheSessionAlsoWhenItIsGivenUpOrStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Model: apptest.Script(apptest.Text("old"), apptest.Fails(broke()),
			apptest.Text("here"), apptest.Text("planned"), apptest.Hangs())}).Start()
		for _, m := range [][2]string{
			{"1", "the first secret"},
			{"2", "/new plan my week"},
			{"3", "are you there?"},
			{"4", "/retry 2"},
		} {
			k.Say("a", m[0], m[1])
			pass(time.Second)
		}
		inSession(t, k, 2, "user: are you there?", "assistant: here", "user: plan my week", "assistant: planned")
		k.Say("a", "5", "/new hang")
		pass(time.Second)
		k.Say("a", "6", "/stop")
		pass(time.Second)
		k.WantEnd("5", corebot.EndStopped)
		inSession(t, k, 3, "user: hang", "assistant: [stopped by the user]")
	})
}

func TestATurnThatBeganASessionCanBeSteered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Model: apptest.Script(searches("slow"), apptest.Text("done")),
			Tools: []tools.Tool{slowSearch()},
		}).Start()
		k.Say("a", "1", "/new look")
		pass(5 * time.Second)
		k.Say("a", "s", "/steer there")
		pass(time.Minute)
		k.WantTold("s", "Steering.")
		k.WantEnd("s", corebot.EndMerged)
	})
}

func TestAnUnknownCommandIsAnsweredAtOnceAndAsksNoModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.Hangs())
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "busy", "think for ever")
		pass(time.Second)
		for text, want := range map[string]string{
			"/sto": "There is no command /sto. Did you mean /stop? To say it as text, " +
				"begin with //.",
			"/STPO now": "There is no command /STPO. Did you mean /stop? To say it as text, " +
				"begin with //.",
			"/colour gpt": "There is no command /colour. /help lists the commands. To say it as " +
				"text, begin with //.",
			"/x\u202ey": `There is no command /x\u202ey. /help lists the commands. To say it as text, begin with //.`,
			"/" + strings.Repeat("é", 50_000): "There is no command /" + strings.Repeat("é", 19) +
				"…. /help lists the commands. To say it as text, begin with //.",
		} {
			id := fmt.Sprintf("m %d %d", len(text), text[1])
			k.Say("a", id, text)
			pass(10 * time.Second) // commands that do nothing have a rate limit
			k.WantTold(id, want)
			if life := k.Life(id); life.Direction != corebot.Control {
				t.Errorf("%q is %s", text, life.Direction)
			}
		}
		if n := len(model.Requests()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
		k.Say("a", "end", "/stop")
		pass(time.Second)
		inSession(t, k, 1, "user: think for ever", "assistant: [stopped by the user]")
	})
}

func TestTwoSlashesBeginALiteralText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Always(apptest.Text("hm"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		for text, want := range map[string]string{
			"//stop": "/stop", "/steer //stop": "/stop", "/tmp/file is full, why?": "/tmp/file is full, why?", "/": "/",
		} {
			k.Say("a", text, text)
			pass(time.Second)
			if last := model.Last().Messages; last[len(last)-1].Text != want {
				t.Errorf("%q was put to the model as %q", text, last[len(last)-1].Text)
			}
		}
	})
}
