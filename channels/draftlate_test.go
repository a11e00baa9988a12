package channels_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
)

// picky is a teller that refuses one message for its rate.
type picky struct {
	*teller
	refuses string
}

func (p *picky) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if o.Text() == p.refuses {
		p.refuses = ""
		return channels.Receipt{}, limited(time.Second)
	}
	return p.teller.Send(ctx, o)
}

// The beginning of a reply was sent below an ellipsis that the platform did not know yet. The rest comes in another
// attempt, by which the platform knows the ellipsis. It is no place for the reply any more.
func TestAnEllipsisThatIsFoundBetweenThePiecesOfAReplyIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &picky{&teller{
			editor: &editor{platform: &platform{}, every: time.Second, most: 4}, lose: lostEllipsis, mute: true,
		}, "efgh"}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b")
		s.turn(live.TurnEnded, "answered")
		s.over(t)
		s.say(t, corebot.KindReply, "r1", "m1", "abcdefgh")
		s.shows(t, "…", "abcd")
		p.locked.Lock()
		p.mute = false
		p.locked.Unlock()
		pass(10 * time.Second)
		s.shows(t, "abcd", "efgh")
		s.kept(t, 0)
		s.stop()
	})
}

// late carries out deletions only behind the next edit, and answers none of them.
type late struct {
	*editor
	gone []string
}

func (p *late) Erase(_ context.Context, _ corebot.Key, id string) error {
	p.gone = append(p.gone, id)
	return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
}

func (p *late) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	r, err := p.editor.Edit(ctx, id, o)
	for _, gone := range p.gone {
		err = errors.Join(err, p.editor.Erase(ctx, o.Key, gone))
	}
	p.gone = nil
	return r, err
}

// The turn of another message begins, whose draft takes the earlier one back.
func TestADraftThatMayBeTakenBackForTheNextOneIsNoPlaceForAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &late{editor: &editor{platform: &platform{}, every: time.Second}}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "")
		next := live.Event{Kind: live.TurnStarted, Key: apptest.Key("c"), MessageID: "m2"}
		s.hub.Publish(next)
		next.Kind, next.Text = live.Text, "d"
		s.hub.Publish(next)
		pass(2 * time.Second)
		s.say(t, corebot.KindReply, "r1", "m1", "the answer")
		pass(time.Second)
		s.mu.Lock()
		shown := len(s.shown) > 0 && s.shown[len(s.shown)-1] == "the answer"
		s.mu.Unlock()
		if !shown {
			t.Errorf("the answer is lost, and the chat shows %q", s.editor.shown)
		}
		s.stop()
	})
}

// firm lets nothing be taken back, for a reason that could end.
type firm struct {
	*editor
	asked int
}

func (p *firm) Erase(context.Context, corebot.Key, string) error {
	p.asked++
	return &corebot.Failure{Class: corebot.Cancelled, Err: errors.New("the app lacks a right")}
}

func TestADraftThatCannotBeTakenBackIsTriedForAWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &firm{editor: &editor{platform: &platform{}, every: time.Second}}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("half ", "of ", "it ")
		s.turn(live.TurnEnded, "")
		s.over(t)
		pass(7*24*time.Hour - time.Hour)
		s.kept(t, 1)
		pass(2 * time.Hour)
		s.kept(t, 0)
		tries := p.asked
		pass(24 * time.Hour)
		if tries == 0 || p.asked > tries {
			t.Errorf("in a week it was tried %d times, and %d times behind it", tries, p.asked-tries)
		}
		s.stop()
	})
}

// The reply has taken the place of the draft, and dies there. The row must not say so any longer: the sweep would take
// the half answer for a reply that was sent.
func TestTheDraftOfADeadReplyThatCannotBeTakenBackAtOnceIsTakenBackLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stubborn{&editor{platform: &platform{}, every: time.Second}, 1}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("half ", "of ", "it ")
		s.turn(live.TurnEnded, "answered")
		s.over(t)
		p.mu.Lock()
		p.editor.fails = func(int) error { return errors.New("no") }
		p.mu.Unlock()
		s.say(t, corebot.KindReply, "r1", "m1", "half of it and the rest")
		pass(time.Hour)
		if life := s.life(t, "r1"); life.End != corebot.EndDead {
			t.Fatalf("it ended %q", life.End)
		}
		s.shows(t)
		s.kept(t, 0)
		s.stop()
	})
}
