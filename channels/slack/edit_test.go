package slack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/slack"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

// editing is a message that was sent, and is edited.
type editing struct {
	*slacktest.Server
	c  *slack.Channel
	t  *testing.T
	o  channels.Outbound
	id string
}

func editable(t *testing.T) *editing {
	t.Helper()
	s := platform(t)
	c := open(t, s)
	o := channels.Outbound{
		ID: "r1", IdempotencyKey: "r1", Kind: corebot.KindReply, Parts: corebot.TextPart("…"), CreatedAt: time.Now(),
		Key: corebot.Key{Channel: "slack", Account: "main", Chat: slacktest.Room},
	}
	o.Key.Thread = s.Say(slacktest.Said{Channel: slacktest.Room, Text: "the beginning"})
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
	long := "**bold** " + strings.Repeat("word ", 1000)
	for _, text := range []string{"**half of", "**half of** <it>", "**half of** <it>", long} {
		if _, err := e.edit(text); err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
	}
	shown := e.Shown(slacktest.Room)
	before := []string{"…", "*\u200b*half of", "*half of* &lt;it&gt;", "*half of* &lt;it&gt;"}
	if len(shown) != 1 || !slices.Equal(shown[0].Edits, before) || !strings.HasPrefix(shown[0].Text, "*bold* word") ||
		shown[0].Thread != e.o.Key.Thread {
		t.Fatalf("the channel shows %d messages: %.60q, before %q", len(shown), shown[0].Text, shown[0].Edits)
	}
	if r, err := e.edit(long); err != nil || r.Reached < 2500 || r.Reached > 3000 || r.IDs[0] != e.id {
		t.Errorf("it reached %d of %d, %v", r.Reached, len(long), err)
	}
	for range 2 { // the second finds nothing
		if err := e.c.Erase(t.Context(), e.o.Key, e.id); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.edit("gone"); !errors.Is(err, channels.ErrGone) || len(e.Shown(slacktest.Room)) != 0 {
		t.Errorf("an edit of a message that is gone: %v", err)
	}
}

func TestAnEditThatSlackRefusesIsCutOrPlainOrPermanent(t *testing.T) {
	e := editable(t)
	refuse := func(code string, when func(text string) bool) {
		e.Faults(func(c slacktest.Call) slacktest.Fault {
			if c.Method == "chat.update" && when(c.Text) {
				return slacktest.Fault{Error: code}
			}
			return slacktest.Fault{}
		})
	}
	refuse("msg_too_long", func(text string) bool { return len(text) > 1000 })
	if r, err := e.edit(strings.Repeat("word ", 1000)); err != nil || r.Reached == 0 || r.Reached > 1000 {
		t.Errorf("it reached %d, %v", r.Reached, err)
	}
	refuse("invalid_arguments", func(text string) bool { return strings.Contains(text, "*") })
	if _, err := e.edit("**bold**"); err != nil || e.Texts(slacktest.Room)[0] != "bold" {
		t.Errorf("the channel shows %q, %v", e.Texts(slacktest.Room), err)
	}
	for name, k := range map[string]struct{ code, text, id string }{
		"it is too old":   {"edit_window_closed", "a", e.id},
		"no rights":       {"cant_update_message", "a", e.id},
		"nothing to show": {"", " \n ", e.id},
		"no message":      {"", "a", "../auth.test"},
	} {
		refuse(k.code, func(string) bool { return k.code != "" })
		e.o.Parts = corebot.TextPart(k.text)
		_, err := e.c.Edit(t.Context(), k.id, e.o)
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The edit can be carried out later, behind the reply.
func TestAnEditThatIsAnsweredByAnErrorOfSlackMayBeMade(t *testing.T) {
	e := editable(t)
	e.Faults(func(slacktest.Call) slacktest.Fault { return slacktest.Fault{Status: 504, Page: "<html>"} })
	if _, err := e.edit("half"); !errors.Is(err, channels.ErrMayBeShown) {
		t.Errorf("it ends with %v", err)
	}
}

// A draft that has the whole text of its reply is not the reply: the draft is deleted behind it.
func TestAnEditIsNotTakenForASend(t *testing.T) {
	e := editable(t)
	o := e.o
	o.ID, o.IdempotencyKey, o.Parts = "r2", "r2", corebot.TextPart("answer")
	if _, err := e.c.Edit(t.Context(), e.id, o); err != nil {
		t.Fatal(err)
	}
	if _, shown, err := e.c.Delivered(t.Context(), o); shown || err != nil {
		t.Errorf("the edit is found as a send: %v, %v", shown, err)
	}
	o.ID, o.IdempotencyKey, o.Parts = "r1", "r1", corebot.TextPart("…")
	if r, shown, err := e.c.Delivered(t.Context(), o); !shown || err != nil || r.IDs[0] != e.id {
		t.Errorf("the send is not found: %v, %v, %v", r, shown, err)
	}
}

func TestTheAppHearsItsOwnEditsAndDeletionsAsNothing(t *testing.T) {
	e := editable(t)
	e.Say(slacktest.Said{Text: "before the first connection"})
	r := run(t, e.Server)
	if _, err := e.edit("more"); err != nil {
		t.Fatal(err)
	}
	if err := e.c.Erase(t.Context(), e.o.Key, e.id); err != nil {
		t.Fatal(err)
	}
	e.Say(slacktest.Said{Text: "hello"})
	r.until("the message came", func() bool { return slices.Contains(r.door.Texts(), "hello") })
	for _, in := range r.door.Got() {
		if !in.Own && in.SenderID != slacktest.Ann {
			t.Errorf("the door got %+v", in)
		}
	}
}

func TestDraftsOfAllChannelsShareTheirEdits(t *testing.T) {
	made, err := slack.New(slack.Settings{
		Token: slacktest.Token, AppToken: slacktest.AppToken, APIURL: "http://127.0.0.1:1", Stream: 2 * time.Second,
	}, channels.Site{Account: account})
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*slack.Channel)
	if c.DraftEvery(corebot.Key{}) != 2*time.Second || c.EditsApart() != 2*time.Second {
		t.Error("edits are", c.DraftEvery(corebot.Key{}), "and", c.EditsApart(), "apart")
	}
}

// A draft is looked for after an outage, too. A busy channel has gone on meanwhile.
func TestTheEllipsisOfADraftIsFoundFarBehindWhatWasSaidSince(t *testing.T) {
	s := platform(t)
	c, began := open(t, s), time.Now().Add(-30*time.Minute)
	o := channels.Outbound{
		ID: "draft/m1", IdempotencyKey: "draft/m1/1", Key: keyOf(slacktest.Room, ""), Kind: corebot.KindReply,
		Parts: corebot.TextPart("…"), CreatedAt: began,
	}
	s.Behind(30 * time.Minute)
	sent, err := c.Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Behind(0)
	for range slack.MaxFetched + 200 {
		s.Say(slacktest.Said{Channel: slacktest.Room, Text: "chatter"})
	}
	r, shown, err := c.Delivered(t.Context(), o)
	if err != nil || !shown || !slices.Equal(r.IDs, sent.IDs) {
		t.Errorf("it is found as %v, %v, %v and was %v", r.IDs, shown, err, sent.IDs)
	}
	never := o
	never.IdempotencyKey = "draft/m2/1"
	if _, shown, err := c.Delivered(t.Context(), never); shown || err == nil {
		t.Errorf("one that was never sent: %v, %v", shown, err)
	}
	asked := 0
	s.Faults(func(slacktest.Call) slacktest.Fault {
		asked++
		return slacktest.Fault{Error: "missing_scope"}
	})
	if _, shown, err := c.Delivered(t.Context(), o); shown || !errors.Is(err, channels.ErrCannotTell) || asked != 1 {
		t.Errorf("without the scope: %v, %v after %d questions", shown, err, asked)
	}
}
