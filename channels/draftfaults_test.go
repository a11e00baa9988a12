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
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
)

// out is an editor whose platform is away for a while.
type out struct {
	*editor
	away *atomic.Bool
}

func (p out) gone() error {
	if p.away.Load() {
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: channels.Unsent, Err: errors.New("it is away")}
	}
	return nil
}

func (p out) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if err := p.gone(); err != nil {
		return channels.Receipt{}, err
	}
	return p.editor.Send(ctx, o)
}

func (p out) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	if err := p.gone(); err != nil {
		return channels.Receipt{}, err
	}
	return p.editor.Edit(ctx, id, o)
}

func (p out) Erase(ctx context.Context, k corebot.Key, id string) error {
	if err := p.gone(); err != nil {
		return err
	}
	return p.editor.Erase(ctx, k, id)
}

func TestAPartOfAnAnswerIsTakenBackAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		p := &editor{platform: &platform{}, every: time.Second}
		p.fails = func(n int) error {
			if n == 2 {
				away.Store(true)
				return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
			}
			return nil
		}
		s := streamBy(t, "", p, out{p, &away})
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e")
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abcde")
		pass(time.Second)
		away.Store(false)
		pass(time.Minute)
		s.shows(t, "abcde")
		s.kept(t, 0)
		s.stop()
	})
}

func TestAPartOfATurnThatFailedInAnOutageIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		p := &editor{platform: &platform{}, every: time.Second}
		s := streamBy(t, "", p, out{p, &away})
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e")
		away.Store(true)
		s.turn(live.TurnEnded, "failed")
		s.say(t, corebot.KindNotice, "n1", "m1", "it failed")
		pass(time.Second)
		away.Store(false)
		pass(time.Minute)
		s.shows(t, "it failed")
		s.kept(t, 0)
		s.stop()
	})
}

func TestAnAnswerWhoseLastEditIsRefusedForGoodIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		var refused atomic.Bool
		p.fails = func(int) error {
			if refused.Load() {
				return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("refused for good")}
			}
			return nil
		}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		refused.Store(true)
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abcde")
		pass(time.Minute)
		s.shows(t, "abcde")
		s.kept(t, 0)
		s.stop()
	})
}

func TestAnswersWhoseEndWasMissedKeepNoOtherFromGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		s := stream(t, "", p)
		for i := range 64 { // as many as can grow at once
			s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key(fmt.Sprint("x", i)), MessageID: "m1"})
		}
		pass(time.Hour)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e")
		if len(s.edited()) == 0 {
			t.Error("no answer grows any more")
		}
		s.stop()
	})
}

func TestAPartOfAnAnswerThatIsADeadLetterIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		p := &editor{platform: &platform{}, every: time.Second}
		s := streamBy(t, "", p, broken{p, &away})
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		away.Store(true)
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abcde")
		pass(time.Hour)
		if life := s.life(t, "r1"); life.End != corebot.EndDead {
			t.Fatalf("it ended %q", life.End)
		}
		away.Store(false)
		s.say(t, corebot.KindReply, "r2", "m2", "next")
		pass(time.Minute)
		s.shows(t, "next")
		s.kept(t, 0)
		s.stop()
	})
}

// broken is an editor whose platform fails at every message.
type broken struct {
	*editor
	fails *atomic.Bool
}

func (b broken) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if b.fails.Load() {
		return channels.Receipt{}, errors.New("it failed")
	}
	return b.editor.Send(ctx, o)
}

func (b broken) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	if b.fails.Load() {
		return channels.Receipt{}, errors.New("it failed")
	}
	return b.editor.Edit(ctx, id, o)
}
