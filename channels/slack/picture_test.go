package slack_test

import (
	"encoding/json"
	"html"
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

func TestThePageHasThePictureOfAnApproval(t *testing.T) {
	channeltest.Picture(t, "Slack", func(t *testing.T) channeltest.Sitter {
		s := platform(t)
		return channeltest.Sitter{
			Subject: subjectOf(t, s, false), Ann: "Ann", Corebot: "Corebot", Lines: 4,
			Look: func() (all []channeltest.Seen) {
				for _, m := range s.Shown(slacktest.Direct) {
					all = append(all, seen(t, m))
				}
				return all
			},
			Press: func() {
				shown := s.Shown(slacktest.Direct)
				last := shown[len(shown)-1]
				s.Press(slacktest.Ann, slacktest.Direct, last, buttons(t, last)[0].Value)
			},
		}
	})
}

// button is one below a message.
type button struct {
	Value string                `json:"value"`
	Text  struct{ Text string } `json:"text"`
}

// buttons are those of a message, which stand in a row.
func buttons(t *testing.T, m slacktest.Message) (all []button) {
	t.Helper()
	if m.Blocks == nil {
		return nil
	}
	var blocks []struct {
		Type     string
		Elements []json.RawMessage
	}
	if err := json.Unmarshal(m.Blocks, &blocks); err != nil {
		t.Fatalf("the blocks %s: %v", m.Blocks, err)
	}
	for _, b := range blocks {
		if b.Type != "actions" {
			continue
		}
		for _, e := range b.Elements {
			var one button
			if err := json.Unmarshal(e, &one); err != nil {
				t.Fatalf("the button %s: %v", e, err)
			}
			all = append(all, one)
		}
	}
	return all
}

func seen(t *testing.T, m slacktest.Message) channeltest.Seen {
	t.Helper()
	s := channeltest.Seen{Text: html.UnescapeString(m.Text)} // Slack escapes &, < and >
	var row []string
	for _, b := range buttons(t, m) {
		row = append(row, b.Text.Text)
	}
	if row != nil {
		s.Buttons = [][]string{row}
	}
	return s
}
