package discord

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/discord/discordtest"
)

// answering makes channels whose platform gives every request one answer.
func answering(f *testing.F) (*channeltest.Answers, func(testing.TB) *Channel) {
	f.Helper()
	a := channeltest.NewAnswers(f)
	return a, func(tb testing.TB) *Channel {
		tb.Helper()
		c, err := New(Settings{Token: discordtest.Token, APIURL: a.URL}, channels.Site{Log: zerolog.Nop()})
		if err != nil {
			tb.Fatal(err)
		}
		return c.(*Channel)
	}
}

// FuzzAnswer has Discord answer a send, and a look for it, with anything: it is told apart what was shown, what waits
// and what is over.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"id":"5","username":"corebot"}`, `{"id":5}`, `{}`, `null`, `[]`, `<html>`, ``,
		`[{"id":"9","channel_id":"6"}]`,
		`{"message":"slow","retry_after":1e300,"global":true}`, `{"message":"slow","retry_after":-1}`,
		`{"message":"x","code":50001}`, `{"message":"x","code":50007}`,
		`{"message":"x","code":50035,"errors":{"a":[]}}`,
		`{"message":"` + strings.Repeat("ä", 5000) + `","errors":"` + strings.Repeat("x", 9000) + `"}`,
		`{"message":7}`, `{"url":"wss://evil.test/","session_start_limit":{"remaining":0,"reset_after":1e300}}`,
	} {
		f.Add(200, "", seed)
		f.Add(204, "NaN", seed)
		f.Add(403, "0.05", seed)
		f.Add(429, "1e300", seed)
		f.Add(502, "-1", seed)
	}
	a, open := answering(f)
	f.Fuzz(func(t *testing.T, status int, after, body string) {
		header := map[string]string{"Retry-After": after}
		if len(after)%2 == 0 {
			header["X-RateLimit-Remaining"], header["X-RateLimit-Reset-After"] = "0", after
		}
		a.Say(status, header, body)
		c, ctx := open(t), channeltest.Hurried(t)
		o := channels.Outbound{
			Key:  corebot.Key{Agent: "main", Channel: "discord", Account: "main", Chat: "6"},
			Kind: corebot.KindReply, IdempotencyKey: "r", InReplyTo: "4", Parts: corebot.TextPart("*hello*"),
		}
		receipt, err := c.Send(ctx, o)
		channeltest.RequireBearable(t, err, discordtest.Token)
		if reached := receipt.Reached; err == nil && reached != len("*hello*") || err != nil && reached > 0 ||
			len(receipt.IDs) == 1 && !isID(receipt.IDs[0]) {
			t.Errorf("the receipt is %+v, %v", receipt, err)
		}
		receipt, shown, err := c.Delivered(ctx, o)
		channeltest.RequireBearable(t, err, discordtest.Token)
		if shown && (err != nil || len(receipt.IDs) != 1) || !shown && len(receipt.IDs) > 0 {
			t.Errorf("it was looked for: %+v, %v, %v", receipt, shown, err)
		}
		_, err = c.Check(ctx)
		channeltest.RequireBearable(t, err, discordtest.Token)
		r := receiver{Channel: c}
		address, _, err := r.whereToConnect(ctx)
		channeltest.RequireBearable(t, err, discordtest.Token)
		if err == nil && !isGateway(address, r.local()) {
			t.Errorf("the token would go to %q", address)
		}
	})
}

// FuzzHistory has Discord tell anything of what was said meanwhile: what comes in can be stored.
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{
		`[{"id":"9","channel_id":"6","author":{"id":"7","username":"ann"},"content":"hello"}]`,
		`[{"id":"9","channel_id":"6","author":{"id":"7"},"attachments":[{"filename":"../\u202e","size":-1,
			"content_type":"a\u0000","url":"http://127.0.0.1:1/x"}]},7,null,{"id":"x"},{"id":"9","channel_id":"66"}]`,
		`[{"id":"18446744073709551615","channel_id":"6","author":{"id":"7"},"content":"x"}]`, `{}`, `null`, `[[]]`,
		`[` + strings.Repeat(`{"id":"6","name":"a","type":0,"last_message_id":"99"},`, 250) + `{}]`,
	} {
		f.Add(seed)
	}
	a, open := answering(f)
	f.Fuzz(func(t *testing.T, body string) {
		a.Say(200, nil, body)
		c, d := open(t), &channeltest.Door{}
		note(c, &c.places, "6", place{chat: "6"})
		r := receiver{Channel: c, door: d, me: testBot, at: position{Bot: testBot.id, Since: "5", Direct: "6"}}
		next := r.at
		err := r.fillOne(channeltest.Hurried(t), gap{spot{ID: "6"}, "5"}, &next)
		channeltest.RequireBearable(t, err, discordtest.Token)
		_, err = r.news(channeltest.Hurried(t), "5")
		channeltest.RequireBearable(t, err, discordtest.Token)
		if n := a.Asked(); n > 3*mostPages {
			t.Errorf("it has made %d requests", n)
		}
		for _, in := range d.Got() {
			if corebot.CheckName(in.ID) != nil || in.Chat != "6" || in.SenderID == testBot.id ||
				!utf8.ValidString(in.Text()+in.SenderName) {
				t.Errorf("it came in: %+v", in)
			}
			for _, p := range in.Parts {
				if err := p.Validate(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// FuzzFile reads any address of a file: Corebot asks hosts of Discord alone for its bytes, and never with the token.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"https://cdn.discordapp.com/x", "http://cdn.discordapp.com/x", "https://cdn.discordapp.com.evil.test/", "//x",
		"https://a@cdn.discordapp.com/", "https://cdn.discordapp.com:1/", "file:///etc/passwd", "/x", "",
		"https://cdn.discordapp.com\\@127.0.0.1/", "http://127.0.0.1:1/x",
	} {
		f.Add(seed)
	}
	a, open := answering(f)
	c := open(f)
	ended, end := context.WithCancel(context.Background())
	end() // nothing is asked outside this machine: an address that is taken fails with the context
	f.Fuzz(func(t *testing.T, address string) {
		_, err := c.client.open(address)(ended)
		channeltest.RequireBearable(t, err, discordtest.Token)
		taken := !strings.Contains(fmt.Sprint(err), "not of Discord")
		if ours := strings.HasPrefix(strings.ToLower(address), "https://cdn.discordapp.com") ||
			strings.HasPrefix(strings.ToLower(address), "https://media.discordapp.net") ||
			strings.HasPrefix(strings.ToLower(address), a.URL); taken && !ours {
			t.Errorf("%q is taken: %v", address, err)
		}
	})
}

// TestAListThatNeverMovesOnEnds: a platform that gives the same servers for ever holds up no start.
func TestAListThatNeverMovesOnEnds(t *testing.T) {
	a := channeltest.NewAnswers(t)
	c, err := New(Settings{Token: discordtest.Token, APIURL: a.URL}, channels.Site{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []string{`{"id":"x"}`, `{"id":"6"}`} {
		a.Say(200, nil, "["+one+strings.Repeat(","+one, pageGuilds-1)+"]")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r := receiver{Channel: c.(*Channel), door: &channeltest.Door{}, me: testBot}
		_, err := r.guilds(ctx)
		if cancel(); err != nil || a.Asked() > 3 {
			t.Errorf("%s was asked for %d times: %v", one, a.Asked(), err)
		}
	}
}
