package channels_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
)

// typist is a platform that shows typing.
type typist struct {
	*platform
	at  []time.Duration // when it was told to, since the begin
	err error

	again  time.Duration // 0: 4 s
	panics bool
	began  time.Time
}

func (p *typist) Typing(context.Context, corebot.Key) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Since(p.began))
	if p.panics {
		panic("no such chat")
	}
	return cmp.Or(p.again, 4*time.Second), p.err
}

// typing runs a supervisor whose one account types.
func typing(t *testing.T, err error) (*typist, *live.Hub) {
	t.Helper()
	o := newOutbox(t, "", "")
	p := &typist{platform: &platform{}, err: err, began: time.Now()}
	s, failed := channels.NewSupervisor(o.Door, o.Outbox, zerolog.Nop(),
		channels.Entry{Account: channels.Account{Kind: apptest.Channel}, Channel: p})
	if failed != nil {
		t.Fatal(failed)
	}
	hub := new(live.Hub)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Type(ctx, hub) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return p, hub
}

func turn(kind live.EventKind, id string) live.Event {
	return live.Event{Kind: kind, Key: apptest.Key("c"), MessageID: id}
}

func TestAChatSeesTypingUntilItsTurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hub := typing(t, nil)
		hub.Publish(turn(live.TurnStarted, "m1"))
		pass(10 * time.Second)
		hub.Publish(turn(live.TurnEnded, "m1"))
		pass(time.Minute)
		second := time.Second
		if want := []time.Duration{second / 2, second/2 + 4*second, second/2 + 8*second}; !slices.Equal(p.at, want) {
			t.Errorf("typing was shown after %v", p.at)
		}
	})
}

func TestTypingIsNotShownOfQuickAnswersAndOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hub := typing(t, nil)
		hub.Publish(turn(live.TurnStarted, "m1"))
		pass(100 * time.Millisecond)
		hub.Publish(turn(live.TurnEnded, "m1"))
		hub.Publish(turn(live.TurnStarted, corebot.OwnID("task", 1)))
		pass(time.Minute)
		if len(p.at) != 0 {
			t.Errorf("typing was shown after %v", p.at)
		}
	})
}

func TestTypingEndsWhenThePlatformRefusesItOrNoEndIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hub := typing(t, &corebot.Failure{
			Class: corebot.RateLimited, RetryAfter: time.Hour, Err: errors.New("too many requests"),
		})
		for range 3 {
			hub.Publish(turn(live.TurnStarted, "m1"))
			pass(time.Minute)
		}
		if len(p.at) != 1 {
			t.Errorf("typing that was refused was shown after %v", p.at)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p, hub := typing(t, nil)
		hub.Publish(turn(live.TurnStarted, "m1"))
		pass(time.Hour)
		if last := p.at[len(p.at)-1]; last > 15*time.Minute {
			t.Errorf("typing was shown for %v", last)
		}
	})
}

func TestTypingIsShownOnceASecondAtMostWhateverTheChannelSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hub := typing(t, nil)
		p.again = 10 * time.Millisecond
		hub.Publish(turn(live.TurnStarted, "m1"))
		pass(10 * time.Second)
		if len(p.at) != 10 {
			t.Errorf("in 10 s typing was shown %d times", len(p.at))
		}
	})
}

func TestAChannelThatPanicsOverTypingEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hub := typing(t, nil)
		p.panics = true
		for range 2 {
			hub.Publish(turn(live.TurnStarted, "m1"))
			pass(time.Minute)
		}
		if len(p.at) != 2 {
			t.Errorf("typing was shown after %v", p.at)
		}
	})
}
