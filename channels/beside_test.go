package channels_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// rich is a platform with buttons and files, whose messages have a largest size.
type rich struct{ narrow }

func (rich) MaxButtons() int { return 2 }
func (rich) ShowsFiles()     {}

// told is a notice with three actions and an image.
func told(text string) corebot.Message {
	m := corebot.TextNotice(apptest.Key("a"), "1", "q", text, corebot.Notice{
		Kind: corebot.NoticeAwaited, Actions: append(corebot.Approval{Request: 7}.Actions(), corebot.StopAction()),
	})
	m.Parts = append(m.Parts, corebot.Part{
		Type: corebot.PartImage, Hash: "ff", Name: "cat.png", MediaType: "image/png",
	})
	return m
}

func TestButtonsAndFilesComeWithTheLastPieceOfAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := rich{narrow{&platform{}, 8}}
		o.run(t, p)
		if _, err := o.Bus.Publish(t.Context(), told("one two three")); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if len(p.sent) != 2 {
			t.Fatalf("it was sent in %d pieces: %+v", len(p.sent), p.sent)
		}
		first, last := p.sent[0], p.sent[1]
		if len(first.Buttons) != 0 || first.Notice != nil || len(first.Parts) != 1 || first.Text() != "one two" {
			t.Errorf("the first piece is %+v", first)
		}
		if len(last.Buttons) != 2 || last.Buttons[0].Command != "/approve 7" || last.Buttons[1].Command != "/deny 7" ||
			last.Notice == nil || last.Text() != "three" || len(corebot.Attachments(last.Parts)) != 1 {
			t.Errorf("the last piece is %+v", last)
		}
	})
}

func TestAChannelWithoutAbilitiesGetsTheTextAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &platform{}
		o.run(t, p)
		if _, err := o.Bus.Publish(t.Context(), told("look")); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if len(p.sent) != 1 || len(p.sent[0].Buttons) != 0 || len(p.sent[0].Parts) != 1 ||
			p.sent[0].Text() != "look\n[image \"cat.png\" (image/png) cannot be shown here]" {
			t.Errorf("it was sent %+v", p.sent)
		}
	})
}

// A button press is a message of the presser, checked like any other.
func TestTheCommandOfAButtonIsAMessageOfWhoPressesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{}).Start()
		pressed := corebot.Approval{Request: 7}.Actions()[0]
		k.SayAs("mallory", "a", "press", pressed.Command)
		synctest.Wait()
		life, err := k.Lives.Find(t.Context(), "press")
		if err != nil || len(life) != 1 || life[0].Kind != corebot.KindControl ||
			life[0].Sender != apptest.Person("mallory") {
			t.Fatalf("the press is %+v, %v", life, err)
		}
		k.WantTold("press", "Only an admin can say that: of the chat that the call is made in, or everywhere.")
	})
}

var (
	_ channels.Buttons = rich{}
	_ channels.Files   = rich{}
)
