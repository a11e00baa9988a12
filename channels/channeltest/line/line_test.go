package line_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/channeltest/line"
)

func TestTheTemplateOfANetworkKeepsTheGuaranteesOfAChannel(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Subject {
		s, err := line.NewServer("token")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		account := channels.Account{Kind: "line", Name: "main"}
		return channeltest.Subject{
			Account: account,
			Open: func() channels.Channel {
				c, err := line.New(line.Settings{Addr: s.Addr(), Token: "token", Wait: time.Minute},
					channels.Site{Account: account, Log: zerolog.Nop()})
				if err != nil {
					t.Fatal(err)
				}
				return c
			},
			Say: func(_ channels.Accepter, id, text string) {
				s.Say(line.Message{ID: id, Chat: channeltest.Chat, Sender: "ann", Text: text, At: time.Now()})
			},
			Edit: func(_ channels.Accepter, id, of, text string) {
				s.Say(line.Message{
					ID: id, Chat: channeltest.Chat, Sender: "ann", Text: text, EditOf: of, At: time.Now(),
				})
			},
			Delete: func(_ channels.Accepter, id, of string) {
				s.Say(line.Message{ID: id, Chat: channeltest.Chat, Sender: "ann", DeleteOf: of, At: time.Now()})
			},
			Shown:   func() []string { return s.Shown(channeltest.Chat) },
			NoFiles: "the template has no files",
			Cut:     s.Cut, Silence: s.Silence, Refuse: s.Limit,
		}
	})
}
