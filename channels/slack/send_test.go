package slack_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/slack"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

// reply sends a whole text to Ann, piece by piece, as the outbox does.
func reply(t *testing.T, c *slack.Channel, text string) error {
	t.Helper()
	o := channels.Outbound{ID: "r1", IdempotencyKey: "r1", Key: keyOf(slacktest.Direct, ""), Kind: corebot.KindReply}
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

func TestMarkdownBecomesMrkdwn(t *testing.T) {
	s := platform(t)
	c := open(t, s)
	for text, want := range map[string]string{
		"**bold** *it* ~~no~~ `a<b`":    "*bold* _it_ ~no~ `a&lt;b`",
		"[a|b](https://a.org/?x=1&y=2)": "<https://a.org/?x=1&amp;y=2|a¦b>",
		"[a](javascript:x)":             "a (javascript:x)",
		"<!channel> <@U0ANN> & *":       "&lt;!channel&gt; &lt;@U0ANN&gt; &amp; *\u200b",
		"```go\nif a {\n\tb()\n}\n```":  "```\nif a {\n\tb()\n}\n```",
		"> one\n> two":                  "> one\n> two",
		"a *b*c and 2_3_4":              "a _b_c and 2_3_4",
		"~~~\n```\nx\n```\n~~~":         "```\n`\u200b`\u200b`\nx\n`\u200b`\u200b`\n```",
	} {
		before := len(s.Texts(slacktest.Direct))
		if err := reply(t, c, text); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s.Texts(slacktest.Direct)[before:]; len(got) != 1 || got[0] != want {
			t.Errorf("%q is shown as %q and not %q", text, got, want)
		}
	}
}

func TestALongAnswerIsCutWithoutHarmToItsLooks(t *testing.T) {
	s := platform(t)
	text := "Look:\n\n```go\n" + strings.Repeat("\tif a < b && c { return \"😀\" }\n", 300) + "```\n\nThe **end**."
	if err := reply(t, open(t, s), text); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, m := range s.Texts(slacktest.Direct) {
		if n := strings.Count(m, "```"); n != 2 {
			t.Errorf("a message has %d marks of code: %.80q", n, m)
		}
		lines += strings.Count(m, "\tif a &lt; b &amp;&amp; c { return \"😀\" }\n")
	}
	if lines != 300 {
		t.Errorf("%d of 300 lines are whole", lines)
	}
}

func TestANoticeIsShownAsItIsWrittenWithItsButtons(t *testing.T) {
	s := platform(t)
	c := open(t, s)
	o := channels.Outbound{
		ID: "n1", IdempotencyKey: "n1", Key: keyOf(slacktest.Direct, ""), Kind: corebot.KindNotice,
		Parts:   corebot.TextPart("Run `rm *` and <b>?"),
		Buttons: []corebot.Action{{Label: "Approve", Command: "/approve 7"}},
	}
	if _, err := c.Send(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Buttons[0].Label = strings.Repeat("long", 30) // which Slack refuses
	if _, err := c.Send(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	shown := s.Shown(slacktest.Direct)
	if len(shown) != 2 || !shown[0].Plain || shown[0].Text != "Run `rm *` and &lt;b&gt;?" ||
		!strings.Contains(string(shown[0].Blocks), `"value":"/approve 7"`) || len(shown[1].Blocks) != 0 {
		t.Errorf("it is shown as %+v", shown)
	}
}

func TestAReplyStaysInItsThread(t *testing.T) {
	s := platform(t)
	root := s.Say(slacktest.Said{Channel: slacktest.Room, Text: "a thread"})
	_, err := open(t, s).Send(t.Context(), channels.Outbound{
		ID: "r1", Key: keyOf(slacktest.Room, root), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
	})
	if shown := s.Shown(slacktest.Room); err != nil || len(shown) != 1 || shown[0].Thread != root {
		t.Errorf("it is shown as %+v, %v", shown, err)
	}
}

func TestAFailedSendSaysWhetherAnotherTryCanHelp(t *testing.T) {
	const wait = 15 * time.Second
	faulty := func(f slacktest.Fault) func(*slacktest.Server) {
		return func(s *slacktest.Server) { s.Faults(func(slacktest.Call) slacktest.Fault { return f }) }
	}
	for name, c := range map[string]struct {
		spoil   func(*slacktest.Server)
		class   corebot.Class
		after   time.Duration
		unknown bool
	}{
		"a flood": {
			faulty(slacktest.Fault{Status: 429, RetryAfter: 35}), corebot.RateLimited, 35 * time.Second, false,
		},
		"a limit of the channel":  {faulty(slacktest.Fault{Error: "rate_limited"}), corebot.RateLimited, 0, false},
		"the token was revoked":   {(*slacktest.Server).Revoke, corebot.Cancelled, wait, false},
		"a scope is missing":      {faulty(slacktest.Fault{Error: "missing_scope"}), corebot.Cancelled, wait, false},
		"the channel is archived": {faulty(slacktest.Fault{Error: "is_archived"}), corebot.Permanent, 0, false},
		"nobody is there":         {(*slacktest.Server).Close, corebot.Cancelled, wait, false},
		"out of order": {
			faulty(slacktest.Fault{Status: 503, Page: "<h1>"}), corebot.RateLimited, wait, true,
		},
		"a catastrophe":      {faulty(slacktest.Fault{Error: "fatal_error"}), corebot.Transient, 0, true},
		"the answer is lost": {faulty(slacktest.Fault{DropAfter: true}), corebot.Transient, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := platform(t)
			c.spoil(s)
			err := reply(t, open(t, s), "hello")
			f := (*corebot.Failure)(nil)
			if !errors.As(err, &f) || f.Class != c.class || f.RetryAfter != c.after ||
				errors.Is(err, channels.ErrMayBeShown) != c.unknown {
				t.Errorf("it is %v: %+v", err, f)
			}
		})
	}
}

func TestOnlyTheAppsOwnMarkShowsThatAReplyIsThere(t *testing.T) {
	s := platform(t)
	c := open(t, s)
	o := channels.Outbound{
		ID: "r1", IdempotencyKey: "r1", Key: keyOf(slacktest.Direct, ""), Kind: corebot.KindReply,
		Parts: corebot.TextPart("hello"), CreatedAt: time.Now(),
	}
	s.Say(slacktest.Said{Text: "hello"}) // the same words of somebody else
	if _, shown, err := c.Delivered(t.Context(), o); shown || err != nil {
		t.Errorf("it is shown: %v, %v", shown, err)
	}
	s.Faults(func(c slacktest.Call) slacktest.Fault {
		return slacktest.Fault{DropAfter: c.Method == "chat.postMessage"}
	})
	if _, err := c.Send(t.Context(), o); !errors.Is(err, channels.ErrMayBeShown) {
		t.Error(err)
	}
	r, shown, err := c.Delivered(t.Context(), o)
	if want := s.Shown(slacktest.Direct)[0].TS; !shown || err != nil || len(r.IDs) != 1 || r.IDs[0] != want {
		t.Errorf("it is found as %+v, %v, %v", r, shown, err)
	}
}

func TestAQuestionThatSlackDoesNotAnswerIsAskedLaterOrLeftToTheSettings(t *testing.T) {
	o := channels.Outbound{
		ID: "r1", IdempotencyKey: "r1", Key: keyOf(slacktest.Direct, ""), Kind: corebot.KindReply,
		Parts: corebot.TextPart("hello"), CreatedAt: time.Now(),
	}
	for name, k := range map[string]struct {
		fault  slacktest.Fault
		cannot bool
		after  time.Duration
	}{
		"a long wait":           {slacktest.Fault{Status: 429, RetryAfter: 60}, false, time.Minute},
		"no scope":              {slacktest.Fault{Error: "missing_scope"}, true, 0},
		"refused for good":      {slacktest.Fault{Error: "access_denied"}, true, 0},
		"a channel that is not": {slacktest.Fault{Error: "channel_not_found"}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := platform(t)
			c, asked := open(t, s), 0
			s.Faults(func(c slacktest.Call) slacktest.Fault {
				if c.Method != "conversations.history" {
					return slacktest.Fault{}
				}
				asked++
				return k.fault
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, shown, err := c.Delivered(ctx, o)
			f, after := (*corebot.Failure)(nil), time.Duration(0)
			if errors.As(err, &f) && f.Class == corebot.RateLimited {
				after = f.RetryAfter
			}
			if shown || errors.Is(err, channels.ErrCannotTell) != k.cannot || after != k.after || asked != 1 {
				t.Errorf("%v, %v after %d questions", shown, err, asked)
			}
		})
	}
}
