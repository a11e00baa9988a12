package channels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
)

var errContent = &corebot.Failure{Class: corebot.Permanent, Err: errors.New("no such words here")}

// censor refuses words for good once it is on, as an edit and as a message.
type censor struct {
	*editor
	on bool
}

func (p *censor) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if p.on {
		return channels.Receipt{}, errContent
	}
	return p.editor.Send(ctx, o)
}

func TestOfAReplyThatIsRefusedInEveryWayNoHalfAnswerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &censor{editor: &editor{platform: &platform{}, every: time.Second}}
		p.fails = func(int) error {
			if p.on {
				return errContent
			}
			return nil
		}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("half ", "an ", "answer ")
		s.turn(live.TurnEnded, "answered")
		p.on = true
		s.say(t, corebot.KindReply, "r1", "m1", "half an answer and more")
		pass(time.Hour)
		s.shows(t)
		s.kept(t, 0)
		s.stop()
	})
}

// leaver refuses edits for good, and looks at what is stored when the reply is sent as a message.
type leaver struct {
	*editor
	stored func()
}

func (p *leaver) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if o.Text() == "abc" {
		p.stored()
	}
	return p.editor.Send(ctx, o)
}

// After a crash behind the send the reply would take the place of its draft, and stand there twice.
func TestAReplyThatHasLeftItsDraftTakesItsPlaceNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &leaver{editor: &editor{platform: &platform{}, every: time.Second}}
		refuses := false
		p.fails = func(int) error {
			if refuses {
				return errContent
			}
			return nil
		}
		s, sent := streamBy(t, "", p.editor, p), false
		p.stored = func() {
			sent = true
			if all, err := s.drafts.All(t.Context()); err != nil || len(all) != 1 || all[0].Answers+all[0].Reply != "" {
				t.Errorf("%+v is stored, %v", all, err)
			}
		}
		s.turn(live.TurnStarted, "")
		s.grow("a", "b")
		refuses = true
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		s.shows(t, "abc")
		s.kept(t, 0)
		if !sent {
			t.Error("the reply was not sent as a message")
		}
		s.stop()
	})
}

// shy refuses the first message for the rate.
type shy struct {
	*teller
	sends int
}

func (p *shy) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if p.sends++; p.sends == 1 {
		return channels.Receipt{}, limited(time.Second)
	}
	return p.teller.Send(ctx, o)
}

func TestAnAnswerWhoseEllipsisIsRefusedOnceForItsRateGrowsAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &shy{teller: &teller{editor: &editor{platform: &platform{}, every: time.Second}}}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		for range 20 {
			s.grow("x")
		}
		if len(s.edited()) == 0 || p.asked != 0 {
			t.Errorf("%d edits, and the platform was asked %d times", len(s.edited()), p.asked)
		}
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "xx")
		s.kept(t, 0)
		s.stop()
	})
}

// Where the edits of an account are counted together, turns that end before their edit leave no queue behind.
func TestBehindABusyMinuteALoneAnswerGrowsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, edits := &editor{platform: &platform{}, every: time.Second}, 0
		p.fails = func(int) error { edits++; return nil }
		s := streamBy(t, "", p, together{p, 3 * time.Second})
		tell := func(kind live.EventKind, chat int, text string) {
			k := apptest.Key(fmt.Sprint("c", chat))
			s.hub.Publish(live.Event{Kind: kind, Key: k, MessageID: "m1", Text: text})
		}
		for i := range 310 { // five answers a second, each for two seconds
			if i < 300 {
				tell(live.TurnStarted, i, "")
				tell(live.Text, i, "x")
			}
			if i >= 10 {
				tell(live.TurnEnded, i-10, "")
			}
			pass(200 * time.Millisecond)
		}
		pass(time.Minute)
		edits = 0
		s.turn(live.TurnStarted, "")
		began := time.Now()
		for edits == 0 && time.Since(began) < time.Hour {
			s.grow("y")
		}
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("its first edit comes after %v", waited)
		}
		s.stop()
	})
}

// A turn that is tried again at once starts while the watcher of the first try has not ended.
func TestAReplyOvertakesTheDraftOfATurnThatBeganAnew(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := stream(t, "", &editor{platform: &platform{}, every: time.Second})
			s.turn(live.TurnStarted, "")
			s.turn(live.TurnEnded, "")
			s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key("c"), MessageID: "m2"})
			s.turn(live.Text, "abc")
			synctest.Wait()
			s.say(t, corebot.KindReply, "r1", "m2", "abc") // the end of the turn is told later
			pass(3 * time.Second)
			s.shows(t, "abc")
			s.stop()
		})
	}
}

func TestRefusedEditsHoldUpNoReplyInOtherChats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		p.fails = func(int) error { return limited(19 * time.Second) }
		s := stream(t, "", p)
		for _, c := range []string{"x", "y", "z"} {
			s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key(c), MessageID: "m1"})
			s.hub.Publish(live.Event{Kind: live.Text, Key: apptest.Key(c), Text: "a"})
		}
		pass(1500 * time.Millisecond)
		s.say(t, corebot.KindReply, "r1", "m1", "at once")
		s.shows(t, "…", "…", "…", "at once")
		s.stop()
	})
}

// confused panics when it is asked whether it shows a draft.
type confused struct{ *teller }

func (p confused) Delivered(ctx context.Context, o channels.Outbound) (channels.Receipt, bool, error) {
	if strings.HasPrefix(o.ID, "draft/") {
		panic("no place")
	}
	return p.teller.Delivered(ctx, o)
}

func TestAChannelThatPanicsOverADraftEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := confused{&teller{editor: &editor{platform: &platform{}, every: time.Second}}}
		s := streamBy(t, "", p.editor, p)
		d := corebot.Draft{Key: apptest.Key("c"), Answers: "m1", Began: time.Now()}
		if err := s.drafts.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		s.shows(t, "abc")
		s.stop()
	})
}
