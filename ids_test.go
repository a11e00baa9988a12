package corebot_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/corebot/corebot"
)

// What Corebot makes of different messages, runs and ordinals is never the same, whatever ids their senders chose.
func TestNoIDOfASenderMakesAnIDThatAnotherHas(t *testing.T) {
	ids := []string{
		"a", "a/1", "a/1/1", "a/1/1/1", "sent/5", "sent/5/1", "5", "5/1", "1", "1/1", "/", "a/", "/1", "a/1/stopped",
		"a/stop", "corebot", "corebot/sent/5", "approval/5", "budget", "lane/7", "a/1/1/sent",
	}
	made := map[string]string{}
	put := func(id, of string) {
		if other, taken := made[id]; taken {
			t.Errorf("%s and %s both make %q", other, of, id)
		}
		made[id] = of
	}
	for _, id := range ids {
		if err := corebot.CheckID(id); err != nil {
			t.Fatal(err)
		}
		for run := 1; run <= 12; run++ {
			d := corebot.Delivery{Message: corebot.Message{ID: id}, Run: run}
			for ordinal := 1; ordinal <= 12; ordinal++ {
				put(d.StepID(ordinal), fmt.Sprintf("reply %d of run %d of %q", ordinal, run, id))
			}
			for _, name := range []string{
				"notice", "gave-up", "stopped", "refused", "delayed", "new", "help", "pairing",
			} {
				put(d.RunID()+"/"+name, fmt.Sprintf("notice %s of run %d of %q", name, run, id))
			}
		}
		for _, c := range corebot.Commands() {
			if corebot.Read(c.Name).Kind == corebot.KindControl {
				put(id+c.Name, fmt.Sprintf("what %s %q is told", c.Name, id))
			}
		}
	}
	for life := int64(1); life <= 12; life++ {
		for run := 1; run <= 12; run++ {
			for position := 0; position <= 12; position++ {
				put(corebot.Delivery{Life: life, Run: run}.PostID(position),
					fmt.Sprintf("post %d of run %d of life %d", position, run, life))
			}
		}
		put(corebot.OwnID("approval", life), fmt.Sprint("approval ", life))
		put(corebot.OwnID("approval", life, "awaited"), fmt.Sprint("what waits for approval ", life))
		put(corebot.OwnID("lane", life, 1), fmt.Sprint("given up in lane ", life))
	}
}

func TestASenderCannotGiveAnIDOfCorebotsOwn(t *testing.T) {
	for _, id := range []string{"corebot:", "corebot:sent/5/1/1"} {
		if err := corebot.CheckID(id); !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A turn's own answers have the id of its message in the history, whoever chose that.
func TestAnAnswerIsNoPostWhateverTheIDOfItsMessage(t *testing.T) {
	for id, posted := range map[string]bool{
		"sent/5": false, "sent/": false, "sent": false, "5": false, "sent/5/1/x": false,
		"sent/5/1/1": true, // of an earlier version of Corebot
		corebot.Delivery{Life: 5, Run: 1}.PostID(0): true,
	} {
		if e := (corebot.HistoryEntry{Speaker: corebot.SpeakerAssistant, MessageID: id}); e.Posted() != posted {
			t.Errorf("%q is posted: %v", id, e.Posted())
		}
	}
}

func TestAPrincipalIsReadAsItsPlatformShowsIt(t *testing.T) {
	for text, want := range map[string]corebot.Principal{
		"telegram:main:1001":              {Channel: "telegram", Account: "main", ID: "1001"},
		"mail:main:ann@example.org":       {Channel: "mail", Account: "main", ID: "ann@example.org"},
		"mail:main:ann%40example%2Eorg":   {Channel: "mail", Account: "main", ID: "ann@example.org"},
		"matrix:main:@ann:example.org":    {Channel: "matrix", Account: "main", ID: "@ann:example.org"},
		"slack:main:T1/U2":                {Channel: "slack", Account: "main", ID: "T1/U2"},
		"main:telegram:main:1001":         {},
		"telegram:main:":                  {},
		"mail:main":                       {},
		"mail:main:ann%40example.org":     {},
		"mail:main:ann\u202e@example.org": {},
	} {
		p, err := corebot.ReadPrincipal(text)
		if want != (corebot.Principal{}) && (err != nil || p != want) || want == (corebot.Principal{}) && err == nil &&
			p.Validate() == nil {
			t.Errorf("%q is read as %+v, %v", text, p, err)
		}
	}
}
