package matrix_test

import (
	"maps"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/matrix"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

// A bridge says of nobody that he is a program: such a program has the answers that the settings allow.
func TestMatrixHasNoTwoProgramsTalkForEver(t *testing.T) {
	const most, bridged = 5, "@bridged:test"
	channeltest.Company(t, func(t *testing.T) channeltest.Subject {
		p := platform(t)
		s := subjectOf(t, p)
		p.Room(room, matrixtest.Ann, mallory, bridged)
		said := func(from string, more map[string]any) channeltest.Other {
			return channeltest.Other{Say: func(text string) {
				content := mentions(matrixtest.Bot)
				maps.Copy(content, more)
				p.Say(matrixtest.Said{Room: room, From: from, Text: text, Content: content})
			}}
		}
		hidden := said(bridged, nil)
		hidden.Most = most
		s.Company = map[string]channeltest.Other{
			"the account itself":   said(matrixtest.Bot, nil),
			"a bot that says so":   said(mallory, map[string]any{"msgtype": "m.notice"}),
			"another Corebot":      said(mallory, map[string]any{"com.github.corebot.sent": "x"}),
			"a program that hides": hidden,
		}
		s.Open = func() channels.Channel {
			c, err := matrix.New(matrix.Settings{
				Homeserver: p.URL(), Token: matrixtest.Token, Hourly: most, Poll: 30 * time.Second,
			}, channels.Site{Account: account, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		say := s.Say
		s.Say = func(door channels.Accepter, id, text string) { say(door, id, "corebot: "+text) } // others are there
		return s
	})
}
