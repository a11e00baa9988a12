package discord

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

const (
	annWrites = `"id":"5","channel_id":"6","author":{"id":"7","username":"ann","global_name":"Ann Lee"}`
	inServer  = annWrites + `,"guild_id":"9","member":{"nick":"Owner"}`
)

// readAll reads an event as the bot "1" does. Channel 6 and its thread 66 are of server 9.
func readAll(t *testing.T, c *Channel, kind, data string) []said {
	t.Helper()
	note(c, &c.places, "6", place{chat: "6"})
	note(c, &c.places, "66", place{chat: "6", thread: "66"})
	all, err := c.read(t.Context(), testBot, payload{Type: kind, Data: json.RawMessage(data)}, &position{Bot: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Files, all[i].answers = nil, nil
	}
	return all
}

func TestAnEventBecomesTheMessageThatItsSenderMeans(t *testing.T) {
	direct := func(more func(*channels.Incoming)) *channels.Incoming {
		in := channels.Incoming{
			ID: "5", Chat: "6", SenderID: "7", SenderName: "Ann Lee", Parts: corebot.TextPart("hello"),
			Envelope: corebot.Envelope{SentAt: madeAt("5")}, Interactive: true,
		}
		more(&in)
		return &in
	}
	group := func(text string, more func(*channels.Incoming)) *channels.Incoming {
		return direct(func(in *channels.Incoming) {
			in.Envelope.Group, in.SenderName, in.Parts = true, "Owner", corebot.TextPart(text)
			more(in)
		})
	}
	named := func(in *channels.Incoming) { in.Envelope.Mentioned = true }
	as := func(*channels.Incoming) {}
	edited := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		kind, data string
		want       *channels.Incoming // nil: it means nothing to the bot
	}{
		"a text": {"MESSAGE_CREATE", `{` + annWrites + `,"content":" hello "}`, direct(as)},
		"in a server, by a nickname that others have, too": {
			"MESSAGE_CREATE", `{` + inServer + `,"content":"hello"}`, group("hello", as),
		},
		"in a thread": {
			"MESSAGE_CREATE", `{"id":"5","channel_id":"66","guild_id":"9","author":{"id":"7","username":"ann"},
				"content":"hello"}`,
			group("hello", func(in *channels.Incoming) { in.Thread, in.SenderName = "66", "ann" }),
		},
		"a mention before the first word": {
			"MESSAGE_CREATE", `{` + inServer + `,"content":"<@1> what's up?"}`, group("what's up?", named),
		},
		"a mention by a nickname": {"MESSAGE_CREATE", `{` + inServer + `,"content":"<@!1> hi"}`, group("hi", named)},
		"a mention within": {
			"MESSAGE_CREATE", `{` + inServer + `,"content":"is <@1> there?"}`, group("is @corebot there?", named),
		},
		"a mention alone": {"MESSAGE_CREATE", `{` + inServer + `,"content":"<@1>"}`, group("@corebot", named)},
		"a command behind a mention": {
			"MESSAGE_CREATE", `{` + inServer + `,"content":"<@1> /stop"}`, group("/stop", named),
		},
		"a mention of another": {
			"MESSAGE_CREATE", `{` + inServer + `,"content":"<@8> hi","mentions":[{"id":"8","username":"bob"}]}`,
			group("@bob hi", as),
		},
		"everybody and a role": {
			"MESSAGE_CREATE", `{` + inServer + `,
				"content":"@everyone <@&77> hi","mention_everyone":true,"mention_roles":["77"]}`,
			group("@everyone <@&77> hi", as),
		},
		"a reply to the bot": {
			"MESSAGE_CREATE", `{` + inServer + `,"type":19,"content":"yes","message_reference":{"message_id":"4"},
			"referenced_message":{"author":{"id":"1"}}}`,
			group("yes", func(in *channels.Incoming) { in.Envelope.ReplyTo, in.Envelope.Mentioned = "4", true }),
		},
		"a reply to another": {
			"MESSAGE_CREATE", `{` + inServer + `,"type":19,"content":"yes","message_reference":{"message_id":"4"},
			"referenced_message":{"author":{"id":"8"}}}`,
			group("yes", func(in *channels.Incoming) { in.Envelope.ReplyTo = "4" }),
		},
		"a reply to what is gone": {
			"MESSAGE_CREATE", `{` + inServer + `,"type":19,"content":"yes","message_reference":{"message_id":"4"},
			"referenced_message":null}`,
			group("yes", func(in *channels.Incoming) { in.Envelope.ReplyTo = "4" }),
		},
		"a forwarded message mentions nobody": {
			"MESSAGE_CREATE", `{` + inServer + `,"message_reference":{"type":1,"message_id":"4"},
			"message_snapshots":[{"message":{"content":"<@1> /grant"}}]}`,
			group("/grant", func(in *channels.Incoming) { in.Envelope.Forwarded = true }),
		},
		"a bot": {
			"MESSAGE_CREATE", `{"id":"5","channel_id":"6","author":{"id":"7","username":"ann","bot":true},
				"content":"hello"}`,
			direct(func(in *channels.Incoming) { in.SenderName, in.Bot, in.Interactive = "ann", true, false }),
		},
		"a webhook under the name of a person": {
			"MESSAGE_CREATE", `{"id":"5","channel_id":"6","webhook_id":"7","author":{"id":"7","username":"Ann Lee"},
			"content":"hello"}`,
			direct(func(in *channels.Incoming) { in.Bot, in.Interactive = true, false }),
		},
		"the bot itself": {
			"MESSAGE_CREATE", `{"id":"5","channel_id":"6","author":{"id":"1","username":"corebot"},
				"content":"hello"}`, nil,
		},
		"somebody joined":           {"MESSAGE_CREATE", `{` + inServer + `,"type":7,"content":""}`, nil},
		"a thread began":            {"MESSAGE_CREATE", `{` + inServer + `,"type":21,"content":""}`, nil},
		"no text that one may read": {"MESSAGE_CREATE", `{` + inServer + `,"content":""}`, nil},
		"no author":                 {"MESSAGE_CREATE", `{"id":"5","channel_id":"6","content":"hello"}`, nil},
		"an emoji of the server": {
			"MESSAGE_CREATE", `{` + annWrites + `,"content":"<a:wave:12> hello"}`,
			direct(func(in *channels.Incoming) { in.Parts = corebot.TextPart(":wave: hello") }),
		},
		"a sticker": {
			"MESSAGE_CREATE", `{` + annWrites + `,"content":"","sticker_items":[{"name":"Wave"}]}`,
			direct(func(in *channels.Incoming) { in.Parts = corebot.TextPart("[sticker Wave]") }),
		},
		"a poll": {
			"MESSAGE_CREATE", `{` + annWrites + `,"poll":{"question":{"text":"tea?"},
			"answers":[{"poll_media":{"text":"yes"}},{"poll_media":{"text":"no"}}]}}`,
			direct(func(in *channels.Incoming) { in.Parts = corebot.TextPart(`[poll "tea?": "yes", "no"]`) }),
		},
		"files": {
			"MESSAGE_CREATE", `{` + annWrites + `,
				"content":"look","attachments":[{"filename":"a.png","content_type":"image/png",
			"url":"https://cdn.discordapp.com/a"},
				{"filename":"b.ogg","content_type":"audio/ogg"},{"filename":"c.pdf"}]}`,
			direct(func(in *channels.Incoming) {
				in.Parts = append(corebot.TextPart("look"),
					corebot.Part{Type: corebot.PartImage, Name: "a.png", MediaType: "image/png"},
					corebot.Part{Type: corebot.PartAudio, Name: "b.ogg", MediaType: "audio/ogg"},
					corebot.Part{Type: corebot.PartFile, Name: "c.pdf"})
			}),
		},
		"an edit": {
			"MESSAGE_UPDATE", `{` + annWrites + `,"content":"/new hello","edited_timestamp":"2026-01-02T03:04:05Z"}`,
			direct(func(in *channels.Incoming) {
				in.ID, in.EditOf, in.Envelope.SentAt = "5/edit/1767323045000", "5", edited
				in.Parts = corebot.TextPart("/new hello")
			}),
		},
		"the preview of a link": {"MESSAGE_UPDATE", `{` + annWrites + `,
			"content":"hello","edited_timestamp":null}`, nil},
		"a deletion of what was never seen": {
			"MESSAGE_DELETE", `{"id":"5","channel_id":"6","guild_id":"9"}`, nil,
		},
		"ids that are none": {"MESSAGE_CREATE", `{"id":"../5","channel_id":"6","author":{"id":"7"},
			"content":"x"}`, nil},
		"a server that is none": {"MESSAGE_CREATE", `{` + annWrites + `,"guild_id":"x/y","content":"x"}`, nil},
		"an unknown event":      {"VOICE_STATE_UPDATE", `{"id":"5"}`, nil},
		"a press": {
			"INTERACTION_CREATE", `{"id":"5","type":3,"token":"t","channel_id":"6","guild_id":"9",
			"member":{"nick":"Owner","user":{"id":"7","username":"ann"}},"data":{"custom_id":"/approve 3"},
			"message":{"id":"4","channel_id":"6"}}`,
			group("/approve 3", func(in *channels.Incoming) {
				in.ID, in.Envelope.Mentioned, in.Envelope.ReplyTo = "press/5", true, "4"
			}),
		},
		"a slash command": {
			"INTERACTION_CREATE", `{"id":"5","type":2,"token":"t","channel_id":"6","user":{"id":"7","username":"ann"},
			"data":{"name":"remind","options":[{"value":"in 5 minutes"}]}}`,
			direct(func(in *channels.Incoming) {
				in.ID, in.SenderName, in.Envelope.Mentioned = "command/5", "ann", true
				in.Parts = corebot.TextPart("/remind in 5 minutes")
			}),
		},
		"a press of what is no command": {
			"INTERACTION_CREATE", `{"id":"5","type":3,"token":"t","channel_id":"6","user":{"id":"7"},
				"data":{"custom_id":"x"}}`, nil,
		},
		"a press whose token is a path": {
			"INTERACTION_CREATE", `{"id":"5","type":3,"token":"a b","channel_id":"6","user":{"id":"7"},
			"data":{"custom_id":"/stop"}}`, nil,
		},
		"a press of nobody": {
			"INTERACTION_CREATE", `{"id":"5","type":3,"token":"t","channel_id":"6","data":{"custom_id":"/stop"}}`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := readAll(t, testChannel(t), c.kind, c.data)
			switch {
			case c.want == nil && len(all) != 0:
				t.Errorf("it is read as %+v", all[0].Incoming)
			case c.want != nil && (len(all) != 1 || !reflect.DeepEqual(all[0].Incoming, *c.want)):
				t.Errorf("it is read as\n%+v and not\n%+v", all, *c.want)
			}
		})
	}
}

func TestAReactionToTheBotIsContextAndAnyOtherSaysNothingToIt(t *testing.T) {
	at := func(author, more string) string {
		return `{"user_id":"7","channel_id":"66","message_id":"5","guild_id":"9","message_author_id":"` + author + `",
			"member":{"user":{"id":"7","username":"ann"},"nick":"Ann"},` + more + `}`
	}
	const thumb = `"emoji":{"id":null,"name":"👍"}`
	c := testChannel(t)
	all := readAll(t, c, "MESSAGE_REACTION_ADD", at("1", thumb))
	want := channels.Incoming{
		ID: "react/5/7/👍", Chat: "6", Thread: "66", SenderID: "7", SenderName: "Ann", Aside: true,
		Parts:    corebot.TextPart("[reacts with 👍 to a message of Corebot]"),
		Envelope: corebot.Envelope{Group: true, ReplyTo: "5"},
	}
	if len(all) != 1 || !reflect.DeepEqual(all[0].Incoming, want) {
		t.Errorf("it is read as %+v", all)
	}
	own := readAll(t, c, "MESSAGE_REACTION_ADD", at("1", `"emoji":{"id":"123","name":"ok"}`))
	if len(own) != 1 || !strings.Contains(own[0].Text(), " :ok: ") {
		t.Errorf("a sign of the server is read as %+v", own)
	}
	for name, data := range map[string]string{
		"to another":   at("8", thumb),
		"without sign": at("1", `"emoji":{"id":null,"name":null}`),
		"by a program": strings.Replace(at("1", thumb), `"username"`, `"bot":true,"username"`, 1),
		"by the bot":   strings.Replace(at("1", thumb), `"user_id":"7"`, `"user_id":"1"`, 1),
		"odd":          `{"user_id":7,"emoji":"x"}`,
	} {
		if all := readAll(t, c, "MESSAGE_REACTION_ADD", data); len(all) != 0 {
			t.Errorf("%s: it is read as %+v", name, all)
		}
	}
}

func TestADeletionIsOfWhoWroteTheMessage(t *testing.T) {
	c := testChannel(t)
	readAll(t, c, "MESSAGE_CREATE", `{`+inServer+`,"content":"hello"}`)
	all := readAll(t, c, "MESSAGE_DELETE_BULK", `{"ids":["5","55"],"channel_id":"6","guild_id":"9"}`)
	want := channels.Incoming{
		ID: "5/delete", DeleteOf: "5", Chat: "6", SenderID: "7", SenderName: "Owner",
		Envelope: corebot.Envelope{Group: true},
	}
	if len(all) != 1 || !reflect.DeepEqual(all[0].Incoming, want) {
		t.Errorf("it is read as %+v", all)
	}
}

func TestTheSettingsSayInWhichServersAndChannelsTheBotListens(t *testing.T) {
	for name, k := range map[string]struct {
		guilds, channels []string
		data             string
		hears            bool
	}{
		"everywhere":                {nil, nil, inServer, true},
		"its server":                {[]string{"9"}, nil, inServer, true},
		"another server":            {[]string{"8"}, nil, inServer, false},
		"its channel":               {nil, []string{"6"}, inServer, true},
		"another channel":           {nil, []string{"8"}, inServer, false},
		"its channel, other server": {[]string{"8"}, []string{"6"}, inServer, false},
		"a thread of its channel": {
			nil, []string{"6"}, `"id":"5","channel_id":"66","guild_id":"9","author":{"id":"7"}`, true,
		},
		"a direct chat": {[]string{"8"}, []string{"8"}, annWrites, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := testChannel(t)
			c.settings.Guilds, c.settings.Channels = k.guilds, k.channels
			for kind, data := range map[string]string{
				"MESSAGE_CREATE": `{` + k.data + `,"content":"hello"}`,
				"MESSAGE_UPDATE": `{` + k.data + `,"content":"hello","edited_timestamp":"2026-01-02T03:04:05Z"}`,
				"MESSAGE_REACTION_ADD": `{` + k.data + `,"user_id":"7","message_id":"5","message_author_id":"1",
					"emoji":{"id":null,"name":"👍"}}`,
			} {
				if n := len(readAll(t, c, kind, data)); (n == 1) != k.hears {
					t.Errorf("%s: %d messages", kind, n)
				}
			}
		})
	}
	c := testChannel(t)
	c.settings.Guilds = []string{"8"}
	const unknown = `"id":"5","channel_id":"77","guild_id":"9","author":{"id":"7"},"user_id":"7","message_id":"5",
		"message_author_id":"1","emoji":{"name":"x"},"content":"hello"` // Discord would be asked where it is
	for _, kind := range []string{"MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD"} {
		if all := readAll(t, c, kind, `{`+unknown+`}`); len(all) != 0 {
			t.Errorf("%s in another server is read as %+v", kind, all)
		}
	}
	c = testChannel(t)
	c.settings.Channels = []string{"8"}
	press := `{"id":"5","type":3,"token":"t","channel_id":"6","guild_id":"9","user":{"id":"7"},
		"data":{"custom_id":"/stop"}}`
	if all := readAll(t, c, "INTERACTION_CREATE", press); len(all) != 0 {
		t.Errorf("a press in another channel is read as %+v", all)
	}
}
