package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

var forum = telegramtest.Chat{ID: -1001, Type: "supergroup", Title: "All", IsForum: true}

func keyOf(chat int64, thread string) corebot.Key {
	return corebot.Key{Agent: "main", Channel: "telegram", Account: "main", Chat: fmt.Sprint(chat), Thread: thread}
}

// reply sends a whole text to Ann, piece by piece, as the outbox does.
func reply(t *testing.T, c *telegram.Channel, text string) error {
	t.Helper()
	o := channels.Outbound{ID: "r1", Key: keyOf(telegramtest.Ann.ID, ""), Kind: corebot.KindReply}
	for at := 0; ; {
		o.Before, o.Parts = text[:at], corebot.TextPart(text[at:])
		receipt, err := c.Send(t.Context(), o)
		if err != nil {
			return err
		}
		if receipt.Reached == 0 || at+receipt.Reached >= len(text) {
			return nil
		}
		at += receipt.Reached
	}
}

// known is a server that knows Ann.
func known(t *testing.T) (*telegramtest.Server, *telegram.Channel) {
	t.Helper()
	s := platform(t)
	s.Know(telegramtest.Chat{ID: telegramtest.Ann.ID})
	return s, open(t, s)
}

func TestALongAnswerIsCutWithoutHarmToItsLooks(t *testing.T) {
	s, c := known(t)
	text := "Look:\n\n```go\n" + strings.Repeat("\tif a < b && c { return \"😀\" }\n", 300) + "```\n\nThe **end**."
	if err := reply(t, c, text); err != nil {
		t.Fatal(err)
	}
	shown := s.Shown(telegramtest.Ann.ID)
	if len(shown) != 3 {
		t.Fatalf("%d messages are shown", len(shown))
	}
	lines := 0
	for i, m := range shown {
		if len(m.Looks) == 0 || m.Looks[0].Type != "pre" {
			t.Errorf("message %d looks like %v", i, m.Looks)
		}
		for line := range strings.Lines(m.Text) {
			if strings.TrimRight(line, "\n") == "\tif a < b && c { return \"😀\" }" {
				lines++
			}
		}
	}
	if lines != 300 || !strings.HasSuffix(shown[2].Text, "The end.") {
		t.Errorf("%d lines of code are whole, and the last message ends as %q", lines, shown[2].Text)
	}
}

func TestExactlyThePieceWhoseMarkupIsRefusedGoesAsPlainText(t *testing.T) {
	s, c := known(t)
	n := 0
	s.Faults(func(c telegramtest.Call) telegramtest.Fault {
		if c.Method == "sendMessage" {
			n++
		}
		if c.Method == "sendMessage" && n == 2 {
			return telegramtest.Fault{Code: 400, Description: "Bad Request: can't parse entities: never mind"}
		}
		return telegramtest.Fault{}
	})
	one := "**bold** [link](http://a.org) " + strings.Repeat("many words, ", 300)
	if err := reply(t, c, strings.TrimSpace(one+"\n\n"+one+"\n\n"+one)); err != nil {
		t.Fatal(err)
	}
	shown := s.Shown(telegramtest.Ann.ID)
	if len(shown) != 3 || len(shown[0].Looks) != 2 || len(shown[1].Looks) != 0 || len(shown[2].Looks) != 2 {
		t.Fatalf("the messages look like %+v", shown)
	}
	if !strings.HasPrefix(shown[1].Text, "bold link (http://a.org) many words") {
		t.Errorf("the plain one begins as %.60q", shown[1].Text)
	}
}

func TestAPieceThatThePlatformCallsTooLongIsCutSmaller(t *testing.T) {
	s, c := known(t)
	s.Faults(func(c telegramtest.Call) telegramtest.Fault {
		if len(c.Text) > 1500 {
			return telegramtest.Fault{Code: 400, Description: "Bad Request: message is too long"}
		}
		return telegramtest.Fault{}
	})
	if err := reply(t, c, strings.Repeat("word ", 600)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.Texts(telegramtest.Ann.ID), " "); got != strings.TrimSpace(strings.Repeat("word ", 600)) {
		t.Errorf("the chat shows %d bytes", len(got))
	}
}

func TestAReplyStaysInItsTopicAndAnswersItsMessage(t *testing.T) {
	s, c := known(t)
	asked := s.Say(telegramtest.Said{Chat: forum, Thread: 7, Text: "@corebot_bot hello"})
	o := channels.Outbound{
		ID: "r1", Key: keyOf(forum.ID, "7"), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
		InReplyTo: fmt.Sprint(asked),
	}
	if _, err := c.Send(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.InReplyTo = "99" // was deleted
	receipt, err := c.Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	shown := s.Shown(forum.ID)
	if len(shown) != 2 || shown[0].Thread != 7 || shown[0].ReplyTo != asked || shown[1].ReplyTo != 0 {
		t.Errorf("the group shows %+v", shown)
	}
	if want := []string{fmt.Sprint(shown[1].ID)}; !slices.Equal(receipt.IDs, want) {
		t.Errorf("the receipt is %+v", receipt)
	}
	if _, err := c.Typing(t.Context(), keyOf(forum.ID, "7")); err != nil || s.Typing(forum.ID) != 1 {
		t.Errorf("typing: %v, shown %d times", err, s.Typing(forum.ID))
	}
}

func TestANoticeIsShownAsItIsWritten(t *testing.T) {
	s, c := known(t)
	const text = "Run `rm *` and **more**? <b>\n# x"
	_, err := c.Send(t.Context(), channels.Outbound{
		ID: "n1", Key: keyOf(telegramtest.Ann.ID, ""), Kind: corebot.KindNotice, Parts: corebot.TextPart(text),
	})
	if got := s.Texts(telegramtest.Ann.ID); err != nil || !slices.Equal(got, []string{text}) {
		t.Errorf("the chat shows %q, %v", got, err)
	}
}

func TestTheButtonsStandBelowTheLastPiece(t *testing.T) {
	s, c := known(t)
	text := strings.Repeat("many words, ", 500)
	o := channels.Outbound{
		ID: "n1", Key: keyOf(telegramtest.Ann.ID, ""), Kind: corebot.KindNotice, Parts: corebot.TextPart(text),
		Buttons: []corebot.Action{{Label: "Stop", Command: "/stop"}},
	}
	receipt, err := c.Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Before, o.Parts = text[:receipt.Reached], corebot.TextPart(text[receipt.Reached:])
	if _, err := c.Send(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	shown := s.Shown(telegramtest.Ann.ID)
	if len(shown) != 2 || len(shown[0].Buttons) != 0 || len(shown[1].Buttons) != 1 {
		t.Errorf("the chat shows %+v", shown)
	}
}

func TestAGroupThatBecameASupergroupIsFound(t *testing.T) {
	s, c := known(t)
	s.Know(forum)
	asked := s.Say(telegramtest.Said{Chat: forum, From: telegramtest.Ann, Text: "a question"})
	other, err := c.Send(t.Context(), channels.Outbound{
		ID: "r0", Key: keyOf(forum.ID, ""), Kind: corebot.KindReply, Parts: corebot.TextPart("another answer"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Faults(func(c telegramtest.Call) telegramtest.Fault {
		if c.Chat != -55 {
			return telegramtest.Fault{}
		}
		return telegramtest.Fault{
			Code: 400, Description: "Bad Request: group chat was upgraded to a supergroup chat", MigrateTo: forum.ID,
		}
	})
	// In the supergroup the numbers of the group's messages are those of others.
	o := channels.Outbound{
		ID: "r1", Key: keyOf(-55, ""), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
		InReplyTo: fmt.Sprint(asked),
	}
	if _, err := c.Edit(t.Context(), other.IDs[0], o); !errors.Is(err, channels.ErrGone) {
		t.Errorf("an edit gives %v", err)
	}
	if err := c.Erase(t.Context(), o.Key, other.IDs[0]); err == nil {
		t.Error("a message of the group was taken back")
	}
	_, err = c.Send(t.Context(), o)
	if got := s.Texts(forum.ID); err != nil || !slices.Equal(got, []string{"another answer", "hello"}) {
		t.Errorf("the supergroup shows %q, %v", got, err)
	}
	if last := s.Shown(forum.ID)[1]; last.ReplyTo != 0 {
		t.Errorf("it stands below the message %d", last.ReplyTo)
	}
}

// class is how a failed send is to be treated.
type class struct {
	corebot.Class
	After   time.Duration
	Unknown bool // the message may be shown
}

func TestAFailedSendSaysWhetherAnotherTryCanHelp(t *testing.T) {
	const wait = 15 * time.Second
	outage, unsent := class{corebot.RateLimited, wait, true}, class{corebot.Cancelled, wait, false}
	unknown := class{corebot.Transient, 0, true}
	for name, c := range map[string]struct {
		spoil func(*telegramtest.Server)
		want  class
	}{
		"the person has blocked the bot": {
			func(s *telegramtest.Server) { s.Block(telegramtest.Ann.ID) }, class{corebot.Permanent, 0, false},
		},
		"a flood": {
			func(s *telegramtest.Server) { s.Refuse(1, 35) }, class{corebot.RateLimited, 35 * time.Second, false},
		},
		"the token was revoked": {(*telegramtest.Server).Revoke, unsent},
		"nobody is there":       {(*telegramtest.Server).Close, unsent},
		"the platform is out of order": {
			faulty(telegramtest.Fault{Code: 502, Page: "<h1>Bad Gateway</h1>"}), outage,
		},
		"an error of the platform": {
			faulty(telegramtest.Fault{Code: 500, Description: "Internal Server Error"}),
			outage,
		},
		"the answer is lost":             {faulty(telegramtest.Fault{DropAfter: true}), unknown},
		"the request is lost, or so":     {faulty(telegramtest.Fault{Drop: true}), unknown},
		"a proxy asks for a login first": {faulty(telegramtest.Fault{Code: 407, Page: "x"}), unsent},
	} {
		t.Run(name, func(t *testing.T) {
			s, channel := known(t)
			c.spoil(s)
			err := reply(t, channel, "hello")
			failure := (*corebot.Failure)(nil)
			if !errors.As(err, &failure) {
				t.Fatalf("the error is %v", err)
			}
			got := class{failure.Class, failure.RetryAfter, errors.Is(err, channels.ErrMayBeShown)}
			if got != c.want {
				t.Errorf("%v is %+v and not %+v", err, got, c.want)
			}
		})
	}
}

func faulty(f telegramtest.Fault) func(*telegramtest.Server) {
	return func(s *telegramtest.Server) {
		s.Faults(func(telegramtest.Call) telegramtest.Fault { return f })
	}
}

func TestASendThatIsEndedMayBeShown(t *testing.T) {
	s, c := known(t)
	s.Silence(true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := c.Send(ctx, channels.Outbound{
		ID: "r1", Key: keyOf(telegramtest.Ann.ID, ""), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
	})
	if !errors.Is(err, channels.ErrMayBeShown) {
		t.Errorf("it ended with %v", err)
	}
}

func TestAChatThatCannotBeOnThePlatformIsRefused(t *testing.T) {
	_, c := known(t)
	for _, k := range []corebot.Key{{Chat: "@somebody"}, {Chat: "7", Thread: "x"}} {
		_, err := c.Send(t.Context(), channels.Outbound{ID: "r1", Key: k, Parts: corebot.TextPart("hello")})
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
			t.Errorf("%+v: %v", k, err)
		}
	}
}
