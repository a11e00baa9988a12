package telegram

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

var testBot = bot{ID: 4242, Username: "corebot_bot"}

// incoming reads one update.
func incoming(t *testing.T, text string) (channels.Incoming, bool) {
	t.Helper()
	var u update
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		t.Fatal(err)
	}
	in, means, err := testBot.read(u)
	if err != nil {
		t.Fatal(err)
	}
	return in, means
}

const (
	ann     = `"from":{"id":7,"first_name":"Ann","last_name":"Lee"},"date":1700000000`
	private = ann + `,"chat":{"id":7,"type":"private"}`
	group   = ann + `,"chat":{"id":-100,"type":"supergroup","title":"All"}`
)

func TestAnUpdateBecomesTheMessageThatItsSenderMeans(t *testing.T) {
	sent := time.Unix(1700000000, 0)
	said := func(more func(*channels.Incoming)) channels.Incoming {
		in := channels.Incoming{
			ID: "5", Chat: "7", SenderID: "7", SenderName: "Ann Lee", Parts: corebot.TextPart("hello"),
			Envelope: corebot.Envelope{SentAt: sent}, Interactive: true,
		}
		more(&in)
		return in
	}
	inGroup := func(more func(*channels.Incoming)) channels.Incoming {
		return said(func(in *channels.Incoming) {
			in.Chat, in.Envelope.Group = "-100", true
			more(in)
		})
	}
	text := func(s string) func(*channels.Incoming) {
		return func(in *channels.Incoming) { in.Parts = corebot.TextPart(s) }
	}
	mentions := func(s string) func(*channels.Incoming) {
		return func(in *channels.Incoming) { in.Envelope.Mentioned, in.Parts = true, corebot.TextPart(s) }
	}
	for name, c := range map[string]struct {
		update string
		want   channels.Incoming
	}{
		"a text": {`"message":{"message_id":5,` + private + `,"text":"hello"}`, said(func(*channels.Incoming) {})},
		"an edit": {
			`"edited_message":{"message_id":5,` + private + `,"edit_date":1700000009,"text":"hello"}`,
			said(func(in *channels.Incoming) {
				in.ID, in.EditOf, in.Envelope.SentAt = "5/edit/900", "5", sent.Add(9*time.Second)
			}),
		},
		"a topic": {
			`"message":{"message_id":5,` + group + `,"message_thread_id":3,"is_topic_message":true,"text":"hello",
			 "reply_to_message":{"message_id":3,"from":{"id":4242,"is_bot":true},"forum_topic_created":{"name":"x"}}}`,
			inGroup(func(in *channels.Incoming) { in.Thread = "3" }),
		},
		"a thread that is no topic": {
			`"message":{"message_id":5,` + group + `,"message_thread_id":3,"text":"hello"}`,
			inGroup(func(*channels.Incoming) {}),
		},
		"a reply to the bot": {
			`"message":{"message_id":5,` + group + `,"text":"hello","reply_to_message":{"message_id":4,
			 "from":{"id":4242,"is_bot":true}}}`,
			inGroup(func(in *channels.Incoming) { in.Envelope.ReplyTo, in.Envelope.Mentioned = "4", true }),
		},
		"a reply to another": {
			`"message":{"message_id":5,` + group + `,"text":"hello","reply_to_message":{"message_id":4,
			 "from":{"id":8}}}`,
			inGroup(func(in *channels.Incoming) { in.Envelope.ReplyTo = "4" }),
		},
		"a mention": {
			`"message":{"message_id":5,` + group + `,"text":"@Corebot_bot what's up?",
			 "entities":[{"type":"mention","offset":0,"length":12}]}`,
			inGroup(mentions("what's up?")),
		},
		"a mention behind an emoji": {
			`"message":{"message_id":5,` + group + `,"text":"😀 hi @corebot_bot!",
			 "entities":[{"type":"mention","offset":6,"length":12}]}`,
			inGroup(mentions("😀 hi @corebot_bot!")),
		},
		"a mention alone": {
			`"message":{"message_id":5,` + group + `,"text":"@corebot_bot",
			 "entities":[{"type":"mention","offset":0,"length":12}]}`,
			inGroup(mentions("@corebot_bot")),
		},
		"a mention without a name": {
			`"message":{"message_id":5,` + group + `,"text":"Core, hi",
			 "entities":[{"type":"text_mention","offset":0,"length":4,"user":{"id":4242}}]}`,
			inGroup(mentions(", hi")),
		},
		"a mention of another": {
			`"message":{"message_id":5,` + group + `,"text":"@other hi",
			 "entities":[{"type":"mention","offset":0,"length":6}]}`,
			inGroup(text("@other hi")),
		},
		"a command": {
			`"message":{"message_id":5,` + group + `,"text":"/status@corebot_bot now",
			 "entities":[{"type":"bot_command","offset":0,"length":19}]}`,
			inGroup(mentions("/status now")),
		},
		"a command behind a mention": {
			`"message":{"message_id":5,` + group + `,"text":"@corebot_bot /stop",
			 "entities":[{"type":"mention","offset":0,"length":12},{"type":"bot_command","offset":13,"length":5}]}`,
			inGroup(mentions("/stop")),
		},
		"a start": {`"message":{"message_id":5,` + private + `,"text":"/start abc"}`, said(text("/help"))},
		"a link": {
			`"message":{"message_id":5,` + private + `,"text":"see here now",
			 "entities":[{"type":"text_link","offset":4,"length":4,"url":"http://a.org/"}]}`,
			said(text("see here (http://a.org/) now")),
		},
		"entities out of bounds": {
			`"message":{"message_id":5,` + private + `,"text":"hello","entities":[
			 {"type":"mention","offset":-3,"length":9},{"type":"bot_command","offset":2,"length":99},
			 {"type":"mention","offset":1,"length":-1}]}`,
			said(func(*channels.Incoming) {}),
		},
		"a forwarded text": {
			`"message":{"message_id":5,` + private + `,"text":"hello","forward_origin":{"type":"user"}}`,
			said(func(in *channels.Incoming) { in.Envelope.Forwarded = true }),
		},
		"a text of an inline bot": {
			`"message":{"message_id":5,` + private + `,"text":"hello","via_bot":{"id":9,"is_bot":true}}`,
			said(func(in *channels.Incoming) { in.Envelope.Forwarded = true }),
		},
		"a text of another bot": {
			`"message":{"message_id":5,"from":{"id":9,"is_bot":true,"first_name":"B"},"date":1700000000,
			 "chat":{"id":-100,"type":"group"},"text":"hello"}`,
			inGroup(func(in *channels.Incoming) {
				in.SenderID, in.SenderName, in.Bot, in.Interactive = "9", "B", true, false
			}),
		},
		"a text of its own": {
			`"message":{"message_id":5,"from":{"id":4242,"is_bot":true,"first_name":"C"},"date":1700000000,
			 "chat":{"id":-100,"type":"group"},"text":"hello"}`,
			inGroup(func(in *channels.Incoming) {
				in.SenderID, in.SenderName, in.Bot, in.Own, in.Interactive = "4242", "C", true, true, false
			}),
		},
		"an anonymous admin": {
			`"message":{"message_id":5,"from":{"id":1087968824,"is_bot":true,"first_name":"Group"},"date":1700000000,
			 "sender_chat":{"id":-100,"type":"supergroup","title":"All"},"author_signature":"boss",
			 "chat":{"id":-100,"type":"supergroup"},"text":"hello"}`,
			inGroup(func(in *channels.Incoming) {
				in.SenderID, in.SenderName, in.Interactive = "-100", "All boss", false
			}),
		},
		"a post of the linked channel": {
			`"message":{"message_id":5,"from":{"id":777000,"first_name":"T"},"date":1700000000,
			 "sender_chat":{"id":-200,"type":"channel","title":"News"},"is_automatic_forward":true,
			 "chat":{"id":-100,"type":"supergroup"},"text":"hello"}`,
			inGroup(func(in *channels.Incoming) {
				in.SenderID, in.SenderName, in.Interactive, in.Bot = "-200", "News", false, true
			}),
		},
		"a picture": {
			`"message":{"message_id":5,` + private + `,"caption":"hello","photo":[{"file_id":"a"},{"file_id":"b"}]}`,
			said(func(in *channels.Incoming) {
				in.Parts = append(in.Parts, corebot.Part{Type: corebot.PartImage, MediaType: "image/jpeg"})
			}),
		},
		"a file": {
			`"message":{"message_id":5,` + private + `,"document":{"file_name":"../a.pdf",
			 "mime_type":"application/pdf"}}`,
			said(func(in *channels.Incoming) {
				in.Parts = []corebot.Part{{Type: corebot.PartFile, Name: "../a.pdf", MediaType: "application/pdf"}}
			}),
		},
		"a voice": {
			`"message":{"message_id":5,` + private + `,"voice":{"duration":3}}`,
			said(func(in *channels.Incoming) {
				in.Parts = []corebot.Part{{Type: corebot.PartAudio, MediaType: "audio/ogg"}}
			}),
		},
		"an animation": {
			`"message":{"message_id":5,` + private + `,"animation":{"mime_type":"video/mp4"},
			 "document":{"mime_type":"video/mp4"}}`,
			said(func(in *channels.Incoming) {
				in.Parts = []corebot.Part{{Type: corebot.PartFile, MediaType: "video/mp4"}}
			}),
		},
		"a sticker": {`"message":{"message_id":5,` + private + `,"sticker":{"emoji":"😀"}}`, said(text("[sticker 😀]"))},
		"a location": {
			`"message":{"message_id":5,` + private + `,"location":{"latitude":52.5,"longitude":13.25}}`,
			said(text("[location 52.500000, 13.250000]")),
		},
		"a place": {
			`"message":{"message_id":5,` + private + `,"location":{"latitude":1,"longitude":2},
			 "venue":{"title":"Bar","address":"Way 1"}}`,
			said(text(`[place "Bar", "Way 1" at 1.000000, 2.000000]`)),
		},
		"a contact": {
			`"message":{"message_id":5,` + private + `,"contact":{"phone_number":"+1","first_name":"Bo"}}`,
			said(text(`[contact "Bo", "+1"]`)),
		},
		"a poll": {
			`"message":{"message_id":5,` + private + `,"poll":{"question":"Q?","options":[{"text":"a"},{"text":"b"}]}}`,
			said(text(`[poll "Q?": "a", "b"]`)),
		},
		"a die": {`"message":{"message_id":5,` + private + `,"dice":{"emoji":"🎲","value":6}}`, said(text("[🎲 6]"))},
		"a press": {
			`"callback_query":{"id":"77","from":{"id":7,"first_name":"Ann","last_name":"Lee"},"data":"/approve 3",
			 "message":{"message_id":4,"chat":{"id":-100,"type":"supergroup"},"message_thread_id":3,
			 "is_topic_message":true,"date":0}}`,
			inGroup(func(in *channels.Incoming) {
				in.ID, in.Thread, in.Parts = "press/77", "3", corebot.TextPart("/approve 3")
				in.Envelope = corebot.Envelope{Group: true, Mentioned: true, ReplyTo: "4"}
			}),
		},
	} {
		got, means := incoming(t, `{"update_id":900,`+c.update+`}`)
		if !means || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: it is read as (%v)\n%+v and not\n%+v", name, means, got, c.want)
		}
	}
}

func TestUpdatesThatSayNothingToTheBotAreLeftOut(t *testing.T) {
	for name, update := range map[string]string{
		"a command for another bot": `"message":{"message_id":5,` + group + `,"text":"/stop@other_bot",
			"entities":[{"type":"bot_command","offset":0,"length":15}]}`,
		"somebody joined": `"message":{"message_id":5,` + group + `,"new_chat_members":[{"id":8}]}`,
		"a place that is shared live": `"edited_message":{"message_id":5,` + private + `,"location":{"latitude":1,
			"longitude":2}}`,
		"another kind": `"poll_answer":{"poll_id":"1"}`,
		"a press without a message": `"callback_query":{"id":"1","from":{"id":7},"inline_message_id":"x",
			"data":"/stop"}`,
		"a press that is no command": `"callback_query":{"id":"1","from":{"id":7},"data":"hello",
			"message":{"message_id":4,"chat":{"id":7,"type":"private"}}}`,
		"null": `"message":null`,
	} {
		if in, means := incoming(t, `{"update_id":900,`+update+`}`); means {
			t.Errorf("%s is read as %+v", name, in)
		}
	}
}

func TestAnUpdateOfAnUnknownFormHoldsUpNoOther(t *testing.T) {
	var all []update
	text := `[{"update_id":1,"message":"?"},{"update_id":2,"message":{"message_id":5,` + private + `,"text":"hi"}}]`
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	if _, means, err := testBot.read(all[0]); means || err == nil || all[0].ID != 1 {
		t.Errorf("the first is read as %+v, %v", all[0], err)
	}
	if in, means, err := testBot.read(all[1]); !means || err != nil || in.Text() != "hi" {
		t.Errorf("the second is read as %+v, %v", in, err)
	}
	for _, unnumbered := range []string{`[{}]`, `[7]`, `[{"update_id":"x"}]`, `[{"update_id":null}]`} {
		if err := json.Unmarshal([]byte(unnumbered), &all); err == nil {
			t.Errorf("%s was read", unnumbered)
		}
	}
}

// FuzzUpdate reads any update: what comes in can be stored.
func FuzzUpdate(f *testing.F) {
	for _, s := range []string{
		`"message":{"message_id":5,` + private + `,"text":"hello"}`,
		`"message":{"message_id":5,` + group + `,"text":"😀 @corebot_bot","entities":[{"type":"mention","offset":3,
			"length":12}]}`,
		`"edited_message":{"message_id":5,` + group + `,"caption":"x","photo":[{}],"caption_entities":[{"type":
			"text_link","offset":0,"length":1,"url":"y"}]}`,
		`"callback_query":{"id":"7","from":{"id":7},"data":"/x","message":{"message_id":4,"chat":{"id":7}}}`,
		`"message":{"message_id":5,` + private + `,"document":{"file_id":"x","file_name":"../\u202egpj.exe",
			"mime_type":"a\u0000/b","file_size":-1}}`,
		`"message":{"message_id":5,` + private + `,"voice":{},"audio":{"file_name":"` +
			strings.Repeat("ä", 200) + `"}}`,
		`"message":{"message_id":-1,"date":-9223372036854775808,"chat":{"id":0},"sticker":{}}`,
	} {
		f.Add(`{"update_id":1,` + s + `}`)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var u update
		if json.Unmarshal([]byte(s), &u) != nil {
			return
		}
		in, means, err := testBot.read(u)
		if err != nil || !means {
			return
		}
		if len(in.Parts) == 0 || in.ID == "" || in.Chat == "" || in.ID == in.EditOf {
			t.Fatalf("it is read as %+v", in)
		}
		for _, p := range in.Parts {
			if err := p.Validate(); err != nil || !utf8.ValidString(p.Name+p.Text+p.MediaType) {
				t.Fatalf("a part is %+v: %v", p, err)
			}
		}
		if in.Bot && in.Interactive {
			t.Fatalf("it is read as %+v", in)
		}
	})
}
