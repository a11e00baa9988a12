package slack_test

import (
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

func TestSlackHasNoTwoProgramsTalkForEver(t *testing.T) {
	channeltest.Company(t, func(t *testing.T) channeltest.Subject {
		p := platform(t)
		said := func(m slacktest.Said) channeltest.Other {
			return channeltest.Other{Say: func(text string) {
				m.Channel, m.Text = slacktest.Direct, "<@"+slacktest.Bot+"> "+text
				p.Say(m)
			}}
		}
		s := subjectOf(t, p, false)
		s.Company = map[string]channeltest.Other{
			"the app itself":      said(slacktest.Said{User: slacktest.Bot, BotID: slacktest.BotID}),
			"another app":         said(slacktest.Said{User: "U0OTHER", BotID: "B0OTHER"}),
			"an incoming webhook": said(slacktest.Said{BotID: "B0HOOK", Subtype: "bot_message"}),
		}
		return s
	})
}
