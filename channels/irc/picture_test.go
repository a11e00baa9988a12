package irc_test

import (
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
)

func TestThePageHasThePictureOfAnApproval(t *testing.T) {
	channeltest.Picture(t, "IRC", func(t *testing.T) channeltest.Sitter {
		subject := subjectOf(t, platform(t), "#room")
		return channeltest.Sitter{
			Subject: subject, Ann: "<ann>", Corebot: "<corebot>", Asks: "corebot: ", Lines: 4,
			Look: func() (all []channeltest.Seen) {
				for _, line := range subject.Shown() {
					all = append(all, channeltest.Seen{Text: line})
				}
				return all
			},
		}
	})
}
