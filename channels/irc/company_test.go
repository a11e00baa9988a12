package irc_test

import (
	"testing"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/irc/irctest"
)

// A server without marks for programs says of nobody that he is one: such a program has the answers that the settings
// allow. Another Corebot is known by what it says: here by what this one has said.
func TestIRCHasNoTwoProgramsTalkForEver(t *testing.T) {
	const most = 5
	channeltest.Company(t, func(t *testing.T) channeltest.Subject {
		p := platform(t)
		s := subjectOf(t, p, "#room")
		said := func(nick, tags, command string) channeltest.Other {
			other := irctest.Person{Nick: nick, Account: nick}
			return channeltest.Other{Say: func(text string) {
				p.Line(other, "#room", tags, command, "corebot: "+text)
			}}
		}
		hidden := said("hidden", "", "PRIVMSG")
		hidden.Most = most
		s.Company = map[string]channeltest.Other{
			"the account itself": said("corebot", "", "PRIVMSG"),
			"a bot that says so": said("marked", "bot", "PRIVMSG"),
			"a notice":           said("noticing", "", "NOTICE"),
			"another Corebot": {Say: func(text string) {
				lines := p.Shown("#room")
				p.Line(irctest.Person{Nick: "corebot2", Account: "corebot2"}, "#room", "", "PRIVMSG",
					lines[len(lines)-1][:1]+"corebot: "+text)
			}},
			"a program that hides": hidden,
		}
		s.Open = func() channels.Channel {
			set := settings(p)
			set.Hourly = most
			return open(t, set)
		}
		return s
	})
}
