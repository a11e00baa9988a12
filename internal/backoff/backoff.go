// Package backoff says how long to wait before trying again.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy is exponential backoff with full jitter: after n failures the wait is random between zero and Base·2ⁿ⁻¹, but
// never more than Max. Full jitter keeps many that failed together from coming back together (Brooker, "Exponential
// Backoff And Jitter", 2015).
type Policy struct {
	Base time.Duration
	Max  time.Duration
}

// After is the wait after n failures in a row, n from 1.
func (p Policy) After(n int) time.Duration {
	ceiling := p.Ceiling(n)
	if ceiling <= 0 {
		return 0
	}
	return rand.N(ceiling) + 1
}

// Ceiling is the longest that After may give.
func (p Policy) Ceiling(n int) time.Duration {
	d := min(p.Base, p.Max)
	for ; n > 1 && d > 0 && d < p.Max; n-- {
		if d > p.Max/2 { // doubling might overflow
			return p.Max
		}
		d *= 2
	}
	return d
}

// Sleep waits for d or until ctx ends, whichever comes first.
func Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
