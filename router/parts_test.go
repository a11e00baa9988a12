package router_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
)

// cat is an image that somebody sent.
var cat = corebot.Part{Type: corebot.PartImage, Hash: "c0ffee", Name: "cat.png", MediaType: "image/png"}

// attachments are those that the model was shown last.
func attachments(m *apptest.Model) (parts []corebot.Part) {
	for _, message := range m.Last().Messages {
		parts = append(parts, message.Parts...)
	}
	return parts
}

func TestASteerBringsItsAttachmentsAlsoToTheTurnThatIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		model := apptest.Script(searches("slow"), apptest.After(time.Hour, apptest.Text("too late")))
		k := apptest.New(t, apptest.Options{Dir: dir, Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		pass(time.Second)
		in := channels.Incoming{
			ID: "s", Channel: apptest.Channel, Chat: "a", SenderID: apptest.Sender,
			Parts: append(corebot.TextPart("/steer for this one"), cat),
		}
		if _, err := k.Door.Accept(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if got := attachments(model); !slices.Equal(got, []corebot.Part{cat}) {
			t.Errorf("the turn was shown %+v", got)
		}
		k.Crash()
		model = apptest.Script(apptest.Text("done"))
		k = apptest.New(t, apptest.Options{Dir: dir, Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		pass(10 * time.Minute)
		k.WantEnd("1", corebot.EndAnswered)
		if got := attachments(model); !slices.Equal(got, []corebot.Part{cat}) {
			t.Errorf("the resumed turn was shown %+v", got)
		}
		for _, e := range k.Said("a") {
			if e.Speaker == corebot.SpeakerUser && e.Text() == "for this one" &&
				slices.Equal(e.Parts, append(corebot.TextPart("for this one"), cat)) {
				return
			}
		}
		t.Errorf("the history is %+v", k.Said("a"))
	})
}

func TestADeadLetterKeepsItsAttachmentsWhenItsTextIsEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.Fails(&corebot.Failure{Class: corebot.Permanent, Err: errors.New("no")}),
			apptest.Text("a cat"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		in := channels.Incoming{
			ID: "1", Channel: apptest.Channel, Chat: "a", SenderID: apptest.Sender,
			Parts: append(corebot.TextPart("whta?"), cat),
		}
		if _, err := k.Door.Accept(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		k.WantEnd("1", corebot.EndDead)
		if err := k.DeadLetters.Edit(t.Context(), k.Life("1").ID, "2", "what?"); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		k.WantEnd("2", corebot.EndAnswered)
		if got := attachments(model); !slices.Equal(got, []corebot.Part{cat}) {
			t.Errorf("the model was shown %+v", got)
		}
	})
}
