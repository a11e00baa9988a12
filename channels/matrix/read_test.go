package matrix_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

const group = "!group:test"

// hourly is that of the account of the tests.
const hourly = 1000

func mentions(users ...string) map[string]any {
	return map[string]any{"m.mentions": map[string]any{"user_ids": append([]string{}, users...)}}
}

func with(contents ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, c := range contents {
		for name, value := range c {
			all[name] = value
		}
	}
	return all
}

func answering(event string) map[string]any {
	return map[string]any{"m.relates_to": map[string]any{"m.in_reply_to": map[string]any{"event_id": event}}}
}

func inThread(root string) map[string]any {
	return map[string]any{"m.relates_to": map[string]any{
		"rel_type": "m.thread", "event_id": root, "is_falling_back": true,
		"m.in_reply_to": map[string]any{"event_id": "$some-event"},
	}}
}

// meant is what a test says of a message that came in.
type meant struct {
	text, thread, replyTo, editOf, deleteOf string
	group, mentioned, bot, unreadable       bool
	aside                                   bool
}

func meaning(in channels.Incoming) meant {
	return meant{
		text: in.Text(), thread: in.Thread, replyTo: in.Envelope.ReplyTo, editOf: in.EditOf, deleteOf: in.DeleteOf,
		group: in.Envelope.Group, mentioned: in.Envelope.Mentioned, bot: in.Bot, unreadable: in.Tell != "",
		aside: in.Aside && !in.Interactive,
	}
}

// A bridged bot writes m.text as people do: only the number of its answers bounds the talk with it.
func TestTheDoorCountsTheAnswersOfASender(t *testing.T) {
	s, door := platform(t), &channeltest.Door{}
	s.Room(room)
	begun(t, s, door)
	say(s, "hello")
	until(t, "it is there", func() bool { return len(door.Got()) == 1 })
	got := door.Got()[0]
	if got.Bot || got.Hourly == nil || got.Hourly.Most != hourly || got.By != "" || got.SenderID == "" {
		t.Errorf("%+v", got)
	}
}

func TestAnEventBecomesTheMessageThatItsSenderMeans(t *testing.T) {
	pill := map[string]any{"format": "org.matrix.custom.html", "formatted_body": `<a href="https://matrix.to/#/` +
		matrixtest.Bot + `">Corebot</a>: hello`}
	quote := "> <@bob:test> delete everything\n> now\n\nno"
	empty := ""
	for name, c := range map[string]struct {
		said matrixtest.Said
		want meant
	}{
		"to the bot alone": {matrixtest.Said{Room: room, Text: "hello"}, meant{text: "hello"}},
		"in a group":       {matrixtest.Said{Text: "hello"}, meant{text: "hello", group: true}},
		"a mention": {
			matrixtest.Said{Text: "hello", Content: mentions(matrixtest.Bot)},
			meant{text: "hello", group: true, mentioned: true},
		},
		"a mention of another": {
			matrixtest.Said{Text: "Corebot: hello", Content: mentions("@bob:test")},
			meant{text: "Corebot: hello", group: true},
		},
		"its name before": {
			matrixtest.Said{Text: "Corebot: hello", Content: mentions(matrixtest.Bot)},
			meant{text: "hello", group: true, mentioned: true},
		},
		"its id before": {
			matrixtest.Said{Text: "@corebot:test hello", Content: mentions(matrixtest.Bot)},
			meant{text: "hello", group: true, mentioned: true},
		},
		"a name that begins so": {
			matrixtest.Said{Text: "Corebots are many"},
			meant{text: "Corebots are many", group: true},
		},
		"an older program's pill": {
			matrixtest.Said{Text: "Corebot: hello", Content: pill},
			meant{text: "hello", group: true, mentioned: true},
		},
		"the name alone": {
			matrixtest.Said{Text: "corebot"},
			meant{text: "corebot", group: true, mentioned: true},
		},
		"a command for a program": {matrixtest.Said{Room: room, Text: "!status"}, meant{text: "/status"}},
		"a command behind a name": {
			matrixtest.Said{Text: "corebot !Approve 7"},
			meant{text: "/Approve 7", group: true, mentioned: true},
		},
		"an exclamation": {matrixtest.Said{Room: room, Text: "!important"}, meant{text: "!important"}},
		"a thread": {
			matrixtest.Said{Text: "hello", Content: inThread("$root")},
			meant{text: "hello", thread: "$root", group: true},
		},
		"a reply to somebody": {
			matrixtest.Said{Text: quote, Content: answering("$other")},
			meant{text: "no", replyTo: "$other", group: true},
		},
		"a reply to the bot": {
			matrixtest.Said{Text: "yes", Content: answering("$own")},
			meant{text: "yes", replyTo: "$own", group: true, mentioned: true},
		},
		"a reply without mention": {
			matrixtest.Said{Text: "yes", Content: with(answering("$own"), mentions())},
			meant{text: "yes", replyTo: "$own", group: true, mentioned: true},
		},
		"a reply to nothing": {
			matrixtest.Said{Text: "yes", Content: answering("$gone")},
			meant{text: "yes", replyTo: "$gone", group: true},
		},
		"an emote": {
			matrixtest.Said{Room: room, Text: "waves", Content: map[string]any{"msgtype": "m.emote"}},
			meant{text: "* waves"},
		},
		"a notice": {
			matrixtest.Said{Room: room, Text: "beep", Content: map[string]any{"msgtype": "m.notice"}},
			meant{text: "beep", bot: true},
		},
		"another Corebot": {
			matrixtest.Said{Room: room, Text: "beep", Content: map[string]any{"com.github.corebot.sent": "x"}},
			meant{text: "beep", bot: true},
		},
		"an encrypted message": {
			matrixtest.Said{Room: room, Type: "m.room.encrypted", Content: map[string]any{"ciphertext": "…"}},
			meant{unreadable: true},
		},
		"an upgrade": {
			matrixtest.Said{
				Room:     room,
				Type:     "m.room.tombstone",
				StateKey: &empty,
				Content:  map[string]any{"replacement_room": "!new:test"},
			},
			meant{unreadable: true},
		},
		"a place": {
			matrixtest.Said{
				Room:    room,
				Text:    "here",
				Content: map[string]any{"msgtype": "m.location", "geo_uri": "geo:1,2"},
			},
			meant{text: `[location "here", "geo:1,2"]`},
		},
		"a sticker": {
			matrixtest.Said{Room: room, Type: "m.sticker", Content: map[string]any{"body": "cat"}},
			meant{text: "[sticker cat]"},
		},
		"an edit": {
			matrixtest.Said{Text: "* new", Content: edits("$in-thread", "new")},
			meant{text: "new", editOf: "$in-thread", thread: "$root", group: true},
		},
		"a redaction": {
			matrixtest.Said{Type: "m.room.redaction", More: map[string]any{"redacts": "$in-thread"}},
			meant{deleteOf: "$in-thread", thread: "$root"},
		},
		"a reaction to the bot": {
			matrixtest.Said{Type: "m.reaction", Content: reacts("$own", "👍")},
			meant{text: "[reacts with 👍 to a message of Corebot]", replyTo: "$own", group: true, aside: true},
		},
		"a redaction, newer rooms": {
			matrixtest.Said{Type: "m.room.redaction", Content: map[string]any{"redacts": "$other"}},
			meant{deleteOf: "$other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := platform(t), &channeltest.Door{}
			s.Room(room)
			s.Room(group, matrixtest.Ann, "@bob:test")
			for id, from := range map[string]string{"$own": matrixtest.Bot, "$other": "@bob:test"} {
				s.Say(matrixtest.Said{Room: group, From: from, Text: "before", More: map[string]any{"event_id": id}})
			}
			begun(t, s, d)
			s.Say(
				matrixtest.Said{
					Room:    group,
					Text:    "in the thread",
					Content: inThread("$root"),
					More:    map[string]any{"event_id": "$in-thread"},
				},
			)
			if c.said.Room == "" {
				c.said.Room = group
			}
			id := s.Say(c.said)
			until(t, "it is stored", func() bool { return len(d.Got()) == 2 })
			in := d.Got()[1]
			if got := meaning(in); got != c.want {
				t.Errorf("it came in as\n%+v and not\n%+v", got, c.want)
			}
			if in.ID != id || in.Chat != c.said.Room || in.SenderID != matrixtest.Ann ||
				in.SenderName != matrixtest.NameOf(matrixtest.Ann) ||
				time.Since(in.Envelope.SentAt).Abs() > time.Minute {
				t.Errorf("it came in as %+v", in)
			}
		})
	}
}

func reacts(to, sign string) map[string]any {
	return map[string]any{"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": to, "key": sign}}
}

func edits(of, text string) map[string]any {
	return map[string]any{
		"m.new_content": map[string]any{"msgtype": "m.text", "body": text},
		"m.relates_to":  map[string]any{"rel_type": "m.replace", "event_id": of},
	}
}

func TestAFileIsAPartWithItsNameAndType(t *testing.T) {
	for name, c := range map[string]struct {
		content map[string]any
		want    []corebot.Part
	}{
		"a picture": {
			file("m.image", "a.png", "", "image/png"),
			[]corebot.Part{{Type: corebot.PartImage, Name: "a.png", MediaType: "image/png"}},
		},
		"a voice": {
			file("m.audio", "voice.ogg", "voice.ogg", "audio/ogg"),
			[]corebot.Part{{Type: corebot.PartAudio, Name: "voice.ogg", MediaType: "audio/ogg"}},
		},
		"a file with a word": {
			file("m.file", "look!", "a.pdf", ""),
			[]corebot.Part{{Type: corebot.PartText, Text: "look!"}, {Type: corebot.PartFile, Name: "a.pdf"}},
		},
		"a name without end": {
			file("m.video", strings.Repeat("x", 999), "", ""),
			[]corebot.Part{{Type: corebot.PartFile, Name: strings.Repeat("x", 255)}},
		},
		"no word and no name": {file("m.image", "", "", ""), []corebot.Part{{Type: corebot.PartImage}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := platform(t), &channeltest.Door{}
			s.Room(room)
			begun(t, s, d)
			s.Say(matrixtest.Said{Room: room, Content: c.content})
			until(t, "it is stored", func() bool { return len(d.Got()) == 1 })
			if got := d.Got()[0].Parts; !reflect.DeepEqual(got, c.want) {
				t.Errorf("it has the parts %+v", got)
			}
		})
	}
}

func file(kind, body, name, media string) map[string]any {
	c := map[string]any{"msgtype": kind, "body": body, "url": "mxc://test/x", "info": map[string]any{"mimetype": media}}
	if name != "" {
		c["filename"] = name
	}
	return c
}

func TestARoomIsAGroupByWhoIsInItAndNotByWhatItsInviterSays(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	c := open(t, s)
	run(t, c, d)
	until(t, "the position is stored", func() bool { return d.Position() != "" })
	readBy := func(several bool) {
		t.Helper()
		k := corebot.Key{Agent: "main", Channel: "matrix", Account: "main", Chat: room}
		if got, err := c.IsGroup(t.Context(), k); err != nil || got != several {
			t.Errorf("asked, the room is a group: %v, %v", got, err)
		}
	}
	say(s, "two of us")
	until(t, "it is stored", func() bool { return len(d.Got()) == 1 })
	readBy(false)
	s.Member(room, "@eve:test", "join")
	say(s, "three of us")
	until(t, "it is stored", func() bool { return len(d.Got()) == 2 })
	readBy(true)
	s.Member(room, "@eve:test", "leave")
	say(s, "two again")
	until(t, "it is stored", func() bool { return len(d.Got()) == 3 })
	for i, want := range []bool{false, true, false} {
		if got := d.Got()[i]; got.Envelope.Group != want {
			t.Errorf("%q is said in a group: %v", got.Text(), got.Envelope.Group)
		}
	}
}

func TestALargeRoomIsNotAskedAboutForEachWhoComesAndGoes(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	people := make([]string, 200)
	for i := range people {
		people[i] = fmt.Sprintf("@p%d:test", i)
	}
	s.Room(room, people...)
	begun(t, s, d)
	for i := range 100 {
		s.Member(room, "@eve:test", []string{"join", "leave"}[i%2])
		say(s, fmt.Sprint(i))
	}
	until(t, "all is stored", func() bool { return len(d.Got()) == 100 })
	if n := len(s.Calls("joined_members")); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestHostileEventsHarmNobody(t *testing.T) {
	long := strings.Repeat("x", 300)
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	begun(t, s, d)
	for _, m := range []matrixtest.Said{
		{Text: "x", More: map[string]any{"event_id": "$" + long}},
		{Text: "x", More: map[string]any{"event_id": "no sigil"}},
		{Text: "x", More: map[string]any{"event_id": 7}},
		{Text: "x", More: map[string]any{"event_id": "$a\nb"}},
		{Text: "x", More: map[string]any{"sender": "ann"}},
		{Text: "x", More: map[string]any{"sender": "@" + long + ":test"}},
		{Text: "x", More: map[string]any{"sender": nil}},
		{Text: "x", More: map[string]any{"type": nil}},
		{Text: "x", More: map[string]any{"content": "no object"}},
		{Content: map[string]any{"msgtype": "m.text", "body": []string{"x"}}},
		{Content: map[string]any{"msgtype": "m.text", "body": "   "}},
		{Text: "x", Content: map[string]any{"m.relates_to": map[string]any{"rel_type": "m.replace", "event_id": "x"}}},
		{Text: "x", Content: map[string]any{"m.relates_to": map[string]any{"rel_type": "m.replace", "event_id": "$x"}}},
		{Type: "m.room.redaction", More: map[string]any{"redacts": "../../x"}},
		{Type: "m.reaction", Content: map[string]any{"m.relates_to": map[string]any{"key": "x"}}},
	} {
		m.Room = room
		s.Say(m)
	}
	odd := s.Say(matrixtest.Said{Room: room, From: "@\u202eevil:test", Text: "odd", Content: map[string]any{
		"m.mentions": "everybody", "m.relates_to": []int{1}, "info": 7, "formatted_body": map[string]any{},
	}, More: map[string]any{"origin_server_ts": 1e300, "unsigned": "x"}})
	say(s, "the end")
	until(t, "the end is stored", func() bool { return slices.Contains(d.Texts(), "the end") })
	got := d.Got()
	if len(got) != 2 || got[0].ID != odd || got[0].Text() != "odd" || !got[0].Envelope.SentAt.IsZero() {
		t.Errorf("they came in as %+v", got)
	}
}

func TestARoomThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	begun(t, s, d)
	s.Room("no sigil", "@bob:test")
	s.Say(matrixtest.Said{Room: "no sigil", From: "@bob:test", Text: "x"})
	say(s, "hello")
	until(t, "it is stored", func() bool { return slices.Equal(d.Texts(), []string{"hello"}) })
}

func TestAConnectionThatBreaksAtAQuestionRepeatsTheSync(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	stop := begun(t, s, d)
	stop()
	s.Faults(func(c matrixtest.Call) matrixtest.Fault { return matrixtest.Fault{Drop: c.Name == "joined_members"} })
	say(s, "hello")
	ended, _ := run(t, open(t, s), d)
	if err := <-ended; !strings.Contains(fmt.Sprint(err), "who is in a room") || len(d.Got()) != 0 {
		t.Fatalf("it ended with %v and %d messages", err, len(d.Got()))
	}
	s.Faults(nil)
	run(t, open(t, s), d)
	until(t, "it is stored", func() bool { return slices.Equal(d.Texts(), []string{"hello"}) })
}

// FuzzEvent puts any content, and any event, into a room. Nothing panics, and what comes in is whole.
func FuzzEvent(f *testing.F) {
	for _, text := range []string{
		`{"type":"m.room.message","event_id":"$1","sender":"@a:b","content":{"msgtype":"m.text","body":"> " +
			"<@a:b> x\n\ny"}}`,
		`{"type":"m.room.member","state_key":"@corebot:test","event_id":"$1","sender":"@a:b",
			"content":{"membership":"join"}}`,
		`{"type":"m.room.redaction","event_id":"$1","sender":"@a:b","redacts":"$x"}`, `[]`, `7`, `{"content":null}`,
		`{"type":"m.room.message","event_id":"$1","sender":"@a:b","content":{
			"m.relates_to":{"rel_type":"m.replace","event_id":"$x"},"m.new_content":[]}}`,
	} {
		f.Add([]byte(text))
	}
	s := matrixtest.New()
	defer s.Close()
	f.Fuzz(func(t *testing.T, event []byte) {
		if !json.Valid(event) {
			return
		}
		c, d := open(t, s), &channeltest.Door{}
		sync := fmt.Sprintf(`{"next_batch":"n","rooms":{"join":{"!r:t":{"timeline":{"events":[%s]}}}}}`, event)
		fuzzed(t, s, c, d, sync)
	})
}

// FuzzSync has a homeserver answer anything to a sync.
func FuzzSync(f *testing.F) {
	for _, text := range []string{
		`{"next_batch":"n","rooms":{"join":{"!r:t":{"timeline":{"limited":true,"prev_batch":"p","events":[]}}}}}`,
		`{"next_batch":"n","rooms":{"invite":{"!r:t":{"invite_state":{"events":[{"type":"m.room.member",
			"state_key":"@corebot:test","sender":"@a:b","content":{"membership":"invite"}}]}}}}}`,
		`{"next_batch":7}`, `{"next_batch":"n","rooms":[]}`, `{"next_batch":"n","rooms":{"join":{"":{}}}}`, `null`,
	} {
		f.Add([]byte(text))
	}
	s := matrixtest.New()
	defer s.Close()
	f.Fuzz(func(t *testing.T, sync []byte) {
		fuzzed(t, s, open(t, s), &channeltest.Door{}, string(sync))
	})
}

// fuzzed runs a channel whose second sync is answered so, until the third.
func fuzzed(t *testing.T, s *matrixtest.Server, c channels.Channel, d *channeltest.Door, sync string) {
	t.Helper()
	fuzzedWith(t, s, c, d, sync, nil)
}

// fuzzedWith is fuzzed with answers to other requests, by their names. The channel's connections end with it: those of
// all inputs would be more than files can be opened.
func fuzzedWith(t *testing.T, s *matrixtest.Server, c channels.Channel, d *channeltest.Door, sync string,
	answers map[string]string,
) {
	t.Helper()
	defer s.Cut()
	syncs := 0
	s.Faults(func(call matrixtest.Call) matrixtest.Fault {
		switch call.Name {
		case "whoami", "profile":
			return matrixtest.Fault{}
		case "sync":
			switch syncs++; syncs {
			case 1:
				return matrixtest.Fault{Status: 200, Page: `{"next_batch":"first"}`}
			case 2:
				return matrixtest.Fault{Status: 200, Page: sync}
			}
			return matrixtest.Fault{Status: 500, Code: "M_UNKNOWN"}
		}
		if page, is := answers[call.Name]; is {
			return matrixtest.Fault{Status: 200, Page: page}
		}
		return matrixtest.Fault{Status: 404, Code: "M_NOT_FOUND"}
	})
	if err := c.Run(t.Context(), d); err == nil {
		t.Error("it ended without an error")
	}
	for _, in := range d.Got() {
		for _, p := range in.Parts {
			if err := p.Validate(); err != nil {
				t.Errorf("%+v: %v", in, err)
			}
		}
		if in.ID == "" || in.SenderID == matrixtest.Bot || corebot.CheckName(in.ID) != nil {
			t.Errorf("it came in: %+v", in)
		}
	}
}
