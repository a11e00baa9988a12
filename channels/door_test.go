package channels_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// newDoor is the door of a kit whose lanes hold two messages of a thousand bytes.
func newDoor(t *testing.T, rule policy.AccessRule, allowlist ...string) (*apptest.Kit, *channels.FrontDoor) {
	t.Helper()
	k := apptest.New(t, apptest.Options{Bus: bus.Options{MaxBytes: 1000, Limits: corebot.Limits{LaneDepth: 2}}})
	list, err := corebot.ParseAllowlist(apptest.Channel, allowlist)
	if err != nil {
		t.Fatal(err)
	}
	access, err := policy.NewAccess(rule, list)
	if err != nil {
		t.Fatal(err)
	}
	return k, doorOf(t, k, channels.AccountRules{Access: access}, channels.DoorOptions{
		Trail: storage.NewAudit(k.DB), Metrics: k.Registry,
	})
}

// doorOf is a door with rules for the account of the tests.
func doorOf(t *testing.T, k *apptest.Kit, rules channels.AccountRules, o channels.DoorOptions) *channels.FrontDoor {
	t.Helper()
	door, err := channels.NewFrontDoor(k.Bus, k.Router, channels.Admissions{
		Chats: storage.NewChats(k.DB), Pairings: storage.NewPairings(k.DB),
		Accounts: map[channels.Account]channels.AccountRules{{Kind: apptest.Channel, Name: "acc"}: rules},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	return door
}

func incoming(id, text string) channels.Incoming {
	return channels.Incoming{
		ID: id, Channel: apptest.Channel, Account: "acc", Chat: "a", Thread: "t",
		SenderID: "alice", SenderName: "Alice", Parts: corebot.TextPart(text),
	}
}

// stored is how many messages with an id are in the database.
func stored(t *testing.T, k *apptest.Kit, id string) int {
	t.Helper()
	lives, err := k.Lives.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return len(lives)
}

func TestOnlyAMessageOfAKindWithPeopleIsInteractive(t *testing.T) {
	for _, people := range []bool{true, false} {
		k := apptest.New(t, apptest.Options{})
		access, err := policy.NewAccess(policy.AccessOpen, corebot.Allowlist{})
		if err != nil {
			t.Fatal(err)
		}
		door := doorOf(t, k, channels.AccountRules{Access: access, People: people}, channels.DoorOptions{})
		said := incoming("m", "/approve 7")
		said.Interactive = true
		if _, err := door.Accept(t.Context(), said); err != nil {
			t.Fatal(err)
		}
		refused := strings.Contains(k.Told("m")[0].Text(), "Only a person can approve a call.")
		if refused == people {
			t.Errorf("people: %v; the chat is told %q", people, k.Told("m")[0].Text())
		}
	}
}

func TestCommandsAreToldFromPrompts(t *testing.T) {
	k, door := newDoor(t, policy.AccessOpen)
	for i, c := range []struct {
		text      string
		direction corebot.Direction
		kind      corebot.Kind
	}{
		{"hello", corebot.Inbound, corebot.KindPrompt},
		{`/tool fs.list {"path":"."}`, corebot.Inbound, corebot.KindPrompt},
		{"/stopping now", corebot.Control, corebot.KindControl},
		{"/tmp/x is full", corebot.Inbound, corebot.KindPrompt},
		{"//stop", corebot.Inbound, corebot.KindPrompt},
		{"/new day", corebot.Inbound, corebot.KindOpening},
		{"please /stop", corebot.Inbound, corebot.KindPrompt},
		{"/new", corebot.Inbound, corebot.KindCommand},
		{"  /RESET  ", corebot.Inbound, corebot.KindCommand},
		{"/help me", corebot.Inbound, corebot.KindCommand},
		{"/stop", corebot.Control, corebot.KindControl},
		{"/Stop it", corebot.Control, corebot.KindControl},
	} {
		in := incoming(fmt.Sprint("m", i), c.text)
		in.Chat = fmt.Sprint("chat", i)
		if _, err := door.Accept(t.Context(), in); err != nil {
			t.Fatalf("%q: %v", c.text, err)
		}
		life := k.Life(in.ID)
		if life.Direction != c.direction || life.Kind != c.kind {
			t.Errorf("%q is %s %s, want %s %s", c.text, life.Direction, life.Kind, c.direction, c.kind)
		}
	}
}

func TestAMessageIsStoredUnderItsKeyAndPrincipal(t *testing.T) {
	k, door := newDoor(t, policy.AccessOpen)
	in := incoming("1", "hello")
	in.Metadata = corebot.Texts(map[string]string{"lang": "en"})
	if _, err := door.Accept(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	m := k.Claim().Message
	want := corebot.Key{Agent: "main", Channel: apptest.Channel, Account: "acc", Chat: "a", Thread: "t"}
	sender := corebot.Principal{Channel: apptest.Channel, Account: "acc", ID: "alice"}
	if m.Key != want || m.Sender != sender || m.SenderName != "Alice" || m.Text() != "hello" ||
		string(m.Metadata["lang"]) != `"en"` {
		t.Errorf("stored as %+v", m)
	}
}

func TestARefusalStoresNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*channels.Incoming)
		want   error
	}{
		"no id":   {func(in *channels.Incoming) { in.ID = "" }, corebot.ErrInvalid},
		"no chat": {func(in *channels.Incoming) { in.Chat = "" }, corebot.ErrInvalid},
		"no text": {
			func(in *channels.Incoming) { in.Parts = corebot.TextPart(" \n ") },
			corebot.ErrInvalid,
		},
		"text that is not UTF-8": {
			func(in *channels.Incoming) { in.Parts = corebot.TextPart("a\xff") },
			corebot.ErrInvalid,
		},
		"control character in id": {func(in *channels.Incoming) { in.ID = "1\n2" }, corebot.ErrInvalid},
		"id that is too long": {
			func(in *channels.Incoming) { in.ID = strings.Repeat("x", corebot.MaxKeyField+1) },
			corebot.ErrInvalid,
		},
		"an id of Corebot's own": {
			func(in *channels.Incoming) { in.ID = corebot.OwnIDs + "sent/5/1/1" },
			corebot.ErrInvalid,
		},
		"too large": {func(in *channels.Incoming) {
			in.Parts = corebot.TextPart(strings.Repeat("x",
				1001))
		}, corebot.ErrTooLarge},
		"metadata too large": {func(in *channels.Incoming) {
			in.Metadata = corebot.Texts(map[string]string{"k": strings.Repeat("x", 1000)})
		}, corebot.ErrTooLarge},
		"an edit and a deletion": {
			func(in *channels.Incoming) { in.EditOf, in.DeleteOf = "0", "0" },
			corebot.ErrInvalid,
		},
		"an edit of a bad id":    {func(in *channels.Incoming) { in.EditOf = "1\n2" }, corebot.ErrInvalid},
		"a deletion of a bad id": {func(in *channels.Incoming) { in.DeleteOf = "1\x00" }, corebot.ErrInvalid},
		"an edit of Corebot's own": {
			func(in *channels.Incoming) { in.EditOf = corebot.OwnID("task", 1) },
			corebot.ErrInvalid,
		},
		"an edit without words": {
			func(in *channels.Incoming) { in.EditOf, in.Parts = "0", nil }, corebot.ErrInvalid,
		},
		"a part of no type": {func(in *channels.Incoming) {
			in.Parts = []corebot.Part{{
				Type: "smell",
				Hash: "00",
			}}
		}, corebot.ErrInvalid},
		"an image with a text": {
			func(in *channels.Incoming) { in.Parts[0].Type = corebot.PartImage },
			corebot.ErrInvalid,
		},
		"a text with a hash":    {func(in *channels.Incoming) { in.Parts[0].Hash = "00" }, corebot.ErrInvalid},
		"an answer to a bad id": {func(in *channels.Incoming) { in.Envelope.ReplyTo = "1\n2" }, corebot.ErrInvalid},
		"a year before the clock": {
			func(in *channels.Incoming) { in.Envelope.SentAt = time.Unix(-1, 0).UTC() },
			corebot.ErrInvalid,
		},
		"a /stop without an id": {
			func(in *channels.Incoming) { in.ID, in.Parts = "", corebot.TextPart("/stop") },
			corebot.ErrInvalid,
		},
		"a /stop of a bad sender": {func(in *channels.Incoming) {
			in.SenderID, in.Parts = "\x00",
				corebot.TextPart("/stop")
		}, corebot.ErrInvalid},
		"a /stop that is too long": {func(in *channels.Incoming) {
			in.ID, in.Parts = strings.Repeat("x", 600),
				corebot.TextPart("/stop")
		}, corebot.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			k, door := newDoor(t, policy.AccessOpen)
			in := incoming("1", "hello")
			c.change(&in)
			if _, err := door.Accept(t.Context(), in); !errors.Is(err, c.want) {
				t.Errorf("the error is %v, want %v", err, c.want)
			}
			if n := stored(t, k, in.ID); n != 0 {
				t.Errorf("%d messages are stored", n)
			}
		})
	}
}

func TestTheSameMessageIsADuplicateAndAnotherBodyAConflict(t *testing.T) {
	_, door := newDoor(t, policy.AccessOpen)
	if a, err := door.Accept(t.Context(), incoming("1", "hello")); err != nil || a.Duplicate || a.ID != "1" {
		t.Errorf("the first: %+v, %v", a, err)
	}
	if a, err := door.Accept(t.Context(), incoming("1", "hello")); err != nil || !a.Duplicate {
		t.Errorf("the second: %+v, %v", a, err)
	}
	renamed := incoming("1", "hello")
	renamed.SenderName = "Alice B."
	if a, err := door.Accept(t.Context(), renamed); err != nil || !a.Duplicate {
		t.Errorf("under a new display name: %+v, %v", a, err)
	}
	if _, err := door.Accept(t.Context(), incoming("1", "other")); !errors.Is(err, corebot.ErrConflict) {
		t.Errorf("another body: %v", err)
	}
	if _, err := door.Accept(t.Context(), incoming("2", "two")); err != nil {
		t.Fatal(err)
	}
	if _, err := door.Accept(t.Context(), incoming("3", "three")); !errors.Is(err, corebot.ErrLaneFull) {
		t.Errorf("over the cap of the lane: %v", err)
	}
	if a, err := door.Accept(t.Context(), incoming("2", "two")); err != nil || !a.Duplicate {
		t.Errorf("a duplicate in a full lane: %+v, %v", a, err)
	}
	if _, err := door.Accept(t.Context(), incoming("s", "/stop")); err != nil {
		t.Errorf("a /stop in a full lane: %v", err)
	}
}

// photo is an image that somebody sent.
var photo = corebot.Part{Type: corebot.PartImage, Hash: "c0ffee", Name: "cat.png", MediaType: "image/png"}

func TestAllPartsOfAMessageAreStoredWithWhatThePlatformSaysOfIt(t *testing.T) {
	k, door := newDoor(t, policy.AccessOpen)
	sent := time.Date(2026, 2, 3, 4, 5, 6, 7_891_000, time.FixedZone("", 3600))
	for id, c := range map[string]struct {
		parts, want []corebot.Part
		kind        corebot.Kind
	}{
		"an image alone": {[]corebot.Part{photo}, []corebot.Part{photo}, corebot.KindPrompt},
		"an image and a text": {
			append([]corebot.Part{photo}, corebot.TextPart("look")...),
			append([]corebot.Part{photo}, corebot.TextPart("look")...), corebot.KindPrompt,
		},
		"a session's first": {
			append(corebot.TextPart("/new look"), photo), append(corebot.TextPart("look"), photo),
			corebot.KindOpening,
		},
		"an escaped command": {
			append([]corebot.Part{photo}, corebot.TextPart("//stop")...),
			append([]corebot.Part{photo}, corebot.TextPart("/stop")...), corebot.KindPrompt,
		},
	} {
		in := incoming(id, "")
		in.Chat, in.Parts = id, c.parts
		in.Envelope = corebot.Envelope{ReplyTo: "m0", Group: true, Mentioned: true, SentAt: sent}
		for _, duplicate := range []bool{false, true} {
			if a, err := door.Accept(t.Context(), in); err != nil || a.Duplicate != duplicate {
				t.Fatalf("%s: %+v, %v", id, a, err)
			}
		}
		m := k.Claim().Message
		want := corebot.Envelope{
			ReplyTo: "m0", Group: true, Mentioned: true,
			SentAt: time.UnixMilli(sent.UnixMilli()).UTC(),
		}
		if !slices.Equal(m.Parts, c.want) || m.Kind != c.kind || m.Envelope != want {
			t.Errorf("%s is stored as %s %+v with %+v", id, m.Kind, m.Parts, m.Envelope)
		}
	}
}

func TestALineOfATerminalOfAnotherVersionIsRead(t *testing.T) {
	var in channels.Incoming
	if err := json.Unmarshal([]byte(`{"ID":"1","Chat":"a","Text":"hello","Interactive":true}`), &in); err != nil {
		t.Fatal(err)
	}
	if in.ID != "1" || in.Text() != "hello" || !in.Interactive {
		t.Errorf("read as %+v", in)
	}
	in.Parts = append(in.Parts, photo)
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var again channels.Incoming
	if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(again, in) {
		t.Errorf("%s is read as %+v, %v", raw, again, err)
	}
	if json.Unmarshal([]byte(`{"ID":"1","Chta":"a"}`), &again) == nil {
		t.Error("a field that there is not was taken")
	}
}

func TestATimeOfDeliveryIsCheckedAndKeptToTheMillisecond(t *testing.T) {
	k, door := newDoor(t, policy.AccessOpen)
	at := func(id, text string, due time.Time) channels.Incoming {
		in := incoming(id, text)
		in.Envelope.DeliverAt = due
		return in
	}
	due := time.Now().Add(time.Hour)
	edit, gone := at("edit", "other", due), at("gone", "", due)
	edit.EditOf, gone.DeleteOf = "1", "1"
	for name, in := range map[string]channels.Incoming{
		"command": at("command", "/stop", due), "edit": edit, "deletion": gone,
		"far":     at("far", "hello", time.Now().Add(corebot.MaxDeliverAhead+time.Minute)),
		"ancient": at("ancient", "hello", time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)),
	} {
		if _, err := door.Accept(t.Context(), in); !errors.Is(err, corebot.ErrInvalid) || stored(t, k, in.ID) > 0 {
			t.Errorf("%s: %v, and %d are stored", name, err, stored(t, k, in.ID))
		}
	}
	for id, text := range map[string]string{"prompt": "hello", "opening": "/new hello"} {
		if _, err := door.Accept(t.Context(), at(id, text, due)); err != nil {
			t.Fatal(err)
		}
		l := k.Life(id)
		if l.State != "deferred: deliverAt" || !l.DeliverAt.Equal(due.Truncate(time.Millisecond)) {
			t.Errorf("the life of %s says %q at %v", id, l.State, l.DeliverAt)
		}
	}
}

func TestAChatIsToldOnceWhatCorebotCannotFollow(t *testing.T) {
	k, front := newDoor(t, policy.AccessAllowlist, apptest.Channel+":acc:alice")
	door := front.At(account)
	cursor := corebot.Cursor{}
	for i, sender := range []string{"alice", "mallory", "alice"} {
		in := inLane(fmt.Sprint(i), "a", "")
		in.SenderID, in.Parts, in.Tell = sender, nil, "I cannot read this."
		if sender == "mallory" {
			in.Chat = "b"
		}
		other := inLane(fmt.Sprint("m", i), fmt.Sprint("c", i), "x")
		b, err := door.AcceptBatch(t.Context(), []channels.Incoming{in, other}, cursor.To(fmt.Sprint(i)))
		if err != nil || (b.Messages[0].Err == nil) != (sender == "alice") {
			t.Fatalf("%s: %+v, %v", sender, b.Messages, err)
		}
		cursor = b.Cursor
	}
	if _, err := door.Accept(t.Context(), channels.Incoming{
		ID: "9", Chat: "a", SenderID: "alice", Tell: "I cannot read this.",
	}); err != nil {
		t.Fatal(err)
	}
	told, err := k.Bus.Claim(t.Context(), corebot.OutboundPool(apptest.Channel), 10)
	if err != nil || len(told) != 1 || told[0].Message.Text() != "I cannot read this." ||
		told[0].Message.Key.Chat != "a" || told[0].Message.Notice.Kind != corebot.NoticeChannel {
		t.Errorf("the chats are told %+v, %v", told, err)
	}
	if lives, err := k.Lives.Find(t.Context(), "0"); err != nil || len(lives) != 0 {
		t.Errorf("the event is stored as %+v, %v", lives, err)
	}
}

func TestADoorSaysWhoMayTalkWithoutAMessage(t *testing.T) {
	for sender, c := range map[string]struct {
		rule policy.AccessRule
		want error
	}{
		"alice":   {policy.AccessAllowlist, nil},
		"mallory": {policy.AccessAllowlist, channels.ErrNotAdmitted},
		"eve":     {policy.AccessPairing, channels.ErrNotPaired},
	} {
		t.Run(sender, func(t *testing.T) {
			k, front := newDoor(t, c.rule, apptest.Channel+":acc:alice")
			err := front.At(account).Admit(t.Context(), channels.Incoming{ID: "i", Chat: "a", SenderID: sender})
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("it says %v", err)
			}
			if lives, err := k.Lives.Find(t.Context(), "i"); err != nil || len(lives) != 0 {
				t.Errorf("it is stored as %+v, %v", lives, err)
			}
		})
	}
}

func TestManyMessagesMoveTheCursorWithTheLastOfThem(t *testing.T) {
	_, front := newDoor(t, policy.AccessOpen)
	door := front.At(account)
	var all []channels.Incoming
	for i := range 2*corebot.MaxBatch + 10 {
		all = append(all, inLane(fmt.Sprint(i), fmt.Sprint("chat", i), "x"))
	}
	taken, err := channels.AcceptAll(t.Context(), door, all, corebot.Cursor{}, "end")
	if err != nil || len(taken.Messages) != len(all) || taken.Cursor.Position != "end" || taken.Cursor.Moves != 3 {
		t.Errorf("%d results, %+v, %v", len(taken.Messages), taken.Cursor, err)
	}
	if now, err := door.Cursor(t.Context()); err != nil || now != taken.Cursor {
		t.Errorf("the cursor is %+v, %v", now, err)
	}
}
