package discord_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/discord"
	"github.com/corebot/corebot/channels/discord/discordtest"
)

// editing is a message that was sent, and is edited.
type editing struct {
	*discordtest.Server
	c  *discord.Channel
	t  *testing.T
	o  channels.Outbound
	id string
}

func edits(t *testing.T) *editing {
	t.Helper()
	s := platform(t)
	s.EditsIn = 100 * time.Millisecond
	s.Know(discordtest.Ann)
	c := open(t, s)
	o := toAnn("r1", corebot.KindReply, "…")
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

func (e *editing) shown() []discordtest.Shown { return e.Shown(e.o.Key.Chat) }

func TestAMessageIsEditedInItsPlaceAsItWouldBeSent(t *testing.T) {
	e := edits(t)
	long := "**bold** " + strings.Repeat("word ", 1000)
	for _, text := range []string{"**half of", "**half of** it", "**half of** it", long} {
		if _, err := e.edit(text); err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
	}
	shown := e.shown()
	before := []string{"…", `\*\*half of`, "**half of** it", "**half of** it"}
	if len(shown) != 1 || !slices.Equal(shown[0].Edits, before) ||
		!strings.HasPrefix(shown[0].Text, "**bold** word") || len(shown[0].Text) > 2000 || shown[0].Flags != 4 {
		t.Fatalf("the chat shows %d messages: %.60q, before %q", len(shown), shown[0].Text, shown[0].Edits)
	}
	e.o.Kind, e.o.Buttons = corebot.KindNotice, []corebot.Action{{Label: "Approve", Command: "/approve 7"}}
	r, err := e.edit(long)
	if err != nil || r.Reached < 1900 || r.Reached > 2000 || r.IDs[0] != e.id || len(e.shown()[0].Buttons) != 0 {
		t.Errorf("it reached %d of %d, with %d buttons, %v", r.Reached, len(long), len(e.shown()[0].Buttons), err)
	}
	if _, err := e.edit("the end"); err != nil || len(e.shown()[0].Buttons) != 1 {
		t.Errorf("the last piece has %d buttons, %v", len(e.shown()[0].Buttons), err)
	}
	for range 2 { // the second finds nothing
		if err := e.c.Erase(t.Context(), e.o.Key, e.id); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.edit("gone"); !errors.Is(err, channels.ErrGone) || len(e.shown()) != 0 {
		t.Errorf("an edit of a message that is gone: %v", err)
	}
}

// The frame sends a text whose edit fails for good.
func TestAnEditThatCannotBeMadeIsPermanent(t *testing.T) {
	e := edits(t)
	fault := func(f discordtest.Fault) {
		e.Faults(func(c discordtest.Call) discordtest.Fault {
			if c.Name == "edit" {
				return f
			}
			return discordtest.Fault{}
		})
	}
	for name, k := range map[string]struct {
		fault discordtest.Fault
		text  string
		id    string
	}{
		"it is an hour old": {
			discordtest.Fault{Status: 429, Code: 30046, Message: "Maximum number of edits"}, "a", e.id,
		},
		"an archived thread": {
			discordtest.Fault{Status: 400, Code: 50083, Message: "Thread is archived"}, "a", e.id,
		},
		"nothing to show": {discordtest.Fault{}, " \n ", e.id},
		"no message":      {discordtest.Fault{}, "a", "../../users/@me"},
	} {
		fault(k.fault)
		e.o.Parts = corebot.TextPart(k.text)
		_, err := e.c.Edit(t.Context(), k.id, e.o)
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := e.shown(); len(got) != 1 || got[0].Text != "…" {
		t.Errorf("the chat shows %+v", got)
	}
}

// The edit can be carried out later, behind the reply.
func TestAnEditThatIsAnsweredByAnErrorOfThePlatformMayBeMade(t *testing.T) {
	e := edits(t)
	e.Faults(func(discordtest.Call) discordtest.Fault { return discordtest.Fault{Status: 504, Page: "<html>"} })
	if _, err := e.edit("half"); !errors.Is(err, channels.ErrMayBeShown) {
		t.Errorf("it ends with %v", err)
	}
}

func TestEditsKeepTheBudgetOfTheChannel(t *testing.T) {
	e := edits(t)
	began := time.Now()
	for i := range 3*discordtest.MostEdits + 1 {
		if _, err := e.edit(strings.Repeat("x", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 3*e.EditsIn {
		t.Errorf("16 edits took %v", took)
	}
	if n := len(e.Calls("edit")); n != 16 {
		t.Errorf("there were %d requests", n)
	}
}

func TestTheBotHearsItsOwnEditsAndDeletionsAsNothing(t *testing.T) {
	e := edits(t)
	d := &channeltest.Door{}
	run(t, e.c, d)
	until(t, "it is connected", func() bool { return d.Position() != "" && e.Connected() > 0 })
	if _, err := e.edit("more"); err != nil {
		t.Fatal(err)
	}
	if err := e.c.Erase(t.Context(), e.o.Key, e.id); err != nil {
		t.Fatal(err)
	}
	e.Say(discordtest.Said{Text: "hello"})
	until(t, "the message came", func() bool { return len(d.Texts()) > 0 })
	if got := d.Texts(); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("the door got %q", got)
	}
}

// Nothing shows that a message answers a command, or a message that somebody has deleted. The nonce is known only to
// the run that has the answer to the send.
func TestTheEllipsisOfADraftThatAnswersNothingIsFoundByItsTime(t *testing.T) {
	for name, k := range map[string]struct {
		deleted, sent bool // the message; the ellipsis
		before, since int  // how many other ellipses the bot has said
		found, cannot bool
	}{
		"a command":                     {sent: true, found: true},
		"a command behind another one":  {sent: true, before: 1, found: true},
		"a deleted message":             {deleted: true, sent: true, found: true},
		"a command without an ellipsis": {before: 1},
		"two ellipses":                  {sent: true, since: 1, cannot: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := platform(t)
			chat, c := s.Know(discordtest.Ann), open(t, s)
			says := func(id, text string) (o channels.Outbound) {
				o = toAnn(id, corebot.KindReply, text)
				if _, err := c.Send(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				return o
			}
			for range k.before {
				says("r0", "…")
			}
			o := toAnn("draft/m1", corebot.KindReply, "…")
			o.InReplyTo = s.Say(discordtest.Said{From: discordtest.Ann, Text: "hello"})
			if k.deleted {
				s.Delete(chat, o.InReplyTo)
			} else {
				o.InReplyTo = "command/" + o.InReplyTo
			}
			want := ""
			if k.sent {
				sent, err := c.Send(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				want = sent.IDs[0]
			}
			for range k.since {
				says("r2", "…")
			}
			says("r3", "another answer")
			r, shown, err := open(t, s).Delivered(t.Context(), o)
			if shown != k.found || errors.Is(err, channels.ErrCannotTell) != k.cannot || !k.cannot && err != nil ||
				shown && !slices.Equal(r.IDs, []string{want}) {
				t.Errorf("it is found as %v, %v, %v and was %q", r.IDs, shown, err, want)
			}
		})
	}
}

// A message can wait while others write, and much is said after the draft.
func TestTheEllipsisOfADraftIsFoundInABusyChannel(t *testing.T) {
	s := platform(t)
	s.Know(discordtest.Ann)
	began := time.Now().Add(-4 * time.Hour)
	chatter := func(n int, at time.Time) {
		for range n {
			s.Say(discordtest.Said{From: discordtest.Ann, Text: "chatter", At: at})
		}
	}
	o := toAnn("draft/m1", corebot.KindReply, "…")
	o.InReplyTo = s.Say(discordtest.Said{From: discordtest.Ann, Text: "hello", At: began.Add(-3 * time.Hour)})
	chatter(2100, began.Add(-2*time.Hour))
	o.CreatedAt = time.Now()
	sent, err := open(t, s).Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r, shown, err := open(t, s).Delivered(t.Context(), o)
	if err != nil || !shown || !slices.Equal(r.IDs, sent.IDs) {
		t.Errorf("it is found as %v, %v, %v and was %v", r.IDs, shown, err, sent.IDs)
	}
	never := o
	never.CreatedAt = began
	s.Delete(o.Key.Chat, sent.IDs[0])
	chatter(150, began.Add(2*time.Hour))
	before := len(s.Calls("messages"))
	if _, shown, err = open(t, s).Delivered(t.Context(), never); shown || err != nil {
		t.Errorf("one that was never sent: %v, %v", shown, err)
	}
	if asked := len(s.Calls("messages")) - before; asked != 1 {
		t.Errorf("there were %d questions", asked)
	}
}
