package isolation

import (
	"fmt"
	"sync"
	"time"
)

const (
	breakAfter = 5                // workers in a row that failed
	coolDown   = 30 * time.Second // until another is tried
)

// breaker stops starting workers when they keep failing: whatever is wrong with this machine, more of them only make it worse.
// A program that ends with an error is no failure of its worker.
type breaker struct {
	mu       sync.Mutex
	failures int
	until    time.Time
	cause    error
}

// enter refuses while the breaker is open. After the cool-down one call may try at a time: it moves the end of the cool-down.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakAfter {
		return nil
	}
	if now.Before(b.until) {
		return fmt.Errorf("%d workers failed in a row; the next one is tried in %v: %w", b.failures, b.until.Sub(now).Round(time.Second), b.cause)
	}
	b.until = now.Add(coolDown)
	return nil
}

// left counts how a worker ended; nil closes the breaker.
func (b *breaker) left(now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.failures, b.cause = 0, nil
		return
	}
	b.failures++
	b.until, b.cause = now.Add(coolDown), err
}
