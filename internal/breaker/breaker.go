// Package breaker keeps calls away from a service that would only fail. A circuit breaker opens after failures in a
// row, or at once for a given time. After its cool-down one call at a time may try, and the first success closes it.
//
// Calls that began before it opened change nothing: each carries a [Pass] that is of its time. All state is in memory.
package breaker

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

// Breaker is safe for use by several goroutines. The zero Breaker opens at the first failure, for no time at all: make
// one with [New].
type Breaker struct {
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

// New makes a breaker that opens after so many failures in a row, for the ceilings of the cool-down: longer each time.
func New(threshold int, coolDown backoff.Policy) *Breaker {
	return &Breaker{threshold: threshold, coolDown: coolDown}
}

// Pass is the right to make one call. It must be given back, by one of Succeeded, Failed, Trip and Release.
type Pass struct {
	age   int
	probe bool
}

// Enter asks for a pass. Without one it says how long until there may be one, and why the breaker is open.
func (b *Breaker) Enter(now time.Time) (p Pass, ok bool, wait time.Duration, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return Pass{age: b.age}, true, 0, nil
	case b.probing:
		return Pass{}, false, max(b.until.Sub(now), probeTime), b.cause
	case now.Before(b.until):
		return Pass{}, false, b.until.Sub(now), b.cause
	}
	b.probing = true
	return Pass{age: b.age, probe: true}, true, 0, nil
}

// probeTime is what the others are told to wait while one call finds out.
const probeTime = time.Second

// Succeeded closes the breaker, unless it has opened since the call began.
func (b *Breaker) Succeeded(p Pass) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(p)
	if p.age == b.age {
		b.failures, b.opened, b.until, b.cause = 0, 0, time.Time{}, nil
	}
}

// Failed counts a failure; the one that reaches the threshold, or a probe's, opens the breaker for the next cool-down,
// which is longer each time.
func (b *Breaker) Failed(p Pass, now time.Time, cause error) {
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

// Trip opens the breaker at once, for a time.
func (b *Breaker) Trip(p Pass, now time.Time, d time.Duration, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(p)
	b.open(now.Add(d), cause)
}

// Release gives back a pass whose call told nothing: its caller gave up, or the request itself was bad.
func (b *Breaker) Release(p Pass) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(p)
}

func (b *Breaker) giveBack(p Pass) {
	if p.probe {
		b.probing = false
	}
}

// open never shortens what is in force: of two calls that failed together, one may have been told a longer wait.
func (b *Breaker) open(until time.Time, cause error) {
	b.age++
	if until.After(b.until) {
		b.until, b.cause = until, cause
	}
}

// Join gives a pass to a call of a sibling: what it meets may concern this breaker as well.
func (b *Breaker) Join() Pass {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Pass{age: b.age}
}

// State is how the next call would be treated.
func (b *Breaker) State(now time.Time) State {
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

// Wait is how long until a call may pass.
func (b *Breaker) Wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.until.Sub(now))
}

// Why says until when the breaker is open and why; zero and nil while it is closed.
func (b *Breaker) Why() (until time.Time, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until, b.cause
}
