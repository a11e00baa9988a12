package irc_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/irc/irctest"
)

func TestOnlyTheServerSaysWhoSomebodyIs(t *testing.T) {
	for _, c := range []struct {
		about      string
		caps       []string
		who        irctest.Person
		tags       string
		chat, from string
	}{
		{"an account", nil, irctest.Person{Nick: "whoever", Account: "Ann"}, "", "@ann", "ann"},
		{
			"the nick of an account", nil, irctest.Person{Nick: "ann", Host: "evil.test"}, "", "ann!~ann@evil.test", "",
		},
		{"an account tag of a client", nil, irctest.Person{Nick: "Bob"}, "+account=ann", "bob!~Bob@people.test", ""},
		{"no account", nil, irctest.Person{Nick: "bob", Account: "*"}, "", "bob!~bob@people.test", ""},
		{
			"a server that names no accounts",
			[]string{"message-tags", "batch"},
			irctest.Person{Nick: "bob"},
			"account=ann",
			"bob!~bob@people.test", "",
		},
	} {
		t.Run(c.about, func(t *testing.T) {
			s := platform(t)
			if c.caps != nil {
				s.Caps = c.caps
			}
			r := run(t, s, settings(s))
			s.Line(c.who, "corebot", c.tags, "PRIVMSG", "/whoami")
			in := r.got(1)[0]
			if in.Chat != c.chat || in.SenderID != c.from || in.SenderName != c.who.Nick || in.Text() != "/whoami" {
				t.Errorf("it came in as %+v", in)
			}
		})
	}
}

func TestALineIsReadAsAPersonMeansIt(t *testing.T) {
	s := platform(t)
	r := run(t, s, settings(s))
	for i, c := range []struct {
		said, want string
		mentioned  bool
	}{
		{"hello all", "hello all", false},
		{"corebot: hello", "hello", true},
		{"CoreBot, hello", "hello", true},
		{"@corebot hello", "hello", true},
		{"is corebot there?", "is corebot there?", true},
		{"corebots are many", "corebots are many", false},
		{"corebot", "corebot", true},
		{"corebot: !status", "/status", true},
		{"!seen ann", "!seen ann", false},
		{"\x01ACTION pats corebot\x01", "* ann pats corebot", true},
		{"\x02bold\x02 \x0304,12red\x03 \x04ff0000x \x1dit\x0f end", "bold red x it end", false},
		{"caf\xe9", "café", false},
		{"a\tb\x00c", "a bc", false},
	} {
		s.Say(irctest.Ann, "#room", c.said)
		in := r.got(i + 1)[i]
		if in.Text() != c.want || in.Envelope.Mentioned != c.mentioned || !in.Envelope.Group || in.Chat != "#room" {
			t.Errorf("%q came in as %q, %+v", c.said, in.Text(), in.Envelope)
		}
	}
}

func TestWhatNobodySaysToCorebotIsLeftOut(t *testing.T) {
	s := platform(t)
	r := run(t, s, settings(s))
	s.Line(irctest.Ann, "corebot", "", "NOTICE", "You are now identified")
	s.Line(irctest.Ann, "corebot", "", "PRIVMSG", "\x01VERSION\x01")
	s.Line(irctest.Ann, "corebot", "", "PRIVMSG", "\x01DCC SEND x 1 2 3\x01")
	s.Line(irctest.Ann, "corebot", "", "PRIVMSG", "\x02\x0f  ")
	s.Send(":ann!~ann@people.test PRIVMSG @#room :to operators alone")
	s.Send(":irc.test PRIVMSG corebot :a server speaks")
	s.Send(":@ann!~ann@people.test PRIVMSG corebot :no nick begins so")
	s.Send(":ann PRIVMSG corebot :no address")
	s.Send("BATCH +1 chathistory #room")
	s.Send("BATCH +2 something")
	s.Send("@batch=1;msgid=old :ann!~ann@people.test PRIVMSG #room :corebot: said yesterday")
	s.Send("@batch=2;msgid=new :ann!~ann@people.test PRIVMSG #room :said now")
	s.Send("BATCH -1")
	s.Send("BATCH -2")
	s.Send(":%s PRIVMSG #room :x", strings.Repeat("y", 40_000))
	s.Say(irctest.Ann, "#room", "the end")
	if got := r.got(2); len(got) != 2 || got[0].Text() != "said now" || got[1].Text() != "the end" {
		t.Errorf("there is %+v", got)
	}
}

func TestProgramsAreContextAndAnswerNoProgram(t *testing.T) {
	s := platform(t)
	set := settings(s)
	set.Hourly = 2
	r := run(t, s, set)
	for i, c := range []struct {
		about, tags, command, text string
		who                        irctest.Person
		bot                        bool
	}{
		{"a notice", "", "NOTICE", "corebot: hello", irctest.Ann, true},
		{"a bot that says so", "bot", "PRIVMSG", "corebot: hello", irctest.Ann, true},
		{"another Corebot", "", "PRIVMSG", "\x0fcorebot: hello", irctest.Ann, true},
		{"a person", "", "PRIVMSG", "corebot: hello", irctest.Ann, false},
		{"a person who talks to others", "", "PRIVMSG", "hello", irctest.Ann, false},
	} {
		s.Line(c.who, "#room", c.tags, c.command, c.text)
		if in := r.got(i + 1)[i]; in.Bot != c.bot || in.Interactive == c.bot {
			t.Errorf("%s came in as %+v", c.about, in)
		}
	}
}

func TestTheAnswersOfAnHourAreCountedForTheAccountOrElseForTheAddress(t *testing.T) {
	s := platform(t)
	set := settings(s)
	set.Hourly = 2
	r := run(t, s, set)
	for i, c := range []struct {
		who irctest.Person
		by  string
	}{
		{irctest.Person{Nick: "ann", Account: "ann"}, "ann"},
		{irctest.Person{Nick: "bob", Account: "ann"}, "ann"},
		{irctest.Person{Nick: "bob", Host: "evil.test"}, "~bob@evil.test"},
	} {
		s.Line(c.who, "#room", "", "PRIVMSG", "corebot: hello")
		if in := r.got(i + 1)[i]; in.By != c.by || in.Hourly == nil || in.Hourly.Most != 2 {
			t.Errorf("%+v counts for %q with %+v", c.who, in.By, in.Hourly)
		}
	}
}

func TestAMessageIsNamedByTheServerOrByItsConnection(t *testing.T) {
	s := platform(t)
	r := run(t, s, settings(s))
	s.Line(irctest.Ann, "#room", "msgid=abc;+draft/reply=xyz", "PRIVMSG", "one")
	s.Line(irctest.Ann, "#room", "", "PRIVMSG", "two")
	s.Line(irctest.Ann, "#room", "msgid="+corebot.OwnIDs+"7", "PRIVMSG", "three")
	s.Line(irctest.Ann, "#room", "msgid="+strings.Repeat("x", 600), "PRIVMSG", "four")
	got := r.got(4)
	ids := map[string]bool{}
	for _, in := range got {
		if ids[in.ID] || in.ID == "" || corebot.CheckID(in.ID) != nil || corebot.CheckName(in.ID) != nil {
			t.Errorf("the id of %q is %q", in.Text(), in.ID)
		}
		ids[in.ID] = true
	}
	if got[0].ID != "abc" || got[0].Envelope.ReplyTo != "xyz" {
		t.Errorf("the first is %+v", got[0])
	}
}

func TestWhatFindsNoRoomIsKeptAcrossConnections(t *testing.T) {
	s := platform(t)
	r := &running{s, t, open(t, settings(s)), &channeltest.Door{}}
	r.channel.StoreLastWithin(20 * time.Millisecond) // what finds no room until then is kept
	room := make(chan struct{})
	var asked atomic.Int32 // lines of the largest batch that found no room
	r.door.Take = func(batch []channels.Incoming) ([]error, error) {
		select {
		case <-room:
			return make([]error, len(batch)), nil
		default:
		}
		asked.Store(max(asked.Load(), int32(len(batch))))
		if len(batch) == 0 {
			return nil, nil
		}
		return nil, &corebot.Busy{Err: corebot.ErrLaneFull, RetryAfter: time.Millisecond}
	}
	stop := r.start()
	for i := range 5 {
		s.Say(irctest.Ann, "#room", fmt.Sprint("line ", i))
	}
	// A line that was not read before its connection ended is lost on IRC.
	r.until("all lines have found no room", func() bool { return asked.Load() == 5 })
	s.Cut()
	r.until("the connection has ended", func() bool { return s.Nick() == "" })
	_ = stop() // an account has one run at a time
	close(room)
	r.start()
	if got := r.got(5); fmt.Sprint(r.door.Texts()) != "[line 0 line 1 line 2 line 3 line 4]" {
		t.Errorf("there is %+v", got)
	}
}
