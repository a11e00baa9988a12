package matrix_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/matrix"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

// editing is a message that was sent, and is edited.
type editing struct {
	*matrixtest.Server
	c  *matrix.Channel
	t  *testing.T
	o  channels.Outbound
	id string
}

func editable(t *testing.T) *editing {
	t.Helper()
	s := platform(t)
	s.Room(room)
	c := open(t, s)
	o := outbound("r1", "…")
	o.Key.Thread = "$root"
	sent, err := c.Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return &editing{s, c, t, o, sent.IDs[0]}
}

func (e *editing) edit(text string) (channels.Receipt, error) {
	e.o.Parts = corebot.TextPart(text)
	return e.c.Edit(e.t.Context(), e.id, e.o)
}

func TestAMessageIsEditedInItsPlaceAsItWouldBeSent(t *testing.T) {
	e := editable(t)
	for _, text := range []string{"**half of", "**half of** it", "**half of** it", "**whole**"} { // the third is known
		if _, err := e.edit(text); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	shown := e.Shown(room)
	if len(shown) != 1 || !slices.Equal(shown[0].Edits, []string{"…", "**half of", "half of it"}) ||
		shown[0].HTML != "<strong>whole</strong>" || shown[0].Body != "whole" || shown[0].Thread != "$root" {
		t.Fatalf("the room shows %+v", shown)
	}
	e.Restart() // the homeserver knows no transaction any more
	if _, err := e.edit("**whole**"); err != nil || e.Texts(room)[0] != "whole" {
		t.Errorf("edited again it shows %q, %v", e.Texts(room), err)
	}
	for range 2 {
		if err := e.c.Erase(t.Context(), e.o.Key, e.id); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.edit("gone"); !errors.Is(err, channels.ErrGone) || len(e.Shown(room)) != 0 {
		t.Errorf("an edit of a message that was taken back: %v", err)
	}
}

// Dendrite knows an event a moment after it has taken it.
func TestAMessageThatTheHomeserverDoesNotGiveYetIsEdited(t *testing.T) {
	e := editable(t)
	e.Faults(func(c matrixtest.Call) matrixtest.Fault {
		if c.Name == "event" {
			return matrixtest.Fault{Status: 404, Code: "M_NOT_FOUND", Error: "Event not found"}
		}
		return matrixtest.Fault{}
	})
	if _, err := e.edit("more"); err != nil || e.Texts(room)[0] != "more" {
		t.Errorf("the room shows %q, %v", e.Texts(room), err)
	}
	if err := e.c.Erase(t.Context(), e.o.Key, "$never"); err != nil {
		t.Error(err)
	}
}

// A text that is begun anew can be as long as the one before. Its edit is another one.
func TestEditsOfTheSameLengthAreNotTakenForOne(t *testing.T) {
	e := editable(t)
	for _, text := range []string{"abc", "xyz", "abc"} {
		if _, err := e.edit(text); err != nil {
			t.Fatal(err)
		}
	}
	if shown := e.Shown(room); !slices.Equal(shown[0].Edits, []string{"…", "abc"}) || shown[0].Body != "xyz" {
		t.Errorf("the room shows %+v", shown)
	}
}

func TestAnEditOfALongTextReachesAsFarAsItSays(t *testing.T) {
	e := editable(t)
	for _, text := range []string{
		strings.Repeat("word ", 40_000), "**" + strings.Repeat("<&\"> ", 20_000) + "**",
	} {
		r, err := e.edit(text)
		if err != nil || r.Reached < 1000 || r.Reached >= len(text) || r.IDs[0] != e.id {
			t.Fatalf("it reached %d of %d, %v", r.Reached, len(text), err)
		}
	}
	e.Faults(func(c matrixtest.Call) matrixtest.Fault { // a homeserver with a limit of its own
		if changed, is := c.Body["body"].(string); is && len(changed) > 2000 {
			return matrixtest.Fault{Status: 413, Code: "M_TOO_LARGE", Error: "event too large"}
		}
		return matrixtest.Fault{}
	})
	if r, err := e.edit(strings.Repeat("word ", 40_000)); err != nil || r.Reached == 0 || r.Reached > 2000 {
		t.Errorf("it reached %d, %v", r.Reached, err)
	}
}

func TestAnEditThatCannotBeMadeIsPermanent(t *testing.T) {
	e := editable(t)
	for name, k := range map[string][2]string{"nothing to show": {" \n ", e.id}, "no event": {"a", "../../sync"}} {
		e.o.Parts = corebot.TextPart(k[0])
		_, err := e.c.Edit(t.Context(), k[1], e.o)
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An edit is marked, so that another Corebot does not answer it; but it is not the send of a message.
func TestAnEditIsNotTakenForASend(t *testing.T) {
	e := editable(t)
	o := outbound("r2", "answer")
	if _, err := e.c.Edit(t.Context(), e.id, o); err != nil {
		t.Fatal(err)
	}
	if _, shown, err := e.c.Delivered(t.Context(), o); shown || err != nil {
		t.Errorf("the edit is found as a send: %v, %v", shown, err)
	}
	for _, c := range e.Calls("send") {
		if c.Body["com.github.corebot.sent"] == nil {
			t.Errorf("an event is not marked: %v", c.Body)
		}
	}
}

func TestTheAccountHearsItsOwnEditsAndDeletionsAsNothing(t *testing.T) {
	e := editable(t)
	d := &channeltest.Door{}
	run(t, e.c, d)
	until(t, "it has begun", func() bool { return d.Position() != "" })
	if _, err := e.edit("more"); err != nil {
		t.Fatal(err)
	}
	if err := e.c.Erase(t.Context(), e.o.Key, e.id); err != nil {
		t.Fatal(err)
	}
	e.Say(matrixtest.Said{Room: room, Text: "hello"})
	until(t, "the message came", func() bool { return len(d.Texts()) > 0 })
	if got := d.Texts(); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("the door got %q", got)
	}
}

func TestADroppedAnswerToAnEditIsUnsure(t *testing.T) {
	e := editable(t)
	for name, fault := range map[string]matrixtest.Fault{"send": {DropAfter: true}, "event": {Drop: true}} {
		e.Faults(func(c matrixtest.Call) matrixtest.Fault {
			if c.Name == name {
				return fault
			}
			return matrixtest.Fault{}
		})
		if _, err := e.edit(name); err == nil || errors.Is(err, channels.ErrMayBeShown) != (name == "send") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Dendrite shows an event late that it had taken before it was killed. Corebot has sent it again meanwhile.
func TestAMessageThatTheHomeserverShowsTwiceIsTakenBackOnce(t *testing.T) {
	e := editable(t)
	d := &channeltest.Door{}
	run(t, e.c, d)
	until(t, "it has begun", func() bool { return d.Position() != "" })
	reply, same := outbound("r2", "answer"), outbound("r3", "answer")
	for _, o := range []channels.Outbound{reply, reply, same} {
		if _, err := e.c.Send(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		e.Forget()
	}
	for range 2 { // the same edit, as two events
		if _, err := e.edit("more"); err != nil {
			t.Fatal(err)
		}
		e.Forget()
	}
	e.Say(matrixtest.Said{Room: room, Text: "hello"})
	until(t, "the message came", func() bool { return len(d.Texts()) > 0 })
	if got := e.Texts(room); !slices.Equal(got, []string{"more", "answer", "answer"}) || len(e.Calls("redact")) != 1 {
		t.Errorf("the room shows %q after %d deletions", got, len(e.Calls("redact")))
	}
}

// The frame makes edits rarer, or sends the reply, by the class of a refusal. An answer with a status of 500 can come
// behind an edit that was made.
func TestARefusedEditSaysHowItIsRefused(t *testing.T) {
	e := editable(t)
	for _, tried := range []struct {
		fault matrixtest.Fault
		class corebot.Class
		wait  time.Duration
		may   bool // be shown, unless it is the question before the edit that is refused
	}{
		{matrixtest.Flood(3000), corebot.RateLimited, 3 * time.Second, false},
		{matrixtest.Fault{Status: 403, Code: "M_FORBIDDEN"}, corebot.Permanent, 0, false},
		{matrixtest.Fault{Status: 500, Code: "M_UNKNOWN"}, corebot.RateLimited, channels.Unsent, true},
		{matrixtest.Fault{Status: 502, Code: "M_UNKNOWN"}, corebot.RateLimited, channels.Unsent, true},
	} {
		for _, name := range []string{"send", "event"} {
			e.Faults(func(c matrixtest.Call) matrixtest.Fault {
				if c.Name == name {
					return tried.fault
				}
				return matrixtest.Fault{}
			})
			_, err := e.edit("more")
			f := (*corebot.Failure)(nil)
			if !errors.As(err, &f) || f.Class != tried.class || f.RetryAfter != tried.wait ||
				errors.Is(err, channels.ErrMayBeShown) != (tried.may && name == "send") {
				t.Errorf("%d of %s: %v", tried.fault.Status, name, err)
			}
		}
	}
	e.Faults(nil)
	if texts := e.Texts(room); !slices.Equal(texts, []string{"…"}) {
		t.Errorf("the room shows %q", texts)
	}
}

func TestDraftsOfAllRoomsShareTheirEdits(t *testing.T) {
	made, err := matrix.New(matrix.Settings{
		Homeserver: "http://127.0.0.1:1", Token: matrixtest.Token, Hourly: 1, Poll: time.Second,
		Stream: 5 * time.Second,
	}, channels.Site{Account: account})
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*matrix.Channel)
	if c.DraftEvery(keyOf(room, "")) != 5*time.Second || c.EditsApart() != 5*time.Second {
		t.Error("edits are", c.DraftEvery(keyOf(room, "")), "and", c.EditsApart(), "apart")
	}
}

// A draft is looked for after an outage, too. A busy room has gone on meanwhile.
func TestTheEllipsisOfADraftIsFoundFarBehindWhatWasSaidSince(t *testing.T) {
	s := platform(t)
	s.Room(room)
	c, o := open(t, s), outbound("draft/m1", "…")
	o.InReplyTo = s.Say(matrixtest.Said{Room: room, Text: "hello"})
	s.Say(matrixtest.Said{Room: room, Text: "others write", From: "@eve:test"})
	sent, err := c.Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2100 {
		s.Say(matrixtest.Said{Room: room, Text: "chatter"})
	}
	r, shown, err := c.Delivered(t.Context(), o)
	if err != nil || !shown || !slices.Equal(r.IDs, sent.IDs) {
		t.Errorf("it is found as %v, %v, %v and was %v", r.IDs, shown, err, sent.IDs)
	}
	never, before := o, len(s.Calls("messages"))
	never.IdempotencyKey = "draft/m2"
	_, shown, err = c.Delivered(t.Context(), never)
	if asked := len(s.Calls("messages")) - before; shown || !errors.Is(err, channels.ErrCannotTell) || asked > 40 {
		t.Errorf("one that was never sent: %v, %v after %d questions", shown, err, asked)
	}
}
