package telegram_test

import (
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

func TestTelegramHasNoTwoProgramsTalkForEver(t *testing.T) {
	channeltest.Company(t, func(t *testing.T) channeltest.Subject {
		p := platform(t)
		said := func(from telegramtest.User) channeltest.Other {
			return channeltest.Other{Say: func(text string) {
				p.Say(telegramtest.Said{Chat: telegramtest.Chat{ID: telegramtest.Ann.ID}, From: from, Text: text})
			}}
		}
		s := subjectOf(t, p, "")
		s.Company = map[string]channeltest.Other{
			"the bot itself": said(telegramtest.Bot),
			"another bot":    said(telegramtest.User{ID: 4343, IsBot: true, FirstName: "Other", Username: "other_bot"}),
		}
		return s
	})
}
