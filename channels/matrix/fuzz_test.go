package matrix_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/matrix"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

// FuzzAnswer has a homeserver answer a send, and a look for it, with anything: it is told apart what was shown, what
// waits and what is over.
func FuzzAnswer(f *testing.F) {
	const me = `"user_id":"@corebot:test","device_id":"D"`
	for _, seed := range []string{
		`{"event_id":"$1",` + me + `}`, `{"event_id":7,` + me + `}`, `{}`, `null`, `[]`, `<html>`, ``,
		`{"errcode":"M_LIMIT_EXCEEDED","error":"slow","retry_after_ms":1e300}`,
		`{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":-5}`, `{"errcode":"M_UNKNOWN_TOKEN","soft_logout":true}`,
		`{"errcode":"M_FORBIDDEN","error":"` + strings.Repeat("ä", 5000) + `"}`, `{"errcode":"M_TOO_LARGE"}`,
		`{"errcode":"M_UNRECOGNIZED"}`, `{"errcode":"M_BAD_JSON"}`, `{"errcode":7}`,
		`{` + me + `,"end":"again","chunk":[{"type":"m.room.message","event_id":"$1","sender":"@corebot:test",
			"unsigned":{"transaction_id":"x"},"content":{"com.github.corebot.sent":"y"}},7,null]}`,
		`{` + me + `,"chunk":{},"joined":[]}`,
	} {
		f.Add(200, seed)
		f.Add(403, seed)
		f.Add(502, seed)
	}
	a := channeltest.NewAnswers(f)
	f.Fuzz(func(t *testing.T, status int, body string) {
		a.Say(status, nil, body)
		c, err := matrix.New(matrix.Settings{Homeserver: a.URL, Token: matrixtest.Token, Hourly: hourly, Poll: 1},
			channels.Site{Account: account, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		channel := c.(*matrix.Channel)
		o := channels.Outbound{
			Key:  corebot.Key{Agent: "main", Channel: "matrix", Account: "main", Chat: "!room:test"},
			Kind: corebot.KindReply, IdempotencyKey: "r", Parts: corebot.TextPart("*hello*"),
		}
		receipt, err := channel.Send(t.Context(), o)
		channeltest.RequireBearable(t, err, matrixtest.Token)
		if reached := receipt.Reached; err == nil && reached != len("*hello*") || err != nil && reached > 0 ||
			len(receipt.IDs) == 1 && !strings.HasPrefix(receipt.IDs[0], "$") {
			t.Errorf("the receipt is %+v, %v", receipt, err)
		}
		receipt, shown, err := channel.Delivered(t.Context(), o)
		channeltest.RequireBearable(t, err, matrixtest.Token)
		if shown && (err != nil || len(receipt.IDs) > 1) || !shown && len(receipt.IDs) > 0 {
			t.Errorf("it was looked for: %+v, %v, %v", receipt, shown, err)
		}
		_, err = channel.Check(t.Context())
		channeltest.RequireBearable(t, err, matrixtest.Token)
		_, err = channel.Typing(t.Context(), o.Key)
		channeltest.RequireBearable(t, err, matrixtest.Token)
		if n := a.Asked(); n > 60 {
			t.Errorf("it has made %d requests", n)
		}
	})
}

// FuzzHistory has a homeserver tell anything of what a sync has left out.
func FuzzHistory(f *testing.F) {
	for _, page := range []string{
		`{"chunk":[{"type":"m.room.message","event_id":"$1","sender":"@a:b","content":{"msgtype":"m.text","body":"x"}}],
			"end":"again"}`,
		`{"chunk":[{"type":"m.room.message","event_id":"$1","sender":"@a:b","content":{"msgtype":"m.file",
			"body":"../\u202e","url":"mxc://../..","info":{"mimetype":"a\u0000","size":-1}}}],"state":[7,{}]}`,
		`{"chunk":[null,7,[],{}],"end":"p"}`, `{"chunk":{}}`, `null`, ``,
		`{"chunk":[{"type":"m.room.member","state_key":"@corebot:test","sender":"@a:b","event_id":"$2","content":{
			"membership":"invite"}}]}`,
	} {
		f.Add(page, false)
		f.Add(page, true)
	}
	s := matrixtest.New()
	defer s.Close()
	f.Fuzz(func(t *testing.T, page string, arrives bool) {
		events := `{"type":"m.room.message","event_id":"$9","sender":"@a:b","content":{
			"msgtype":"m.text","body":"last"}}`
		if arrives {
			events += `,{"type":"m.room.member","state_key":"@corebot:test","sender":"@corebot:test","event_id":"$8",
				"content":{"membership":"join"}}`
		}
		answers := map[string]string{"messages": page}
		fuzzedWith(t, s, open(t, s), &channeltest.Door{}, `{"next_batch":"n","rooms":{"join":{"!r:t":{"timeline":{
			"limited":true,"prev_batch":"p","events":[`+events+`]}}}}}`, answers)
	})
}

// FuzzPlace reads any stored position: it is one of this user, or none.
func FuzzPlace(f *testing.F) {
	for _, seed := range []string{
		"@corebot:test s1_2", "@corebot:test ", "@other:test s1", "", " ",
		"@corebot:test  a b\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		since := matrix.Since("@corebot:test", s)
		if since != "" && s != "@corebot:test "+since {
			t.Errorf("%q is read as %q", s, since)
		}
	})
}

// FuzzMedia reads any address of a file: Corebot asks its own homeserver alone, below the path of files.
func FuzzMedia(f *testing.F) {
	for _, seed := range []string{
		"mxc://a.org/b", "mxc://../..", "mxc://a/..", "mxc://a/%2e%2e", "mxc://a/b/c", "mxc:///b", "http://127.0.0.1/x",
		"mxc://a\r\nb/c", "mxc://a@b:1/c", "mxc://\u202e/\u0000",
	} {
		f.Add(seed)
	}
	a := channeltest.NewAnswers(f)
	c, err := matrix.New(matrix.Settings{Homeserver: a.URL, Token: matrixtest.Token, Hourly: hourly, Poll: 1},
		channels.Site{Account: account, Log: zerolog.Nop()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, address string) {
		a.Say(200, nil, "bytes")
		content, err := matrix.OpenMedia(t.Context(), c.(*matrix.Channel), address)
		channeltest.RequireBearable(t, err, matrixtest.Token)
		if err == nil {
			_ = content.Close()
		}
		if a.Asked() == 0 {
			return
		}
		below, in := strings.CutPrefix(a.Path(), "/_matrix/client/v1/media/download/")
		steps := strings.Split(below, "/")
		for i, step := range steps {
			if name, err := url.PathUnescape(step); err != nil || name == "" || name == "." || name == ".." {
				t.Errorf("%q has the step %q", address, steps[i])
			}
		}
		if !in || len(steps) != 2 {
			t.Errorf("%q has Corebot ask for %q", address, a.Path())
		}
	})
}
