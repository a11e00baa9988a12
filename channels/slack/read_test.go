package slack

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/markup"
)

// FuzzRead reads any envelope: what it takes for a message can be stored, and no part of it names another chat.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"type":"events_api","payload":{"team_id":"T1","event":{"type":"message","channel":"C1","user":"U1",
			"ts":"1.000001","text":"<@U0BOT> hi"}}}`,
		`{"type":"events_api","payload":{"team_id":"T1","event":{"type":"message","subtype":"message_changed",
			"channel":"C1","message":{"ts":"1.000001","user":"U1","text":"b","edited":{"ts":"2.000001"}}}}}`,
		`{"type":"events_api","payload":{"team_id":"T1","event":{"type":"message","subtype":"message_deleted",
			"channel":"D1","deleted_ts":"1.000001","previous_message":{"user":"U1","text":"b"}}}}`,
		`{"type":"interactive","payload":{"type":"block_actions","user":{"id":"U1"},"channel":{"id":"C1"},
			"message":{"ts":"1.000001"},"actions":[{"value":"/stop","action_ts":"2.000001"}]}}`,
		`{"type":"slash_commands","payload":{"command":"/c","text":"x","user_id":"U1","channel_id":"C1",
			"trigger_id":"1.2"}}`,
	} {
		f.Add(seed)
	}
	c := &Channel{names: names{off: true}, site: channels.Site{Log: zerolog.Nop()}}
	me := self{id: "U0BOT", bot: "B0BOT", name: "corebot", team: "T1"}
	f.Fuzz(func(t *testing.T, text string) {
		var e envelope
		if json.Unmarshal([]byte(text), &e) != nil {
			return
		}
		in, means := c.read(t.Context(), me, e)
		if !means {
			return
		}
		for _, name := range []string{
			in.ID, in.Chat, in.Thread, in.SenderID, in.EditOf, in.DeleteOf, in.Envelope.ReplyTo,
		} {
			if corebot.CheckName(name) != nil {
				t.Errorf("it has the name %q", name)
			}
		}
		if in.ID == "" || !isID(in.Chat) || !isThread(in.Thread) || !utf8.ValidString(in.Text()+in.SenderName) ||
			in.SenderID == me.id {
			t.Errorf("it is %+v", in)
		}
		for _, p := range in.Parts {
			if err := p.Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzWrite writes any answer: nothing of it is Slack's own but addresses of the web.
func FuzzWrite(f *testing.F) {
	for _, seed := range []string{
		"**a** <!here>", "[x|y](https://a.org/<>)", "```\n```", "> a\n> `b`", "[<@U1>](http://a)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		d := markup.Parse(text)
		for at := 0; at < len(text); {
			spans, to := d.Piece(at, maxText, size)
			for _, found := range references().FindAllString(write(spans), -1) {
				if !strings.HasPrefix(found, "<http://") && !strings.HasPrefix(found, "<https://") {
					t.Errorf("%q has %q", text, found)
				}
			}
			if to <= at {
				t.Fatalf("no piece after %d", at)
			}
			at = to
		}
	})
}
