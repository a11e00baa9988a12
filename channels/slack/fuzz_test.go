package slack

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

// answered makes channels whose platform gives every request one answer.
func answered(f *testing.F) (*channeltest.Answers, func(testing.TB) *Channel) {
	f.Helper()
	a := channeltest.NewAnswers(f)
	return a, func(tb testing.TB) *Channel {
		tb.Helper()
		c, err := New(Settings{Token: slacktest.Token, AppToken: slacktest.AppToken, APIURL: a.URL},
			channels.Site{Account: channels.Account{Kind: "slack", Name: "main"}, Log: zerolog.Nop()})
		if err != nil {
			tb.Fatal(err)
		}
		return c.(*Channel)
	}
}

// FuzzAnswer has Slack answer a send, and a look for it, with anything: it is told apart what was shown, what waits and
// what is over.
func FuzzAnswer(f *testing.F) {
	const me = `"user_id":"U0BOT","team_id":"T0TEAM","bot_id":"B0BOT"`
	for _, seed := range []string{
		`{"ok":true,"ts":"1.000001",` + me + `}`, `{"ok":true}`, `{"ok":true,"ts":7}`, `{"ok":null}`, `[]`,
		`<html>`, ``,
		`{"ok":false,"error":"invalid_auth"}`, `{"ok":false,"error":"ratelimited"}`,
		`{"ok":false,"error":"missing_scope","needed":"` + strings.Repeat("x", 9000) + `"}`,
		`{"ok":false,"error":"msg_too_long"}`,
		`{"ok":false,"error":"fatal_error"}`, `{"ok":false,"error":"invalid_blocks"}`, `{"ok":false,"error":7}`,
		`{"ok":true,` + me + `,"messages":[{"ts":"1.000001","user":"U0BOT","metadata":{"event_type":"x"},"files":[{}],
			"blocks":[{}]}],"response_metadata":{"next_cursor":"again"}}`,
		`{"ok":true,` + me + `,"messages":{}}`,
	} {
		f.Add(200, "", seed)
		f.Add(429, "1e300", seed)
		f.Add(503, "-1", seed)
	}
	a, open := answered(f)
	f.Fuzz(func(t *testing.T, status int, after, body string) {
		a.Say(status, map[string]string{"Retry-After": after}, body)
		c, ctx := open(t), channeltest.Hurried(t)
		o := channels.Outbound{
			Key:  corebot.Key{Agent: "main", Channel: "slack", Account: "main", Chat: "D0CHAT"},
			Kind: corebot.KindReply, IdempotencyKey: "r", Parts: corebot.TextPart("*hello*"),
		}
		receipt, err := c.Send(ctx, o)
		channeltest.RequireBearable(t, err, slacktest.Token)
		if reached := receipt.Reached; err == nil && reached != len("*hello*") || err != nil && reached > 0 ||
			len(receipt.IDs) == 1 && !isStamp(receipt.IDs[0]) {
			t.Errorf("the receipt is %+v, %v", receipt, err)
		}
		receipt, shown, err := c.Delivered(ctx, o)
		channeltest.RequireBearable(t, err, slacktest.Token)
		if shown && (err != nil || len(receipt.IDs) != 1) || !shown && len(receipt.IDs) > 0 {
			t.Errorf("it was looked for: %+v, %v, %v", receipt, shown, err)
		}
		_, err = c.Check(ctx)
		channeltest.RequireBearable(t, err, slacktest.AppToken)
	})
}

// FuzzHistory has Slack tell anything of what was said meanwhile: what comes in can be stored, and so can the position.
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{
		`{"ok":true,"channels":[{"id":"C0A"},{"id":"../x"}],"messages":[{"ts":"9.000001","user":"U1","text":"hello"}]}`,
		`{"ok":true,"channels":[{"id":"C0A"},{"id":"C0A"}],"messages":[{"ts":"9.000001","user":"U1","text":"x",
			"latest_reply":"9.000002","thread_ts":"9.000001","files":[{"id":"F0","name":"../\u202e",
			"mimetype":"a\u0000","url_private":"http://127.0.0.1:1/x"}]}],"response_metadata":{"next_cursor":"again"}}`,
		`{"ok":true,"channels":[{"id":"C0A"}],"messages":[7,null,{"ts":"x"},{"ts":"1e9.1"},{"ts":"999999999999.999999",
			"user":"U0BOT","text":"mine"}]}`,
		`{"ok":true,"channels":{}}`, `{"ok":false,"error":"internal_error"}`, `null`,
	} {
		f.Add(seed)
	}
	a, open := answered(f)
	me := self{id: "U0BOT", bot: "B0BOT", name: "corebot", team: "T0TEAM"}
	f.Fuzz(func(t *testing.T, body string) {
		a.Say(200, nil, body)
		c, d := open(t), &channeltest.Door{}
		c.names.off = true
		r := receiver{Channel: c, me: me, door: d, at: position{me.team, me.id, "1.000000", "1.000000"}}
		channeltest.RequireBearable(t, r.fill(channeltest.Hurried(t)), slacktest.Token)
		for _, in := range d.Got() {
			if corebot.CheckName(in.ID) != nil || !isID(in.Chat) || !isThread(in.Thread) || in.SenderID == me.id ||
				!utf8.ValidString(in.Text()+in.SenderName) {
				t.Errorf("it came in: %+v", in)
			}
			for _, p := range in.Parts {
				if err := p.Validate(); err != nil {
					t.Error(err)
				}
			}
		}
		if _, stored := positionOf(me, corebot.Cursor{Position: r.at.String()}, time.Now()); !stored {
			t.Errorf("the position %s cannot be read again", r.at)
		}
	})
}

// FuzzPosition reads any stored position: another than Corebot's own begins anew.
func FuzzPosition(f *testing.F) {
	for _, seed := range []string{
		`{"team":"T0TEAM","user":"U0BOT","begin":"1.000000","since":"2.000000"}`, `{"team":"T0TEAM"}`, `null`, `7`, ``,
		`{"team":"T0TEAM","user":"U0BOT","begin":"1e9","since":"-1.000000"}`, "{\"team\":\"T0TEAM\xff\"}",
	} {
		f.Add(seed)
	}
	me := self{id: "U0BOT", team: "T0TEAM"}
	f.Fuzz(func(t *testing.T, s string) {
		p, stored := positionOf(me, corebot.Cursor{Position: s}, time.Unix(1_700_000_000, 0))
		again, read := positionOf(me, corebot.Cursor{Position: p.String()}, time.Now())
		if again != p || !read || p.Team != me.team || p.User != me.id || !stored && p.Since != "1700000000.000000" {
			t.Errorf("%q is read as %+v, %v, and as %+v, %v", s, p, stored, again, read)
		}
		if len(p.String()) > corebot.MaxCursor {
			t.Errorf("the position has %d bytes", len(p.String()))
		}
		if got := before(p.Since, time.Hour); sentAt(p.Since).Unix() > 3600 && !isStamp(got) {
			t.Errorf("an hour before %s is %s", p.Since, got)
		}
	})
}

// FuzzFile reads any description of a file: Corebot asks Slack alone for its bytes.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"https://files.slack.com/x", "http://files.slack.com/x", "https://files.slack.com.evil.test/",
		"//files.slack.com", "https://a@files.slack.com/", "https://files.slack.com:1/", "file:///etc/passwd",
		"https://files.slack.com\\@b/",
	} {
		f.Add(seed)
	}
	c := client{base: "https://slack.com/api/", token: slacktest.Token}
	f.Fuzz(func(t *testing.T, address string) {
		u, err := c.own(address)
		if err != nil {
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Scheme != "https" || again.User != nil ||
			again.Host != "slack.com" && again.Host != "files.slack.com" {
			t.Errorf("%q is of Slack", address)
		}
		raw, _ := json.Marshal(map[string]any{"id": "F1", "url_private": address})
		var one file
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Error(err)
		}
	})
}
