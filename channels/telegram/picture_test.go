package telegram_test

import (
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

func TestThePageHasThePictureOfAnApproval(t *testing.T) {
	channeltest.Picture(t, "Telegram", func(t *testing.T) channeltest.Sitter {
		s, ann := platform(t), telegramtest.Ann
		return channeltest.Sitter{
			Subject: subjectOf(t, s, ""), Ann: ann.FirstName, Corebot: "Corebot", Lines: 9,
			Typing: func() int { return s.Typing(ann.ID) },
			Look: func() (all []channeltest.Seen) {
				for _, m := range s.Shown(ann.ID) {
					seen := channeltest.Seen{Text: m.Text}
					for _, row := range m.Rows {
						var labels []string
						for _, b := range row {
							labels = append(labels, b.Text)
						}
						seen.Buttons = append(seen.Buttons, labels)
					}
					all = append(all, seen)
				}
				return all
			},
			Press: func() {
				shown := s.Shown(ann.ID)
				last := shown[len(shown)-1]
				s.Press(ann, ann.ID, last.ID, last.Buttons[0].Data)
			},
		}
	})
}
