package matrix_test

import (
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
)

func TestThePageHasThePictureOfAnApproval(t *testing.T) {
	channeltest.Picture(t, "Matrix", func(t *testing.T) channeltest.Sitter {
		s := platform(t)
		return channeltest.Sitter{
			Subject: subjectOf(t, s), Ann: "Ann", Corebot: "Corebot", Lines: 4,
			Typing: func() int { return s.Typing(room) },
			Look: func() (all []channeltest.Seen) {
				for _, text := range s.Texts(room) {
					all = append(all, channeltest.Seen{Text: text})
				}
				return all
			},
		}
	})
}
