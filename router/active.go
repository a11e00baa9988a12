package router

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// active holds the running turns of this process.
type active struct {
	mu      sync.Mutex
	turns   map[corebot.Lease]running
	stopped map[int64]stop // lives whose turns are perhaps not registered here yet
}

// stop is when a life was stopped, and by what: [corebot.ErrStopped] or [corebot.ErrInterrupted].
type stop struct {
	at    time.Time
	cause error
}

type running struct {
	life   int64
	began  time.Time
	cancel context.CancelCauseFunc
}

// begin registers a turn. The returned context ends with one of these causes: [corebot.ErrStopped],
// [corebot.ErrInterrupted], [corebot.ErrLeaseLost] or [corebot.ErrShutdown].
func (a *active) begin(ctx context.Context, d corebot.Delivery) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turns == nil {
		a.turns = map[corebot.Lease]running{}
	}
	a.turns[d.Lease] = running{d.Life, time.Now(), cancel}
	// A /stop that was accepted before this claim is in the delivery. An older entry here, such as of an earlier run,
	// no longer counts.
	switch s, ok := a.stopped[d.Life]; {
	case ok && !s.at.Before(d.ClaimedAt):
		cancel(s.cause)
	case d.Stopped && d.Interrupted:
		cancel(corebot.ErrInterrupted)
	case d.Stopped:
		cancel(corebot.ErrStopped)
	}
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.turns, d.Lease)
		delete(a.stopped, d.Life)
		cancel(nil)
	}
}

// stop cancels the turn of a message, now or when it begins.
func (a *active) stop(life int64, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped == nil {
		a.stopped = map[int64]stop{}
	}
	a.stopped[life] = stop{time.Now(), cause}
	for _, t := range a.turns {
		if t.life == life {
			t.cancel(cause)
		}
	}
}

// forget drops stops from before a moment: their turns had ended already.
func (a *active) forget(before time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.stopped, func(_ int64, s stop) bool { return s.at.Before(before) })
}

// lost cancels turns whose leases other claims can hold by now.
func (a *active) lost(leases []corebot.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range leases {
		if t, ok := a.turns[l]; ok {
			t.cancel(corebot.ErrLeaseLost)
		}
	}
}

func (a *active) leases() []corebot.Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]corebot.Lease, 0, len(a.turns))
	for l := range a.turns {
		out = append(out, l)
	}
	return out
}

func (a *active) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.turns)
}

// oldest is for how long the turn has run that began first; 0: none runs.
func (a *active) oldest() (age time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.turns {
		age = max(age, time.Since(t.began))
	}
	return age
}

// heartbeat extends the leases of all turns together, three times in a lease.
func (r *Router) heartbeat(ctx context.Context) {
	tick := time.NewTicker(r.queue.Lease() / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.active.forget(time.Now().Add(-r.queue.Lease()))
		leases := r.active.leases()
		if len(leases) == 0 {
			continue
		}
		lost, err := r.queue.Extend(ctx, leases)
		if err != nil { // the epochs protect the data; the next beat can still extend the leases
			r.opts.Log.Error().Err(err).Msg("extend leases")
		}
		r.active.lost(lost)
	}
}
