package discord

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/discord/discordtest"
	"github.com/corebot/corebot/channels/markup"
)

var testBot = self{id: "1", name: "corebot", app: "2", reads: true}

// testChannel is a channel that knows where the channels are, and asks nobody.
func testChannel(tb testing.TB) *Channel {
	tb.Helper()
	c, err := New(Settings{Token: discordtest.Token, APIURL: "http://127.0.0.1:1"}, channels.Site{Log: zerolog.Nop()})
	if err != nil {
		tb.Fatal(err)
	}
	return c.(*Channel)
}

// FuzzEvent reads any event: what comes in can be stored.
func FuzzEvent(f *testing.F) {
	const from = `"author":{"id":"7","username":"ann"}`
	for kind, data := range map[string]string{
		"MESSAGE_CREATE": `{"id":"5","channel_id":"6",` + from + `,"content":"hello <@1> <:a:7>",
			"mentions":[{"id":"1"}]}`,
		"MESSAGE_UPDATE": `{"id":"5","channel_id":"6",` + from + `,"content":"x",
			"edited_timestamp":"2026-01-01T00:00:00Z"}`,
		"MESSAGE_DELETE":      `{"id":"5","channel_id":"6","guild_id":"9"}`,
		"MESSAGE_DELETE_BULK": `{"ids":["5","x"],"channel_id":"6"}`,
		"INTERACTION_CREATE": `{"id":"5","type":2,"token":"t","channel_id":"6","user":{"id":"7"},
			"data":{"name":"status","options":[{"value":7}]}}`,
		"THREAD_CREATE": `{"id":"5","type":11,"parent_id":"6"}`,
	} {
		f.Add(kind, data)
	}
	f.Add("MESSAGE_CREATE", `{"id":"5","channel_id":"6","guild_id":"9",`+from+`,"member":{"nick":"Ann"},"type":19,
		"message_reference":{"message_id":"4"},"referenced_message":{"author":{"id":"1"}},"content":"<@!1> /stop"}`)
	f.Add("MESSAGE_CREATE", `{"id":"5","channel_id":"6",`+from+`,"message_reference":{"type":1},
		"message_snapshots":[{"message":{"content":"x","attachments":[{"filename":"../\u202e",
		"content_type":"image/\u0000"}]}}],"poll":{}}`)
	f.Add("INTERACTION_CREATE", `{"id":"5","type":3,"token":"t","channel_id":"6","user":{"id":"7"},
		"data":{"custom_id":"/"},"message":{"id":"x"}}`)
	f.Fuzz(func(t *testing.T, kind, data string) {
		c := testChannel(t)
		var p payload
		whole, _ := json.Marshal(map[string]any{"op": 0, "s": 1, "t": kind})
		if json.Unmarshal(whole, &p) != nil {
			return
		}
		note(c, &c.places, "6", place{chat: "6"})
		c.client.closed = time.Now().Add(time.Hour) // it asks nobody about another channel of a server
		p.Data = json.RawMessage(data)
		next := position{Bot: testBot.id}
		note(c, &c.authors, "5", author{id: "7"})
		all, err := c.read(t.Context(), testBot, p, &next)
		if err != nil && !strings.Contains(strings.ToLower(data), "guild_id") {
			t.Fatal(err)
		}
		if len(next.text()) > corebot.MaxCursor {
			t.Fatalf("the position is %s", next.text())
		}
		for _, s := range all {
			if s.DeleteOf == "" && len(s.Parts) == 0 || corebot.CheckID(s.ID) != nil || !isID(s.Chat) ||
				!isID(s.SenderID) || s.ID == s.EditOf || s.Bot && s.Interactive {
				t.Fatalf("it is read as %+v", s)
			}
			for _, p := range s.Parts {
				if err := p.Validate(); err != nil || !utf8.ValidString(p.Name+p.Text+p.MediaType) {
					t.Fatalf("a part is %+v: %v", p, err)
				}
			}
		}
	})
}

// FuzzPosition reads any stored position: what is made of it can be stored again, and names no address that may not be
// given the token.
func FuzzPosition(f *testing.F) {
	f.Add(`{"bot":"1","since":"7","session":"s","seq":3,"url":"wss://gateway.discord.gg/","direct":"5 6"}`)
	f.Add(`{"bot":"1","since":"x"}`)
	f.Add(`{"bot":"1","seq":-1,"direct":"../x"}`)
	f.Fuzz(func(t *testing.T, s string) {
		p := begin(testBot, corebot.Cursor{Position: s})
		p.wrote("7")
		if p.Bot != testBot.id || p.Since != "" && !isID(p.Since) || len(strings.Fields(p.Direct)) > mostDirect {
			t.Fatalf("it is read as %+v", p)
		}
		for _, chat := range strings.Fields(p.Direct) {
			if !isID(chat) {
				t.Fatalf("a direct chat is %q", chat)
			}
		}
		if again := begin(testBot, corebot.Cursor{Position: p.text()}); again != p {
			t.Fatalf("%+v is stored as %+v", p, again)
		}
	})
}

// FuzzMarkdown makes messages of any answer: each fits, and together they reach the end.
func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{
		"# a\n\n> - b\n>   1. c\n\n***", "a | b\n-|-:\n1 | 2 | 3\n`\\|`", "[a](http://b.org 'd') ![](e) [f]\n\n[f]: /g",
		"***a** b* ~~c~~ `` ` ``", "**a [`b` *c*](http://d.e) f**", "😀 @everyone <@1> <b>",
		strings.Repeat("> **a long text** with [links](http://x.y/?a=b) 😀.\n", 200), strings.Repeat("*_", 3000),
		"```go\n" + strings.Repeat("x := \"``` \"\n", 400) + "```",
		strings.Repeat("[a](http://b/"+strings.Repeat("c", 3000)+") ", 3),
	} {
		f.Add(s)
	}
	c := testChannel(f)
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		o := channels.Outbound{Kind: corebot.KindReply, IdempotencyKey: "r", Parts: corebot.TextPart(s)}
		seen := map[string]bool{}
		for from := 0; from < len(s); {
			o.Before, o.Parts = s[:from], corebot.TextPart(s[from:])
			p := c.piece(o)
			if p.to <= from || units(p.content) > maxUnits || seen[p.nonce] || len(p.nonce) > maxNonce {
				t.Fatalf("behind %d of %q: %d units to %d, nonce %q", from, s, units(p.content), p.to, p.nonce)
			}
			if again := c.piece(o); again != p {
				t.Fatalf("the same piece is %+v and %+v", p, again)
			}
			seen[p.nonce] = true
			from = p.to
		}
	})
}

func TestMarkdownBecomesThePlatformsOwn(t *testing.T) {
	for in, want := range map[string]string{
		"a < b && c > \"d\"":            `a \< b && c > "d"`,
		"**a *b* c** ~~d~~ `e<f`":       "**a** ***b*** **c** ~~d~~ `e<f`",
		"***a** b*":                     "***a*** *b*",
		"# Title\n\n- a\n- **b**":       "**Title**\n\n• a\n• **b**",
		"```go\nx := \"<\"\n```":        "```go\nx := \"<\"\n```",
		"> a\n> **b**\n\nc\n\n> d":      "> a\n> **b**\n\nc\n\n> d",
		"> a\n>\n>     b\n>\n> c":       "> a\n> \n> ```\n> b\n> ```\n> \n> c",
		"[a **b**](https://c.org/?d&e)": "[a](<https://c.org/?d&e>) **[b](<https://c.org/?d&e>)**",
		"**a***b*":                      "**a**\u200b*b*",
		"**`a`**":                       "`a`",
		"`` a`b ``":                     "`` a`b ``",
		"<@1> @everyone snake_case":     `\<@1> @everyone snake\_case`,
		"https://a.b/c_d_e f_g_h":       `https://a.b/c_d_e f\_g\_h`,
		"\\# no title":                  `\# no title`,
		"\\> no quote":                  `\> no quote`,
		"[a](javascript:alert(1))":      "a (javascript:alert(1))",
	} {
		spans, _ := markup.Parse(in).Piece(0, maxUnits, units)
		if got := write(spans); got != want {
			t.Errorf("%q became\n%s\nand not\n%s", in, got, want)
		}
	}
}

// The platform's programs take all for an address up to white space or a `<`. An escape in it would be seen. The parser
// of Markdown that the npm package discord-markdown has shows each of these as it is.
func TestTextWithAddressesIsShownAsItIs(t *testing.T) {
	for in, want := range map[string]string{
		"curl http://a.b/c>d_e.txt": "curl http://a.b/c>d_e.txt",
		"http://a.b/c*d*<@7> *e*":   "http://a.b/c*d*<\u200b@7> \\*e\\*",
		"[a](http://b.c)<t:12>":     "\\[a](http://b.c)<\u200bt:12>",
		"http://* and http://_":     `http:\/\/\* and http:\/\/\_`,
		"steam://a_b_c":             `steam:\/\/a\_b\_c`,
		"http://*: http://*:":       `http:\/\/\*: http:\/\/\*:`,
		"http://a.b/\u00a0*c*":      "http://a.b/\u00a0\\*c\\*",
	} {
		spans, _ := markup.Plain(in).Piece(0, maxUnits, units)
		if got := write(spans); got != want {
			t.Errorf("%q became\n%q and not\n%q", in, got, want)
		}
	}
}
