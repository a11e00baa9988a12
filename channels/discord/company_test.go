package discord_test

import (
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/discord/discordtest"
)

func TestDiscordHasNoTwoProgramsTalkForEver(t *testing.T) {
	channeltest.Company(t, func(t *testing.T) channeltest.Subject {
		p := platform(t)
		at := p.Know(discordtest.Ann)
		said := func(m discordtest.Said) channeltest.Other {
			return channeltest.Other{Say: func(text string) {
				m.Channel, m.Text = at, "<@"+discordtest.BotID+"> "+text
				p.Say(m)
			}}
		}
		hook := discordtest.User{ID: "400000000000003003", Name: "hook"}
		s := subjectOf(t, p, "")
		s.Company = map[string]channeltest.Other{
			"the bot itself": said(discordtest.Said{From: discordtest.User{
				ID: discordtest.BotID, Name: "corebot", Bot: true,
			}}),
			"another bot": said(discordtest.Said{From: discordtest.User{
				ID: "400000000000004004", Name: "other", Bot: true,
			}}),
			"a webhook": said(discordtest.Said{From: hook, More: map[string]any{"webhook_id": hook.ID}}),
		}
		return s
	})
}
