package irc

import (
	"context"
	"sync"
	"time"

	"github.com/corebot/corebot/internal/backoff"
)

// burst is how many lines can be sent at once.
const burst = 3

// pacer gives each line its time.
type pacer struct {
	mu    sync.Mutex
	every time.Duration
	next  time.Time // when the line after a burst would be due
}

func newPacer(every time.Duration) pacer { return pacer{every: every} }

// turn waits for the time of one line. It says false if ctx ends before; then the line has no time.
func (p *pacer) turn(ctx context.Context) bool {
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-burst * p.every); p.next.Before(earliest) {
		p.next = earliest
	}
	if p.next.After(now.Add(p.every)) { // the clock was set back
		p.next = now
	}
	due := p.next.Add(p.every)
	if by, bounded := ctx.Deadline(); ctx.Err() != nil || bounded && due.After(by) {
		p.mu.Unlock()
		return false
	}
	p.next = due
	p.mu.Unlock()
	backoff.Sleep(ctx, time.Until(due))
	return ctx.Err() == nil
}
