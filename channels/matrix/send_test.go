package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/matrix"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

func keyOf(room, thread string) corebot.Key {
	return corebot.Key{Agent: "main", Channel: "matrix", Account: "main", Chat: room, Thread: thread}
}

func outbound(id, text string) channels.Outbound {
	return channels.Outbound{
		ID: id, IdempotencyKey: id, Key: keyOf(room, ""), Kind: corebot.KindReply, Parts: corebot.TextPart(text),
		CreatedAt: time.Now(),
	}
}

// reply sends a whole text, piece by piece, as the outbox does.
func reply(t *testing.T, c *matrix.Channel, o channels.Outbound) error {
	t.Helper()
	text := o.Text()
	for at := 0; ; {
		o.Before, o.Parts = text[:at], corebot.TextPart(text[at:])
		o.IdempotencyKey = fmt.Sprint(o.ID, at)
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

func TestMarkdownBecomesTheHTMLOfMatrix(t *testing.T) {
	for in, want := range map[string]string{
		"just words":                    "",
		"two\nlines & <tags>":           "",
		"**a *b* c** ~~d~~ `e<f`":       "<strong>a <em>b</em> c</strong> <del>d</del> <code>e&lt;f</code>",
		"# Title\n\n- a\n- **b**":       "<strong>Title</strong><br/><br/>• a<br/>• <strong>b</strong>",
		"```go\nx := \"<\"\ny\n```":     "<pre><code class=\"language-go\">x := &#34;&lt;&#34;\ny</code></pre>",
		"> a\n> **b**":                  "<blockquote>a<br/><strong>b</strong></blockquote>",
		"[a **b**](https://c.org/?d&e)": `<a href="https://c.org/?d&amp;e">a <strong>b</strong></a>`,
		"@room **look**":                "@room <strong>look</strong>",
	} {
		s := platform(t)
		s.Room(room)
		if err := reply(t, open(t, s), outbound("r1", in)); err != nil {
			t.Fatal(err)
		}
		if got := s.Shown(room); len(got) != 1 || got[0].HTML != want || got[0].Kind != "m.text" {
			t.Errorf("%q became %+v\nand not\n%s", in, got, want)
		}
	}
}

func TestALongAnswerIsCutByTheSizeOfEvents(t *testing.T) {
	for name, text := range map[string]string{
		"words":              strings.Repeat("many words, ", 20_000),
		"what grows as HTML": strings.Repeat("\"<&>\" **b** ", 10_000),
		"control characters": strings.Repeat("\x01 a", 10_000),
		"code": "Look:\n\n```go\n" + strings.Repeat(
			"\tif a < b && c { return \"😀\" }\n",
			3000,
		) + "```\n\nThe **end**.",
	} {
		t.Run(name, func(t *testing.T) {
			s := platform(t)
			s.Room(room)
			if err := reply(t, open(t, s), outbound("r1", text)); err != nil {
				t.Fatal(err)
			}
			shown := s.Shown(room)
			if len(shown) < 2 || len(shown) > 30 {
				t.Errorf("%d messages are shown", len(shown))
			}
			strip := strings.NewReplacer("*", "", " ", "", "\n", "", "`", "", "\t", "", "go", "")
			if got, want := strip.Replace(strings.Join(s.Texts(room), "")), strip.Replace(text); got != want {
				t.Errorf("of %d characters %d are shown", len(want), len(got))
			}
		})
	}
}

func TestAPieceThatTheHomeserverCallsTooLargeIsCutSmaller(t *testing.T) {
	s := platform(t)
	s.Room(room)
	s.Faults(func(c matrixtest.Call) matrixtest.Fault {
		if body, _ := c.Body["body"].(string); c.Name == "send" && len(body) > 5000 {
			return matrixtest.Fault{Status: 413, Code: "M_TOO_LARGE", Error: "too large"}
		}
		return matrixtest.Fault{}
	})
	if err := reply(t, open(t, s), outbound("r1", strings.Repeat("many words, ", 1000))); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Shown(room)); n < 3 {
		t.Errorf("%d messages are shown", n)
	}
}

func TestAReplyStaysInItsThreadAndAnswersItsMessage(t *testing.T) {
	s := platform(t)
	const group = "!group:test"
	s.Room(room)
	s.Room(group, matrixtest.Ann, "@bob:test")
	asked := s.Say(matrixtest.Said{Room: group, Text: "a question"})
	c := open(t, s)
	for _, o := range []channels.Outbound{
		{ID: "1", Key: keyOf(room, ""), InReplyTo: asked},
		{ID: "2", Key: keyOf(group, ""), InReplyTo: asked},
		{ID: "3", Key: keyOf(group, "$root"), InReplyTo: asked},
		{ID: "4", Key: keyOf(group, "$root"), InReplyTo: "corebot:task/1"},
	} {
		o.IdempotencyKey, o.Kind, o.Parts = o.ID, corebot.KindReply, corebot.TextPart("text "+o.ID)
		if _, err := c.Send(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Shown(room); got[0].ReplyTo != "" || got[0].Thread != "" {
		t.Errorf("alone with a person it says %+v", got)
	}
	got := s.Shown(group)
	if got[0].ReplyTo != asked || got[0].Thread != "" || got[1].Thread != "$root" || got[1].ReplyTo != asked ||
		got[2].Thread != "$root" || got[2].ReplyTo != "$root" {
		t.Errorf("in the group it says %+v", got)
	}
}

func TestANoticeIsShownAsItIsWritten(t *testing.T) {
	s := platform(t)
	s.Room(room)
	o := outbound("n1", "call **now** `x`")
	o.Kind = corebot.KindNotice
	if err := reply(t, open(t, s), o); err != nil {
		t.Fatal(err)
	}
	if got := s.Shown(room)[0]; got.Body != "call **now** `x`" || got.HTML != "" {
		t.Errorf("it is %+v", got)
	}
}

func TestASendThatIsMadeAgainIsShownOnceAlsoAfterARestartOfTheHomeserver(t *testing.T) {
	s := platform(t)
	s.Room(room)
	c := open(t, s)
	o := outbound("r1", strings.Repeat("many words, ", 4000))
	first, err := c.Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Send(t.Context(), o)
	if err != nil || !slices.Equal(first.IDs, again.IDs) || len(s.Shown(room)) != 1 {
		t.Fatalf("%+v and %+v, %v: %d are shown", first, again, err, len(s.Shown(room)))
	}
	s.Restart()
	for range 300 { // others go on
		s.Say(
			matrixtest.Said{Room: room, Text: "chatter", Content: map[string]any{"com.github.corebot.sent": "forged"}},
		)
	}
	found, shown, err := open(t, s).Delivered(t.Context(), o)
	if err != nil || !shown || !slices.Equal(found.IDs, first.IDs) || found.Reached != first.Reached {
		t.Errorf("it is found as %+v, %v, %v and was %+v", found, shown, err, first)
	}
	other := o
	other.Parts = corebot.TextPart(o.Text() + "!")
	if _, shown, err := c.Delivered(t.Context(), other); shown || err != nil {
		t.Errorf("another text is found: %v, %v", shown, err)
	}
	other = o
	other.Key.Thread = "$root"
	if _, shown, err := c.Delivered(t.Context(), other); shown || err != nil {
		t.Errorf("the same in a thread is found: %v, %v", shown, err)
	}
}

func TestSomebodyElsesEventIsNotTakenForASend(t *testing.T) {
	s := platform(t)
	s.Room(room)
	c := open(t, s)
	o := outbound("r1", "hello")
	if _, err := c.Send(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sent := s.Shown(room)[0]
	s.Redact(room, matrixtest.Bot, sent.ID)
	s.Say(matrixtest.Said{Room: room, From: "@eve:test", Content: sent.Content})
	if _, shown, err := c.Delivered(t.Context(), o); shown || err != nil {
		t.Errorf("a copy of somebody else is found: %v, %v", shown, err)
	}
}

func TestAnEventThatIsTooFarBackCannotBeTold(t *testing.T) {
	s := platform(t)
	s.Room(room)
	c := open(t, s)
	o := outbound("r1", "hello")
	for range 2100 {
		s.Say(matrixtest.Said{Room: room, Text: "chatter"})
	}
	if _, shown, err := c.Delivered(t.Context(), o); shown || !errors.Is(err, channels.ErrCannotTell) {
		t.Errorf("it says %v, %v", shown, err)
	}
}

func TestAFailedSendSaysWhetherAnotherTryCanHelp(t *testing.T) {
	for name, c := range map[string]struct {
		fault matrixtest.Fault
		class corebot.Class
		after time.Duration
	}{
		"a flood": {matrixtest.Flood(1500), corebot.RateLimited, 1500 * time.Millisecond},
		"a flood by its header": {
			matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Header: http.Header{"Retry-After": {"3"}}},
			corebot.RateLimited,
			3 * time.Second,
		},
		"a flood for ever": {matrixtest.Flood(1e18), corebot.RateLimited, channels.Unsent},
		"not in the room": {
			matrixtest.Fault{Status: 403, Code: "M_FORBIDDEN", Error: "no"},
			corebot.Permanent,
			0,
		},
		"the server is ill": {
			matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Error: "no"},
			corebot.RateLimited,
			channels.Unsent,
		},
		"a proxy is ill":  {matrixtest.Fault{Status: 502, Page: "oops"}, corebot.RateLimited, channels.Unsent},
		"a proxy refuses": {matrixtest.Fault{Status: 403, Page: "oops"}, corebot.Cancelled, channels.Unsent},
		"the token is unknown": {
			matrixtest.Fault{Status: 401, Code: "M_UNKNOWN_TOKEN", Error: "no"},
			corebot.Cancelled,
			channels.Unsent,
		},
		"the token has expired": {
			matrixtest.Fault{Status: 401, Code: "M_UNKNOWN_TOKEN", Soft: true},
			corebot.Cancelled,
			channels.Unsent,
		},
		"the event is not right": {
			matrixtest.Fault{Status: 400, Code: "M_BAD_JSON", Error: "no"},
			corebot.Permanent,
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := platform(t)
			s.Room(room)
			channel := open(t, s)
			s.Faults(func(matrixtest.Call) matrixtest.Fault { return c.fault })
			_, err := channel.Send(t.Context(), outbound("r1", "hello"))
			f := (*corebot.Failure)(nil)
			if !errors.As(err, &f) || f.Class != c.class || f.RetryAfter != c.after {
				t.Errorf("it failed with %#v", err)
			}
			if ill := strings.HasSuffix(name, " is ill"); errors.Is(err, channels.ErrMayBeShown) != ill {
				t.Errorf("whether it may be shown: %v", err)
			}
			// A question waits, however long the homeserver is ill: see channels.OutOfOrder.
			_, _, err = channel.Delivered(t.Context(), outbound("r1", "hello"))
			err = channels.Unsure(err)
			if ill := strings.HasSuffix(name, " is ill"); errors.Is(err, channels.ErrMayBeShown) != ill {
				t.Errorf("it is asked whether it is shown: %#v", err)
			}
		})
	}
	t.Run("the answer is lost", func(t *testing.T) {
		s := platform(t)
		s.Room(room)
		channel := open(t, s)
		s.Faults(func(matrixtest.Call) matrixtest.Fault { return matrixtest.Fault{DropAfter: true} })
		_, err := channel.Send(t.Context(), outbound("r1", "hello"))
		if !errors.Is(err, channels.ErrMayBeShown) || len(s.Shown(room)) != 1 {
			t.Errorf("it failed with %v", err)
		}
	})
	t.Run("nobody is there", func(t *testing.T) {
		s := platform(t)
		channel := open(t, s)
		s.Close()
		_, err := channel.Send(t.Context(), outbound("r1", "hello"))
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Cancelled {
			t.Errorf("it failed with %v", err)
		}
	})
}

func TestAChatThatCannotBeOnMatrixIsRefusedWithoutARequest(t *testing.T) {
	s := platform(t)
	c := open(t, s)
	for _, k := range []corebot.Key{
		keyOf("room", ""), keyOf("!", ""), keyOf("!"+strings.Repeat("x", 300), ""), keyOf(room, "thread"),
		keyOf("!a\nb:test", ""),
	} {
		o := outbound("r1", "hello")
		o.Key = k
		_, err := c.Send(t.Context(), o)
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
			t.Errorf("%s: %v", k, err)
		}
		if _, err := c.Typing(t.Context(), k); err == nil {
			t.Errorf("%s: it types", k)
		}
	}
	if n := len(s.Calls("send")); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestARoomWithOddCharactersIsAddressed(t *testing.T) {
	s := platform(t)
	const odd = "!../?#%2F&:te st"
	s.Room(odd)
	c := open(t, s)
	o := outbound("r1", "hello")
	o.Key.Chat = odd
	if _, err := c.Send(t.Context(), o); err != nil || len(s.Shown(odd)) != 1 {
		t.Errorf("%v: %+v", err, s.Shown(odd))
	}
	if _, err := c.Typing(t.Context(), o.Key); err != nil || s.Typing(odd) != 1 {
		t.Errorf("typing: %v", err)
	}
}

func TestASendEndsWithItsContext(t *testing.T) {
	s := platform(t)
	s.Room(room)
	c := open(t, s)
	s.Silence(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Send(ctx, outbound("r1", "hello")); !errors.Is(err, channels.ErrMayBeShown) {
		t.Errorf("it ended with %v", err)
	}
}
