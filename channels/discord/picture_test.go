package discord_test

import (
	"regexp"
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/discord/discordtest"
)

// escaped is a sign that Discord's programs would take for markup without the one before it, which they do not show.
var escaped = regexp.MustCompile(`\\([^\w\s])`)

func TestThePageHasThePictureOfAnApproval(t *testing.T) {
	channeltest.Picture(t, "Discord", func(t *testing.T) channeltest.Sitter {
		s, ann := platform(t), discordtest.Ann
		subject := subjectOf(t, s, "")
		return channeltest.Sitter{
			Subject: subject, Ann: ann.Name, Corebot: "corebot", Asks: "@corebot ", Lines: 4,
			Typing: func() int { return s.Typing(subject.Chat) },
			Look: func() (all []channeltest.Seen) {
				for _, m := range s.Shown(subject.Chat) {
					seen := channeltest.Seen{Text: escaped.ReplaceAllString(m.Text, "$1")}
					if m.ReplyTo == subject.ID("q") {
						seen.Above = ann.Name + ": @corebot Look into the build, please …"
					}
					for _, row := range m.Rows {
						var labels []string
						for _, b := range row {
							labels = append(labels, b.Label)
						}
						seen.Buttons = append(seen.Buttons, labels)
					}
					all = append(all, seen)
				}
				return all
			},
			Press: func() {
				shown := s.Shown(subject.Chat)
				last := shown[len(shown)-1]
				s.Press(ann, subject.Chat, last.ID, last.Buttons[0].Command)
			},
		}
	})
}
