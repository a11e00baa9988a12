package channels_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// edited is an edit of a message of the group, with or without a mention.
func edited(id, of, text string) channels.Incoming {
	in := inGroup(id, text, false)
	in.EditOf = of
	return in
}

func deletion(of string) channels.Incoming {
	in := inGroup("deletes "+of, "", false)
	in.DeleteOf, in.Parts = of, nil
	return in
}

func TestAnEditIsTextWhateverItSaysAndNeedsNoMention(t *testing.T) {
	k, door := newGroupDoor(t, channels.GroupsMention)
	accept(t, k, door, "", inGroup("1", "@bot hello", true), inGroup("2", "@bot and this", true))
	accept(t, k, door, "", edited("1b", "1", "/stop"), edited("2b", "2", "/new let us begin"))
	accept(t, k, door, corebot.EndHeard, edited("3", "0", "/help"), inGroup("4", "hm", false), edited("4b", "4", "hmm"))
	for _, want := range []struct {
		id, text string
		kind     corebot.Kind
	}{{"1b", "/stop", corebot.KindPrompt}, {"2b", "let us begin", corebot.KindOpening}} {
		d := k.Claim()
		of, _ := d.Message.Metadata.Text(corebot.MetaEditOf)
		if m := d.Message; m.ID != want.id || m.Text() != want.text || m.Kind != want.kind || of != want.id[:1] {
			t.Errorf("the turn is of %s %q, %s, an edit of %q", m.ID, m.Text(), m.Kind, of)
		}
		done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
		if err := k.Bus.Settle(t.Context(), d, done); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(remembered(t, k), " "); got != "3 4 4b" {
		t.Errorf("the context is %s", got)
	}
}

func TestAnEditInABatchTakesThePlaceOfAMessageBeforeIt(t *testing.T) {
	k, door := newGroupDoor(t, channels.GroupsMention)
	batch := []channels.Incoming{
		inGroup("1", "@bot helo", true), edited("1b", "1", "@bot hello"), inGroup("2", "@bot gone", true),
		deletion("2"),
		deletion("0"),
	}
	for range 2 {
		b, err := door.AcceptBatch(t.Context(), batch, corebot.Cursor{}.To("2"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range b.Messages {
			if m.Err != nil {
				t.Errorf("%s: %v", m.ID, m.Err)
			}
		}
	}
	k.WantEnd("1", corebot.EndReplaced)
	k.WantEnd("2", corebot.EndDeleted)
	if n := stored(t, k, "deletes 0"); n != 0 {
		t.Errorf("a deletion that cancelled nothing is stored %d times", n)
	}
	if d := k.Claim(); d.Message.ID != "1b" {
		t.Errorf("the turn is of %s", d.Message.ID)
	}
}

func TestALateEditAndTheEditOfAProgramAreContext(t *testing.T) {
	k, door := newGroupDoor(t, channels.GroupsMention)
	accept(t, k, door, "", inGroup("1", "@bot hello", true))
	late, program := edited("late", "1", "bye"), edited("program", "1", "bye")
	late.Envelope.SentAt, program.Bot = time.Now().Add(-48*time.Hour), true
	accept(t, k, door, corebot.EndHeard, late, program)
	if d := k.Claim(); d.Message.ID != "1" || stored(t, k, "late/late") != 0 {
		t.Errorf("the turn is of %s; the chat was told of a late edit: %d", d.Message.ID, stored(t, k, "late/late"))
	}
}

func TestOnlyTheSenderOrAnAdminDeletes(t *testing.T) {
	k, door := newGroupDoor(t, channels.GroupsMention)
	accept(t, k, door, "", inGroup("1", "@bot hello", true), inGroup("2", "@bot hello", true))
	deletes := func(sender, of string) {
		t.Helper()
		in := deletion(of)
		in.SenderID = sender
		if _, err := door.Accept(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	for _, sender := range []string{"mallory", ""} {
		deletes(sender, "1")
	}
	k.WantEnd("1", "")
	deletes(inGroup("", "", false).SenderID, "1")
	k.WantEnd("1", corebot.EndDeleted)
	boss := corebot.Principal{Channel: account.Kind, Account: account.Name, ID: "boss"}
	if err := k.Grants.Grant(t.Context(), corebot.Grant{Principal: boss, Role: corebot.RoleAdmin}); err != nil {
		t.Fatal(err)
	}
	deletes("boss", "2")
	k.WantEnd("2", corebot.EndDeleted)
}

func TestAChatThatIsClearedMeetsNoRate(t *testing.T) {
	k, door := newGroupDoor(t, channels.GroupsMention)
	for range 200 {
		if _, err := door.Accept(t.Context(), deletion("long ago")); err != nil {
			t.Fatal(err)
		}
	}
	if n := stored(t, k, "deletes long ago"); n != 0 {
		t.Errorf("%d are stored", n)
	}
}

func TestAStrangersEditGetsNoCode(t *testing.T) {
	k, door := pairingDoor(t)
	edit, gone := incoming("1b", "hello"), incoming("1c", "")
	edit.EditOf, gone.DeleteOf = "1", "1"
	for _, in := range []channels.Incoming{edit, gone} {
		if _, err := door.Accept(t.Context(), in); !errors.Is(err, channels.ErrNotAdmitted) {
			t.Errorf("%s: %v", in.ID, err)
		}
	}
	if got := codes(t, k); len(got) != 0 {
		t.Errorf("told are %v", got)
	}
}

func TestAnEditOfWhatIsAnsweredIsReadByTheNextTurnAndWhyTellsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.Text("Monday it is."), apptest.Text("Tuesday, as you said."))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		say := func(in channels.Incoming) {
			t.Helper()
			in.Channel, in.Account, in.Thread = apptest.Channel, "", ""
			if _, err := k.Door.Accept(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		say(incoming("1", "we meet on Monday"))
		edit := incoming("1b", "we meet on Tuesday")
		edit.EditOf = "1"
		say(edit)
		k.WantEnd("1b", corebot.EndHeard)
		say(incoming("2", "when do we meet?"))
		var shown strings.Builder
		for _, m := range model.Last().Messages {
			shown.WriteString(m.About + " " + m.Text + "\n")
		}
		if got := shown.String(); !strings.Contains(got, `"edit_of":"1"`) || !strings.Contains(got, "on Tuesday") {
			t.Errorf("the model reads\n%s", got)
		}
		k.Shutdown()
		say(incoming("3", "and were?"))
		edit = incoming("3b", "and where?")
		edit.EditOf = "3"
		say(edit)
		say(incoming("w1", "/why 3"))
		say(incoming("w2", "/why 3b"))
		for id, want := range map[string]string{
			"w1": "Message 3: edited before it was answered: message 3b is its new text.",
			"w2": "it is an edit of message 3",
		} {
			if told := k.Told(id); len(told) != 1 || !strings.Contains(told[0].Text(), want) {
				t.Errorf("%s is told %+v", id, told)
			}
		}
	})
}
