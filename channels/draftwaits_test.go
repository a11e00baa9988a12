package channels_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// A request meanwhile would extend the wait.
func TestALeftDraftIsTakenBackOnlyWhenTheChatIsOpenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		p.fails = func(n int) error {
			if n == 2 {
				return limited(10 * time.Minute)
			}
			return nil
		}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "")
		s.over(t)
		pass(9 * time.Minute)
		if n := s.gone(); n != 0 {
			t.Error("a chat that is closed was asked for something")
		}
		pass(3 * time.Minute)
		s.shows(t)
		s.kept(t, 0)
		s.stop()
	})
}

func TestALeftDraftIsTakenBackOnlyWhenItsAccountIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		var up atomic.Bool
		p.run = func(ctx context.Context, door channels.Door) error {
			if !up.Load() {
				return errors.New("nobody is there")
			}
			door.Alive()
			<-ctx.Done()
			return nil
		}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "")
		s.over(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.runs(ctx) }()
		pass(time.Hour)
		if n := s.gone(); n != 0 {
			t.Error("an account that is down was asked for something")
		}
		up.Store(true)
		pass(time.Hour)
		s.shows(t)
		s.kept(t, 0)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.stop()
	})
}

// The sweep meets an edit that takes long, and nothing happens in the chat behind it.
func TestADraftThatIsBeingEditedIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second, takes: 2 * time.Minute}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "")
		s.over(t)
		pass(10 * time.Minute)
		s.shows(t)
		s.kept(t, 0)
		s.stop()
	})
}

// twin knows messages by their texts only, refuses one send for its rate, and so often does not take messages back.
type twin struct {
	*picky
	stays int
}

func (p *twin) Erase(ctx context.Context, k corebot.Key, id string) error {
	if p.stays--; p.stays >= 0 {
		return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
	}
	return p.picky.Erase(ctx, k, id)
}

// The draft that cannot be taken back has the whole answer. The answer is sent below it, in a second attempt that asks
// first. An answer that is found in the draft would be lost with it.
func TestADraftThatCannotBeTakenBackIsNotTakenForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &twin{&picky{&teller{editor: &editor{platform: &platform{}, every: time.Second}, alike: true}, ""}, 2}
		p.editor.fails = func(n int) error {
			if p.edits[n-1] != "abc" {
				return nil
			}
			p.editor.shown[0] = "abc" // the edit is made
			return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
		}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		pass(10 * time.Second)
		s.turn(live.TurnEnded, "answered")
		p.refuses = "abc"
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		s.shows(t, "abc")
		pass(10 * time.Minute)
		s.shows(t, "abc")
		s.kept(t, 0)
		if n := len(s.texts("c")); n != 2 { // the ellipsis, and the answer
			t.Errorf("%d messages were sent", n)
		}
		s.stop()
	})
}
