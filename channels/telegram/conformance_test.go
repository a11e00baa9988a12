package telegram_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

var account = channels.Account{Kind: "telegram", Name: "main"}

// platform is a server that ends with the test, about which it has nothing to complain.
func platform(t *testing.T) *telegramtest.Server {
	t.Helper()
	s := telegramtest.New()
	t.Cleanup(func() {
		s.Close()
		for _, c := range s.Complaints() {
			t.Errorf("the platform complains: %s", c)
		}
	})
	return s
}

// open makes the channel of the server's bot.
func open(t *testing.T, s *telegramtest.Server) *telegram.Channel {
	t.Helper()
	return withStore(t, s, nil)
}

// withStore is open with files that can be sent.
func withStore(t *testing.T, s *telegramtest.Server, files *channeltest.Files) *telegram.Channel {
	t.Helper()
	return at(t, s, "", files)
}

// at is withStore with a webhook that listens at an address; empty: it polls.
func at(t *testing.T, s *telegramtest.Server, addr string, files *channeltest.Files) *telegram.Channel {
	t.Helper()
	site := channels.Site{Account: account, Log: zerolog.Nop()}
	if files != nil {
		site.Files = files
	}
	settings := telegram.Settings{Token: telegramtest.Token, APIURL: s.URL(), Poll: 50 * time.Second}
	if addr != "" {
		settings.Webhook, settings.WebhookAddr = "http://"+addr+"/telegram", addr
	}
	c, err := telegram.New(settings, site)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*telegram.Channel)
}

func TestTelegramKeepsTheGuaranteesOfAChannel(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Subject { return subject(t, "") })
}

func TestTelegramKeepsTheGuaranteesOfAChannelByItsWebhook(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Subject { return subject(t, freeAddr(t)) })
}

// subject is a bot that polls, or that listens at an address.
func subject(t *testing.T, addr string) channeltest.Subject {
	t.Helper()
	return subjectOf(t, platform(t), addr)
}

func subjectOf(t *testing.T, s *telegramtest.Server, addr string) channeltest.Subject {
	names, files := &channeltest.Names{}, channeltest.NewFiles(t)
	s.Know(telegramtest.Chat{ID: telegramtest.Ann.ID})
	s.Know(telegramtest.Chat{ID: 2003})
	s.Block(2003)
	chat := telegramtest.Ann.ID
	return channeltest.Subject{
		Revoke: func() { s.Revoke(); s.Cut() }, Restore: s.Restore, Revoked: "the token is unknown to Telegram",
		Secret: telegramtest.Token, Closed: "2003", Refused: "bot was blocked by the user",
		Account: account, Chat: strconv.FormatInt(chat, 10), ID: names.Of,
		Open:  func() channels.Channel { return at(t, s, addr, files) },
		Files: files, Uploads: func() []string { return s.Uploads(chat) }, TooLarge: 50_000_001,
		Say: func(_ channels.Accepter, id, text string) {
			names.Is(id, strconv.FormatInt(s.Say(telegramtest.Said{Text: text}), 10))
		},
		Pose: func(id, text string) {
			other := telegramtest.Ann
			other.ID = 2002
			names.Is(id, strconv.FormatInt(s.Say(telegramtest.Said{From: other, Text: text}), 10))
		},
		Edit: func(_ channels.Accepter, id, of, text string) {
			message, err := strconv.ParseInt(names.Of(of), 10, 64)
			if err != nil {
				t.Error(err)
			}
			names.Is(id, fmt.Sprintf("%d/edit/%d", message, s.Edit(chat, message, text)))
		},
		Attach: func(_ channels.Accepter, id, text string, f channeltest.SentFile) string {
			s.Files.Put(f)
			sent := map[string]any{
				"file_id": f.ID, "file_unique_id": f.ID, "file_name": f.Name, "mime_type": f.MediaType,
			}
			if f.Size > 0 {
				sent["file_size"] = f.Size
			}
			said := s.Say(telegramtest.Said{More: map[string]any{"caption": text, "document": sent}})
			names.Is(id, strconv.FormatInt(said, 10))
			return ""
		},
		Again: func(string) { s.Replay() }, // all of it
		Shown: func() []string { return s.Texts(chat) },
		Cut:   s.Cut, Silence: s.Silence,
		Refuse: func(n int) { s.Refuse(n, 0.001) },
	}
}

func TestTelegramGivesAMessageAgainAndItIsAnsweredOnce(t *testing.T) {
	channeltest.Redelivery(t, telegram.Network().Redelivers, func(t *testing.T) channeltest.Subject {
		return subject(t, "")
	})
}

func TestTelegramGetsOverMisfortunes(t *testing.T) {
	channeltest.Misfortunes(t, func(t *testing.T) channeltest.Subject {
		return subject(t, "")
	})
}
