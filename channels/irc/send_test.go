package irc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/irc/irctest"
)

func TestEachLineHasRoomForAllThatServersPutBeforeIt(t *testing.T) {
	s := platform(t) // which complains of lines that are too long
	r := run(t, s, settings(s))
	text := strings.Repeat("Größe 😀 und so weiter, ", 200) + "\n\n```go\n\tif a {\n\t\treturn\n\t}\n```\n\n" +
		"- **one**\n- two\n\n[link](https://example.org/" + strings.Repeat("long/", 150) + ")"
	if err := r.reply("#room", text); err != nil {
		t.Fatal(err)
	}
	lines := s.Shown("#room")
	all := strings.Join(lines, "\n")
	if n := strings.Count(all, "😀"); n != 200 {
		t.Errorf("%d of 200 are whole", n)
	}
	for _, want := range []string{"\x0f    if a {\n", "\x0f        return\n", "\x02one\x02"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in %q", want, lines[len(lines)-8:])
		}
	}
	if n := strings.Count(strings.NewReplacer("\n", "", "\x0f", "").Replace(all), "long/"); n != 150 {
		t.Errorf("the address has %d parts", n)
	}
}

func TestNoTextIsACommandOfTheServerOrOfAnotherBot(t *testing.T) {
	s := platform(t)
	r := run(t, s, settings(s))
	for _, text := range []string{
		"a\r\nQUIT :x", "\x01VERSION\x01", "!kick ann", "**.op** me", "- !ban ann", "\x03!kick", "a\x00b", "`!x`",
	} {
		for _, kind := range []corebot.Kind{corebot.KindReply, corebot.KindNotice} {
			_, err := r.channel.Send(t.Context(), channels.Outbound{
				ID: "r1", Key: keyOf("#room"), Kind: kind, Parts: corebot.TextPart(text),
			})
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	for _, l := range s.Shown("#room") {
		if words := strings.TrimLeft(l, "\x0f\x02\x11"); strings.ContainsRune("!.", rune(words[0])) {
			t.Errorf("it says %q", l)
		}
	}
}

func TestAnAnswerGoesToThePersonAndNotToWhoHasTheNickNow(t *testing.T) {
	s := platform(t)
	r := run(t, s, settings(s))
	s.Say(irctest.Person{Nick: "annie", Account: "Ann"}, "corebot", "hello")
	s.Arrive(irctest.Person{Nick: "bob", Host: "a.test"})
	s.Say(irctest.Person{Nick: "bob", Host: "a.test"}, "corebot", "hello")
	r.got(2)
	away := func(chat string) {
		t.Helper()
		err := r.reply(chat, "a secret")
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.RateLimited || f.RetryAfter != 0 {
			t.Errorf("to %s: %v", chat, err)
		}
	}
	s.Arrive(irctest.Person{Nick: "annie", Account: "mallory"})
	s.Leave("ann")
	away("@ann")
	s.Arrive(irctest.Person{Nick: "ann"}) // has the nick, and not the account
	away("@ann")
	s.Arrive(irctest.Person{Nick: "bob", Host: "b.test"})
	away("bob!~bob@a.test")
	if n := len(s.Shown("ann")) + len(s.Shown("annie")) + len(s.Shown("bob")); n != 0 {
		t.Fatalf("%d lines went to others", n)
	}
	s.Arrive(irctest.Ann)
	s.Arrive(irctest.Person{Nick: "bob", Host: "a.test"})
	for _, chat := range []string{"@ann", "bob!~bob@a.test"} {
		if err := r.reply(chat, "a secret"); err != nil {
			t.Error(err)
		}
	}
	if len(s.Shown("ann")) != 1 || len(s.Shown("bob")) != 1 {
		t.Errorf("ann has %q, bob has %q", s.Shown("ann"), s.Shown("bob"))
	}
}

func TestTheFirstLineInAChannelNamesTheAsker(t *testing.T) {
	s := platform(t)
	r := run(t, s, settings(s))
	id := s.Say(irctest.Person{Nick: "Bob"}, "#room", "corebot: hello")
	r.got(1)
	for _, before := range []string{"", "before\n"} {
		_, err := r.channel.Send(t.Context(), channels.Outbound{
			ID: "r1", Key: keyOf("#room"), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"), InReplyTo: id,
			Before: before,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Shown("#room"); !slices.Equal(got, []string{"\x0fBob: hello", "\x0fhello"}) {
		t.Errorf("the channel shows %q", got)
	}
}

// People say much more to one another meanwhile than to Corebot.
func TestAnAskerIsNamedHoweverMuchIsSaidMeanwhile(t *testing.T) {
	s := platform(t)
	r := run(t, s, settings(s))
	r.channel.Heard("m1", "ann", true)
	for i := range 1001 {
		r.channel.Heard(fmt.Sprint("talk", i), "eve", false)
	}
	for _, asked := range []string{"m1", "talk0", "talk1000"} {
		_, err := r.channel.Send(t.Context(), channels.Outbound{
			ID: "r1", Key: keyOf("#room"), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"), InReplyTo: asked,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Shown("#room"); !slices.Equal(got, []string{"\x0fann: hello", "\x0fhello", "\x0feve: hello"}) {
		t.Errorf("the channel shows %q", got)
	}
}

func TestALineWhoseLooksAChannelRefusesGoesAsPlainText(t *testing.T) {
	s := platform(t)
	r := run(t, s, settings(s))
	s.Mode("#room", "c")
	if err := r.reply("#room", "**bold** and `code`"); err != nil {
		t.Fatal(err)
	}
	if got := s.Shown("#room"); !slices.Equal(got, []string{"bold and code"}) {
		t.Errorf("the channel shows %q", got)
	}
}

func TestAFailedSendSaysWhetherAnotherTryCanHelp(t *testing.T) {
	for name, c := range map[string]struct {
		chat    string
		spoil   func(*irctest.Server)
		class   corebot.Class
		after   time.Duration
		unknown bool
	}{
		"the channel is moderated": {
			"#room", func(s *irctest.Server) { s.Mode("#room", "m") }, corebot.RateLimited, 0, false,
		},
		"the server asks to wait": {
			"#room", func(s *irctest.Server) { s.Mode("#room", "t") }, corebot.RateLimited, 35 * time.Second, false,
		},
		"Corebot is in no such channel": {"#other", func(*irctest.Server) {}, corebot.Permanent, 0, false},
		"no chat of IRC":                {"room", func(*irctest.Server) {}, corebot.Permanent, 0, false},
		"not even a name":               {"@a b", func(*irctest.Server) {}, corebot.Permanent, 0, false},
		"the answer is lost": {
			"#room", func(s *irctest.Server) { s.Drop(func() bool { return true }) }, corebot.Transient, 0, true,
		},
		"nobody is there": {
			"#room", func(s *irctest.Server) { s.Ban("Closing link: K-Lined"); s.Cut() }, corebot.Cancelled,
			3 * time.Second, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := platform(t)
			r := run(t, s, settings(s))
			r.until("the bot is there", func() bool { return s.Joined("#room") })
			c.spoil(s)
			if c.class == corebot.Cancelled {
				time.Sleep(50 * time.Millisecond)
			}
			err := r.reply(c.chat, "hello")
			f := &corebot.Failure{}
			if !errors.As(err, &f) && !c.unknown || f.Class != c.class || f.RetryAfter != c.after ||
				errors.Is(err, channels.ErrMayBeShown) != c.unknown {
				t.Errorf("it is %v: %+v", err, f)
			}
		})
	}
}
