package discord_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/discord/discordtest"
)

// toAnn is a message to Ann alone.
func toAnn(id string, kind corebot.Kind, text string) channels.Outbound {
	return channels.Outbound{
		ID: id, IdempotencyKey: id, Kind: kind, Parts: corebot.TextPart(text), CreatedAt: time.Now(),
		Key: corebot.Key{
			Agent: "main", Channel: "discord", Account: "main", Chat: discordtest.DirectOf(discordtest.Ann),
		},
	}
}

func TestAFailedSendSaysWhatBecomesOfItsMessage(t *testing.T) {
	for name, k := range map[string]struct {
		fault discordtest.Fault
		class corebot.Class
		after time.Duration // the least wait
		says  string
	}{
		"no access": {
			discordtest.Fault{Status: 403, Code: 50001, Message: "Missing Access"},
			corebot.Permanent, 0, "may not write",
		},
		"no rights": {
			discordtest.Fault{Status: 403, Code: 50013, Message: "Missing Permissions"},
			corebot.Permanent, 0, "may not write",
		},
		"closed to bots": {
			discordtest.Fault{Status: 403, Code: 50007, Message: "Cannot send"},
			corebot.Permanent, 0, "no direct messages",
		},
		"it is gone": {
			discordtest.Fault{Status: 404, Code: 10003, Message: "Unknown Channel"},
			corebot.Permanent, 0, "Unknown Channel",
		},
		"a bad body": {
			discordtest.Fault{Status: 400, Code: 50035, Message: "Invalid Form Body"},
			corebot.Permanent, 0, "Invalid Form",
		},
		"a revoked token": {
			discordtest.Fault{Status: 401, Message: "401: Unauthorized"},
			corebot.Cancelled, channels.Unsent,
			"unknown to Discord",
		},
		"a rate": {discordtest.Flood(3), corebot.RateLimited, 3 * time.Second, "rate limited"},
		"its fall": {
			discordtest.Fault{Status: 503, Message: "oops"}, corebot.RateLimited, channels.Unsent, "oops",
		},
		"a page": {
			discordtest.Fault{Status: 502, Page: "<html>"}, corebot.RateLimited, channels.Unsent, "is not Discord",
		},
		"a lost answer": {discordtest.Fault{DropAfter: true}, corebot.Transient, 0, "may have been sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := platform(t)
			s.Know(discordtest.Ann)
			s.Faults(func(c discordtest.Call) discordtest.Fault {
				if c.Name == "send" {
					return k.fault
				}
				return discordtest.Fault{}
			})
			_, err := open(t, s).Send(t.Context(), toAnn("1", corebot.KindReply, "hello"))
			f := (*corebot.Failure)(nil)
			class, after := corebot.Transient, time.Duration(0)
			if errors.As(err, &f) {
				class, after = f.Class, f.RetryAfter
			}
			if err == nil || class != k.class || after < k.after || !strings.Contains(err.Error(), k.says) {
				t.Errorf("it ends with %v, %v, after %v", err, class, after)
			}
			unknown := k.fault.Status >= 500 || k.fault.DropAfter
			if errors.Is(err, channels.ErrMayBeShown) != unknown {
				t.Errorf("whether it may be shown: %v", err)
			}
			if err != nil && strings.Contains(err.Error()+corebot.HintOf(err), discordtest.Token) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

// TestARateOfTheWholeBotHoldsEveryRequest: requests in that time extend a ban.
func TestARateOfTheWholeBotHoldsEveryRequest(t *testing.T) {
	s := platform(t)
	s.Know(discordtest.Ann)
	sends := 0
	s.Faults(func(c discordtest.Call) discordtest.Fault {
		if c.Name == "send" {
			sends++
		}
		return discordtest.Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: 60, Global: true}
	})
	c := open(t, s)
	for range 3 {
		_, err := c.Send(t.Context(), toAnn("1", corebot.KindReply, "hello"))
		f := (*corebot.Failure)(nil)
		if !errors.As(err, &f) || f.Class != corebot.RateLimited || f.RetryAfter < 50*time.Second {
			t.Errorf("it ends with %v", err)
		}
	}
	if sends != 1 {
		t.Errorf("the platform was asked %d times", sends)
	}
}

func TestALostAnswerShowsAMessageOnce(t *testing.T) {
	s := platform(t)
	s.Know(discordtest.Ann)
	lost := true
	s.Faults(func(c discordtest.Call) discordtest.Fault {
		if c.Name == "send" && lost {
			lost = false
			return discordtest.Fault{DropAfter: true}
		}
		return discordtest.Fault{}
	})
	c, o := open(t, s), toAnn("1", corebot.KindReply, "hello")
	if _, err := c.Send(t.Context(), o); err == nil {
		t.Fatal("no answer was lost")
	}
	if r, err := c.Send(t.Context(), o); err != nil || len(r.IDs) != 1 { // the nonce is the same
		t.Errorf("%+v, %v", r, err)
	}
	if got := s.Texts(o.Key.Chat); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("the chat shows %q", got)
	}
}

func TestALongAnswerIsCutWithoutHarmToItsCode(t *testing.T) {
	s := platform(t)
	s.Know(discordtest.Ann)
	const line, last = "\tif a < b && c { return \"😀\" }\n", "The **end**, @everyone."
	text := "Look:\n\n```go\n" + strings.Repeat(line, 200) + "```\n\n" + last
	c, o := open(t, s), toAnn("1", corebot.KindReply, "")
	for at := 0; at < len(text); {
		o.Before, o.Parts = text[:at], corebot.TextPart(text[at:])
		r, err := c.Send(t.Context(), o)
		if err != nil || r.Reached <= 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		at += r.Reached
	}
	shown, lines := s.Texts(o.Key.Chat), 0
	for _, m := range shown {
		if n := len([]rune(m)); n > 2000 || strings.Count(m, "```")%2 != 0 {
			t.Errorf("a message of %d characters: %q", n, m)
		}
		lines += strings.Count(m, line)
	}
	if end := shown[len(shown)-1]; lines != 200 || !strings.HasSuffix(end, last) {
		t.Errorf("%d lines of code are whole, the last message is %q", lines, end)
	}
}

func TestNoWordOfAModelNotifiesAnybody(t *testing.T) {
	s := platform(t)
	s.Know(discordtest.Ann)
	sends := 0
	s.Faults(func(c discordtest.Call) discordtest.Fault {
		if c.Name == "send" {
			sends++
			if !strings.Contains(string(c.Body), `"allowed_mentions":{"parse":[]}`) {
				t.Errorf("a send is %s", c.Body)
			}
		}
		return discordtest.Fault{}
	})
	c := open(t, s)
	for i, kind := range []corebot.Kind{corebot.KindReply, corebot.KindNotice} {
		if _, err := c.Send(t.Context(), toAnn(fmt.Sprint(i), kind, "@everyone <@7> <@&7>")); err != nil {
			t.Error(err)
		}
	}
	if sends != 2 {
		t.Errorf("%d sends", sends)
	}
}

func TestAnApprovalHasButtonsWhosePressIsAMessageOfThePresser(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	begun(t, s, d)
	c, o := open(t, s), toAnn("1", corebot.KindNotice, "May it?")
	o.Buttons = []corebot.Action{
		{Label: "Approve", Command: "/approve 7"},
		{Label: "Deny", Command: "/deny 7"},
		{Label: "Too long", Command: "/approve " + strings.Repeat("7", 100)},
	}
	say(s, "begin")
	until(t, "it is stored", func() bool { return len(d.Got()) == 1 })
	if _, err := c.Send(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	shown := s.Shown(o.Key.Chat)[0]
	want := []discordtest.Button{{Label: "Approve", Command: "/approve 7"}, {Label: "Deny", Command: "/deny 7"}}
	if !slices.Equal(shown.Buttons, want) {
		t.Fatalf("the buttons are %+v", shown.Buttons)
	}
	eve := discordtest.User{ID: "400000000000006666", Name: "eve", Nick: "Ann"}
	s.Press(eve, discordtest.Room, shown.ID, "/approve 7") // by a forged client, in a channel where she can write
	s.Press(discordtest.Ann, o.Key.Chat, shown.ID, "/approve 7")
	s.Command(discordtest.Ann, o.Key.Chat, "/status", "")
	until(t, "the presses are stored", func() bool { return len(d.Got()) == 4 })
	for i, who := range []string{eve.ID, discordtest.Ann.ID, discordtest.Ann.ID} {
		in := d.Got()[i+1]
		text := []string{"/approve 7", "/approve 7", "/status"}[i]
		if in.SenderID != who || in.Text() != text || in.Own || in.Bot {
			t.Errorf("press %d is %+v", i, in)
		}
	}
	until(t, "all three are answered", func() bool { return len(s.Answers()) == 3 })
}

func TestAPressOfWhoMayNotTalkIsAnsweredToHimAlone(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Know(discordtest.Ann)
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		errs := make([]error, len(batch))
		for i := range errs {
			errs[i] = channels.ErrNotAdmitted
		}
		return errs, nil
	}
	begun(t, s, d)
	s.Command(discordtest.Ann, discordtest.DirectOf(discordtest.Ann), "/status", "")
	until(t, "it is answered", func() bool { return len(s.Answers()) == 1 })
	if got := s.Answers()[0]; !strings.Contains(got, "not accepted") {
		t.Errorf("the answer is %q", got)
	}
}

func TestTypingIsShownAndACheckSaysWhoTheBotIs(t *testing.T) {
	s := platform(t)
	s.Know(discordtest.Ann)
	c, chat := open(t, s), discordtest.DirectOf(discordtest.Ann)
	again, err := c.Typing(t.Context(), toAnn("1", corebot.KindReply, "").Key)
	if err != nil || again <= 0 || again >= 10*time.Second || s.Typing(chat) != 1 {
		t.Errorf("again after %v, %v; shown %d times", again, err, s.Typing(chat))
	}
	if says, err := c.Check(t.Context()); err != nil || !strings.HasPrefix(says, "known as @corebot") {
		t.Errorf("it says %q, %v", says, err)
	}
	s.Revoke()
	if _, err := open(t, s).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown to Discord") {
		t.Errorf("a revoked token: %v", err)
	}
}

func TestWhatIsNoChannelOfDiscordIsRefusedForGood(t *testing.T) {
	c := open(t, platform(t))
	for _, chat := range []string{"", "../users", "12/messages", "general"} {
		o := toAnn("1", corebot.KindReply, "hello")
		o.Key.Chat = chat
		_, err := c.Send(t.Context(), o)
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
			t.Errorf("%q: %v", chat, err)
		}
	}
}
