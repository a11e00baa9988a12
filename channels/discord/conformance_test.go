package discord_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/discord"
	"github.com/corebot/corebot/channels/discord/discordtest"
)

var account = channels.Account{Kind: "discord", Name: "main"}

// platform is a server that ends with the test, about which it has nothing to complain.
func platform(t *testing.T) *discordtest.Server {
	t.Helper()
	s := discordtest.New()
	t.Cleanup(func() {
		s.Close()
		for _, c := range s.Complaints() {
			t.Errorf("the platform complains: %s", c)
		}
	})
	return s
}

// open makes the channel of the server's bot.
func open(t *testing.T, s *discordtest.Server) *discord.Channel {
	t.Helper()
	return openWith(t, s, zerolog.Nop(), nil)
}

func openWith(t *testing.T, s *discordtest.Server, log zerolog.Logger,
	change func(*discord.Settings),
) *discord.Channel {
	t.Helper()
	settings := discord.Settings{Token: discordtest.Token, APIURL: s.URL()}
	if change != nil {
		change(&settings)
	}
	return openAt(t, settings, channels.Site{Account: account, Log: log})
}

func openAt(t *testing.T, settings discord.Settings, site channels.Site) *discord.Channel {
	t.Helper()
	c, err := discord.New(settings, site)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*discord.Channel)
}

func TestDiscordKeepsTheGuaranteesOfAChannel(t *testing.T) {
	for name, thread := range map[string]string{"directly": "", "in a thread": "600000000000000001"} {
		t.Run(name, func(t *testing.T) {
			channeltest.Run(t, func(t *testing.T) channeltest.Subject { return subject(t, thread) })
		})
	}
}

func TestDiscordGetsOverMisfortunes(t *testing.T) {
	channeltest.Misfortunes(t, func(t *testing.T) channeltest.Subject {
		return subject(t, "")
	})
}

func TestDiscordGivesAMessageAgainAndItIsAnsweredOnce(t *testing.T) {
	channeltest.Redelivery(t, discord.Network().Redelivers, func(t *testing.T) channeltest.Subject {
		return subject(t, "")
	})
}

func subject(t *testing.T, thread string) channeltest.Subject {
	t.Helper()
	return subjectOf(t, platform(t), thread)
}

func subjectOf(t *testing.T, s *discordtest.Server, thread string) channeltest.Subject {
	names := &channeltest.Names{}
	chat, at := s.Know(discordtest.Ann), ""
	if at = chat; thread != "" {
		s.Open(thread, discordtest.Thread, discordtest.Room)
		chat, at = discordtest.Room, thread
	}
	const closed = "300000000000000088"
	s.Open(closed, discordtest.Text, "")
	s.Mute(closed)
	began, files := false, channeltest.NewFiles(t)
	return channeltest.Subject{
		Revoke: func() { s.Revoke(); s.Cut() }, Restore: s.Restore, Revoked: "the token is unknown to Discord",
		Secret: discordtest.Token, Closed: closed, Refused: "may not write in this channel",
		Account: account, Chat: chat, Thread: thread, ID: names.Of,
		Open: func() channels.Channel {
			return openAt(t, discord.Settings{Token: discordtest.Token, APIURL: s.URL()}, channels.Site{
				Account: account, Log: zerolog.Nop(), Files: files,
			})
		},
		Files: files, Uploads: func() []string { return s.Uploads(at) }, TooLarge: 10<<20 + 1,
		Say: func(_ channels.Accepter, id, text string) {
			if !began { // what is said before the first connection is history
				began = true
				until(t, "the bot has connected", func() bool { return s.Connected() > 0 })
			}
			names.Is(id, s.Say(discordtest.Said{Channel: at, Text: "<@" + discordtest.BotID + "> " + text}))
		},
		Attach: func(_ channels.Accepter, id, text string, f channeltest.SentFile) string {
			until(t, "the bot has connected", func() bool { return s.Connected() > 0 })
			s.Files.Put(f)
			names.Is(id, s.Say(discordtest.Said{
				Channel: at, Text: "<@" + discordtest.BotID + "> " + text,
				More: map[string]any{"attachments": []any{map[string]any{
					"id": "1", "filename": f.Name, "size": f.Size, "content_type": f.MediaType,
					"url": strings.TrimSuffix(s.URL(), "/api/v10") + "/attachments/1/2/" + f.ID + "?ex=1",
				}}},
			}))
			return ""
		},
		Pose: func(id, text string) {
			other := discordtest.Ann
			other.ID = "400000000000002002"
			names.Is(id, s.Say(discordtest.Said{From: other, Text: text}))
		},
		Edit: func(_ channels.Accepter, id, of, text string) {
			edited := s.Edit(at, names.Of(of), "<@"+discordtest.BotID+"> "+text)
			names.Is(id, fmt.Sprintf("%s/edit/%d", names.Of(of), edited.UnixMilli()))
		},
		Delete: func(_ channels.Accepter, id, of string) { s.Delete(at, names.Of(of)) },
		Again:  func(id string) { s.Again(at, names.Of(id)) },
		Shown:  func() []string { return s.Texts(at) },
		Cut:    s.Cut, Silence: s.Silence,
		Refuse: func(n int) { s.Refuse(n, 0.001) },
	}
}
