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

// hours counts what senders said, so that no program is answered for ever.
type hours struct {
	mu    sync.Mutex
	since time.Time
	said  map[string]int
}

// over says whether a sender has said more in this hour than is answered, and counts.
func (h *hours) over(sender string, most int, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := now.Sub(h.since); h.said == nil || age >= time.Hour || age < 0 {
		h.since, h.said = now, map[string]int{}
	}
	if len(h.said) >= 10*maxNames && h.said[sender] == 0 { // nobody new has room in this hour
		sender = ""
	}
	h.said[sender]++
	return sender != "" && h.said[sender] > most || sender == "" && h.said[sender] > 10*most
}
