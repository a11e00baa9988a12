package telegram_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

func TestAMessageIsEditedInItsPlaceAsItWouldBeSent(t *testing.T) {
	s := platform(t)
	s.Know(telegramtest.Chat{ID: telegramtest.Ann.ID})
	c := open(t, s)
	o := channels.Outbound{
		ID: "r1", Kind: corebot.KindReply, Parts: corebot.TextPart("…"),
		Key: corebot.Key{Channel: "telegram", Account: "main", Chat: fmt.Sprint(telegramtest.Ann.ID)},
	}
	sent, err := c.Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	id := sent.IDs[0]
	edit := func(text string) (channels.Receipt, error) {
		t.Helper()
		o.Parts = corebot.TextPart(text)
		return c.Edit(t.Context(), id, o)
	}
	long := "**bold** " + strings.Repeat("word ", 1000)
	for _, text := range []string{"**half of", "**half of** it", "**half of** it", long} { // the third changes nothing
		if _, err := edit(text); err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
	}
	shown := s.Shown(telegramtest.Ann.ID)
	if len(shown) != 1 || len(shown[0].Text) > 4096 || !slices.Equal(shown[0].Looks,
		[]telegramtest.Look{{Type: "bold", Length: 4}}) {
		t.Fatalf("the chat shows %d messages: %.60q, %+v", len(shown), shown[0].Text, shown[0].Looks)
	}
	reached, err := edit(long)
	if err != nil || reached.Reached < 4000 || reached.Reached > 4110 {
		t.Errorf("it reached %d of %d, %v", reached.Reached, len(long), err)
	}
	s.Faults(func(telegramtest.Call) telegramtest.Fault { return telegramtest.Fault{Code: 504, Page: "<h1>"} })
	if _, err := edit("half"); !errors.Is(err, channels.ErrMayBeShown) { // it can be carried out behind the reply
		t.Errorf("an edit that the platform is too ill for: %v", err)
	}
	s.Faults(nil)
	for range 2 { // the second finds nothing
		if err := c.Erase(t.Context(), o.Key, id); err != nil {
			t.Error(err)
		}
	}
	if _, err := edit("gone"); !errors.Is(err, channels.ErrGone) || len(s.Shown(telegramtest.Ann.ID)) != 0 {
		t.Errorf("an edit of a message that is gone: %v", err)
	}
}

func TestAnEditWhoseMarkupIsRefusedGoesAsPlainText(t *testing.T) {
	s := platform(t)
	s.Know(telegramtest.Chat{ID: telegramtest.Ann.ID})
	c := open(t, s)
	o := channels.Outbound{
		ID: "r1", Kind: corebot.KindReply, Parts: corebot.TextPart("…"),
		Key: corebot.Key{Channel: "telegram", Account: "main", Chat: fmt.Sprint(telegramtest.Ann.ID)},
	}
	sent, err := c.Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Faults(func(call telegramtest.Call) telegramtest.Fault {
		if strings.Contains(call.Text, "<b>") {
			return telegramtest.Fault{Code: 400, Description: "Bad Request: can't parse entities: no"}
		}
		return telegramtest.Fault{}
	})
	o.Parts = corebot.TextPart("**bold**")
	if _, err := c.Edit(t.Context(), sent.IDs[0], o); err != nil || s.Texts(telegramtest.Ann.ID)[0] != "bold" {
		t.Errorf("the chat shows %q, %v", s.Texts(telegramtest.Ann.ID), err)
	}
}

func TestDraftsAreOffAndRareInGroups(t *testing.T) {
	for stream, want := range map[time.Duration][2]time.Duration{
		0: {0, 0}, 2 * time.Second: {2 * time.Second, 6 * time.Second}, time.Minute: {time.Minute, time.Minute},
	} {
		made, err := telegram.New(telegram.Settings{
			Token: telegramtest.Token, APIURL: "http://127.0.0.1:1", Poll: time.Second, Stream: stream,
		}, channels.Site{Account: account, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		e := made.(channels.Editor)
		private, group := e.DraftEvery(corebot.Key{Chat: "1001"}), e.DraftEvery(corebot.Key{Chat: "-1001"})
		if got := [2]time.Duration{private, group}; got != want {
			t.Errorf("with %v the edits are %v apart", stream, got)
		}
	}
}
