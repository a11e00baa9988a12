package breaker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/breaker"
)

var errDown = errors.New("down")

func enter(t *testing.T, b *breaker.Breaker, now time.Time) breaker.Pass {
	t.Helper()
	p, ok, wait, cause := b.Enter(now)
	if !ok {
		t.Fatalf("no pass for %v: %v", wait, cause)
	}
	return p
}

func TestItOpensAfterFailuresInARowAndForLongerEachTime(t *testing.T) {
	b, now := breaker.New(2, backoff.Policy{Base: time.Second, Max: time.Minute}), time.Unix(0, 0)
	b.Failed(enter(t, b, now), now, errDown)
	b.Succeeded(enter(t, b, now))
	b.Failed(enter(t, b, now), now, errDown)
	if got := b.State(now); got != breaker.Closed {
		t.Fatalf("after failures that were not in a row it is %v", got)
	}
	b.Failed(enter(t, b, now), now, errDown)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		_, ok, wait, cause := b.Enter(now)
		if ok || wait != want || !errors.Is(cause, errDown) || b.State(now) != breaker.Open {
			t.Fatalf("a pass: %v, wait %v, want %v; %v", ok, wait, want, cause)
		}
		now = now.Add(want)
		b.Failed(enter(t, b, now), now, errDown)
	}
}

func TestAfterTheCoolDownOneCallAtATimeFindsOut(t *testing.T) {
	b, now := breaker.New(1, backoff.Policy{Base: time.Second, Max: time.Second}), time.Unix(0, 0)
	b.Failed(enter(t, b, now), now, errDown)
	now = now.Add(time.Second)
	probe := enter(t, b, now)
	if _, ok, wait, _ := b.Enter(now); ok || wait <= 0 || b.State(now) != breaker.HalfOpen {
		t.Fatalf("a second call passed beside the one that finds out, or was told %v", wait)
	}
	b.Release(probe)
	b.Succeeded(enter(t, b, now))
	if until, cause := b.Why(); !until.IsZero() || cause != nil || b.State(now) != breaker.Closed || b.Wait(now) != 0 {
		t.Errorf("it is open until %v: %v", until, cause)
	}
}

func TestACallThatBeganBeforeItOpenedChangesNothing(t *testing.T) {
	b, now := breaker.New(1, backoff.Policy{Base: time.Second, Max: time.Minute}), time.Unix(0, 0)
	early, late := enter(t, b, now), b.Join()
	b.Trip(enter(t, b, now), now, time.Hour, errDown)
	b.Succeeded(early)
	b.Failed(late, now, errors.New("another"))
	if until, cause := b.Why(); !until.Equal(now.Add(time.Hour)) || !errors.Is(cause, errDown) {
		t.Errorf("it is open until %v: %v", until, cause)
	}
}
