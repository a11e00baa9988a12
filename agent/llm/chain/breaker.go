package chain

import (
	"sync"
	"time"

	"github.com/corebot/corebot/internal/backoff"
)

// State is how a breaker treats calls.
type State uint8

const (
	Closed   State = iota // calls pass
	HalfOpen              // one call passes, to find out
	Open                  // calls do not pass until the cool-down is over
)

func (s State) String() string { return [...]string{"closed", "half_open", "open"}[s] }

// breaker keeps calls away from a model that would only fail. It opens after failures in a row, or at once for a time that is named; when
// its cool-down is over one call at a time may try, and the first that succeeds closes it.
type breaker struct {
	threshold int
	coolDown  backoff.Policy

	mu       sync.Mutex
	failures int       // in a row, since it was last closed
	opened   int       // times in a row, since it was last closed
	age      int       // goes up whenever it opens: calls that began before know nothing of now
	until    time.Time // zero: closed
	probing  bool
	cause    error // why it is open
}

// pass is the right to make one call. It must be given back, by one of succeeded, failed, trip and release.
type pass struct {
	age   int
	probe bool
}

// enter asks for a pass. Without one it says how long until there may be one, and why the breaker is open.
func (b *breaker) enter(now time.Time) (p pass, ok bool, wait time.Duration, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return pass{age: b.age}, true, 0, nil
	case b.probing:
		return pass{}, false, max(b.until.Sub(now), probeTime), b.cause
	case now.Before(b.until):
		return pass{}, false, b.until.Sub(now), b.cause
	}
	b.probing = true
	return pass{age: b.age, probe: true}, true, 0, nil
}

// probeTime is what the others are told to wait while one call finds out.
const probeTime = time.Second

// succeeded closes the breaker, unless it has opened since the call began.
func (b *breaker) succeeded(p pass) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(p)
	if p.age == b.age {
		b.failures, b.opened, b.until, b.cause = 0, 0, time.Time{}, nil
	}
}

// failed counts a failure; the one that reaches the threshold, or a probe's, opens the breaker for the next cool-down, which is longer each
// time.
func (b *breaker) failed(p pass, now time.Time, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(p)
	if p.age != b.age {
		return
	}
	b.failures++
	if p.probe || b.failures >= b.threshold {
		b.opened++
		b.open(now.Add(b.coolDown.Ceiling(b.opened)), cause)
	}
}

// trip opens the breaker at once, for a time.
func (b *breaker) trip(p pass, now time.Time, d time.Duration, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(p)
	b.open(now.Add(d), cause)
}

// release gives back a pass whose call told nothing: its caller gave up, or the request itself was bad.
func (b *breaker) release(p pass) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(p)
}

func (b *breaker) giveBack(p pass) {
	if p.probe {
		b.probing = false
	}
}

// open never shortens what is in force: of two calls that failed together, one may have been told a longer wait.
func (b *breaker) open(until time.Time, cause error) {
	b.age++
	if until.After(b.until) {
		b.until, b.cause = until, cause
	}
}

// join gives a pass to a call of a sibling: what it meets may concern this model as well.
func (b *breaker) join() pass {
	b.mu.Lock()
	defer b.mu.Unlock()
	return pass{age: b.age}
}

func (b *breaker) state(now time.Time) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return Closed
	case now.Before(b.until):
		return Open
	}
	return HalfOpen
}

// wait is how long until a call may pass.
func (b *breaker) wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.until.Sub(now))
}
