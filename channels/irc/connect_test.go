package irc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/irc"
	"github.com/corebot/corebot/channels/irc/irctest"
)

func TestCorebotLogsInByTLS(t *testing.T) {
	s := irctest.New(secured)
	t.Cleanup(s.Close)
	set := settings(s)
	set.TLS, set.User, set.Password = true, irctest.Account, irctest.Password
	c := open(t, set)
	if says, err := c.Check(t.Context()); err != nil || says != "known as corebot, logged in as corebot" {
		t.Errorf("it says %q, %v", says, err)
	}
	set.Password = "wrong"
	_, err := open(t, set).Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "refuses the services account") || corebot.HintOf(err) == "" ||
		strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong password: %v", err)
	}
	s.Caps = []string{"batch"}
	if _, err := open(t, set).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "offers no login") {
		t.Errorf("no SASL: %v", err)
	}
	set.Password, set.User = "", ""
	if says, err := open(t, set).Check(t.Context()); err != nil || !strings.Contains(says, "names no accounts") {
		t.Errorf("no account-tag: %q, %v", says, err)
	}
	plain := irctest.New(nil)
	t.Cleanup(plain.Close)
	set.Addr = plain.Addr()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := open(t, set).Check(ctx); err == nil || !strings.Contains(err.Error(), "begin TLS") {
		t.Errorf("no TLS: %v", err)
	}
}

func TestATakenNickIsTakenBackWhenItIsFree(t *testing.T) {
	s := platform(t)
	s.Arrive(irctest.Person{Nick: "corebot"})
	s.Arrive(irctest.Person{Nick: "corebot_"})
	set := settings(s)
	set.Ping = 20 * time.Millisecond
	r := run(t, s, set)
	r.until("the bot is there", func() bool { return s.Joined("#room") })
	if nick := s.Nick(); nick != "corebot__" {
		t.Errorf("it is called %s", nick)
	}
	s.Say(irctest.Ann, "#room", "corebot__: hello")
	s.Say(irctest.Ann, "#room", "corebot: hello")
	for _, in := range r.got(2) {
		if !in.Envelope.Mentioned {
			t.Errorf("it is not meant by %q", in.Text())
		}
	}
	s.Leave("corebot")
	r.until("it has its nick", func() bool { return s.Nick() == "corebot" })
}

func TestAServerThatRefusesIsNotAskedAgainAtOnce(t *testing.T) {
	for words, want := range map[string]string{
		"Closing Link: (K-Lined)":                             "has banned this address",
		"Trying to reconnect too fast.":                       "wants no new connection",
		"Your host is trying to (re)connect -- throttled":     "wants no new connection",
		"Closing Link: corebot by op (You are not welcome :)": "has ended the connection",
	} {
		s := platform(t)
		s.Ban(words)
		r := &running{s, t, open(t, settings(s)), nil}
		first := r.channel.Run(t.Context(), &channeltest.Door{})
		s.Ban("")
		s.Close() // a further connection would fail in another way
		second := r.channel.Run(t.Context(), &channeltest.Door{})
		if first == nil || !strings.Contains(first.Error(), want) {
			t.Errorf("%q: %v", words, first)
		}
		if held := want != "has ended the connection"; (first.Error() == second.Error()) != held {
			t.Errorf("%q: and then %v", words, second)
		}
	}
}

func TestCorebotIsWhereItIsWanted(t *testing.T) {
	s := platform(t)
	set := settings(s)
	set.Ping, set.Channels = 20*time.Millisecond, []string{"#room", "#shut"}
	s.Mode("#shut", "i")
	r := run(t, s, set)
	r.door.Admits = func(in channels.Incoming) error {
		if in.SenderID == "ann" && in.Envelope.Group {
			return nil
		}
		return channels.ErrNotAdmitted
	}
	r.until("the bot is there", func() bool { return s.Joined("#room") })
	s.Line(irctest.Person{Nick: "ann"}, "corebot", "", "INVITE", "#trap")
	s.Line(irctest.Person{Nick: "bob", Account: "bob"}, "corebot", "", "INVITE", "#trap")
	s.Line(irctest.Ann, "corebot", "", "INVITE", "#party")
	r.until("it follows the invitation", func() bool { return s.Joined("#party") })
	if s.Joined("#trap") {
		t.Error("it follows strangers")
	}
	s.Kick("#room")
	s.Mode("#shut", "")
	r.until("it is in the channel that was shut", func() bool { return s.Joined("#shut") })
	time.Sleep(100 * time.Millisecond)
	if s.Joined("#room") {
		t.Error("it comes back where it was kicked out")
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	good := irc.Settings{Addr: "irc.example.org:6697", TLS: true, Nick: "corebot", Ping: time.Minute}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*irc.Settings){
		"no port":                   func(s *irc.Settings) { s.Addr = "irc.example.org" },
		"in the clear":              func(s *irc.Settings) { s.TLS = false },
		"no nick":                   func(s *irc.Settings) { s.Nick = "" },
		"a nick with spaces":        func(s *irc.Settings) { s.Nick = "core bot" },
		"a nick like a channel":     func(s *irc.Settings) { s.Nick = "#corebot" },
		"a user without a password": func(s *irc.Settings) { s.User = "x" },
		"a password of lines":       func(s *irc.Settings) { s.Password = "a\nb" },
		"no channel":                func(s *irc.Settings) { s.Channels = []string{"help"} },
		"two channels in one":       func(s *irc.Settings) { s.Channels = []string{"#a,#b"} },
		"a key with a command":      func(s *irc.Settings) { s.Channels = []string{"#a b\r\nQUIT"} },
		"many channels":             func(s *irc.Settings) { s.Channels = strings.Fields(strings.Repeat("#a ", 51)) },
		"a rare ping":               func(s *irc.Settings) { s.Ping = time.Hour },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); err == nil || corebot.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
