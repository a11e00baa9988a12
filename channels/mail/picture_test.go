package mail_test

import (
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
)

func TestThePageHasThePictureOfAnApproval(t *testing.T) {
	channeltest.Picture(t, "Mail", func(t *testing.T) channeltest.Sitter {
		s := platform(t)
		return channeltest.Sitter{
			Subject: subjectOf(t, s, "self"), Ann: "Ann", Corebot: "Corebot", Lines: 4, Slashes: true,
			Look: func() (all []channeltest.Seen) {
				for _, text := range texts(t, s, ann) {
					all = append(all, channeltest.Seen{Text: text})
				}
				return all
			},
		}
	})
}
