package router

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/live"
)

// active holds the running turns of this process.
type active struct {
	mu      sync.Mutex
	turns   map[corebot.Lease]running
	stopped map[int64]stop // lives whose turns are perhaps not registered here yet
	work    *live.Work
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
	ended := a.work.Begin(d.Message.Key, cancel)
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
		ended()
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

const (
	// longTurn is how long a turn runs until another worker takes the place of its worker. Most turns end before.
	longTurn = 5 * time.Second
	// longShare is how many places can be taken so at once, as a multiple of [Options].Workers.
	longShare = 3
)

// crew is the workers of a router. As many as [Options] say have a place. A turn can stand still for minutes, because
// an MCP server or a model does not answer. So a worker whose turn is long loses its place to a new worker, ends its
// turn and goes. Turns that stand still then hold up no other chat, as long as they are no more than longShare times
// the places.
type crew struct {
	router       *Router
	claims, work context.Context //nolint:containedctx // of all workers: claims ends their claims, work their turns
	here         sync.WaitGroup

	mu   sync.Mutex
	long int // workers that have lost their places and are still here
}

// worker is one of a crew.
type worker struct {
	crew *crew
	late *time.Timer
	busy bool // it has a turn
	lost bool // another has its place
}

// start adds a worker.
func (c *crew) start() { c.here.Go((&worker{crew: c}).loop) }

// room says whether a worker waits for a message, if so many turns run.
func (c *crew) room(turns int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return turns < c.router.opts.Workers+c.long
}

// loop claims and runs turns until the claims end, or until another worker has the place.
func (w *worker) loop() {
	r, claims := w.crew.router, w.crew.claims
	w.late = time.AfterFunc(longTurn, w.giveWay) // without a turn it does nothing
	defer w.leave()
	pause := backoff.Policy{Base: 100 * time.Millisecond, Max: 10 * time.Second}
	for failures := 0; w.claims(); {
		ds, err := r.queue.Claim(claims, corebot.InboundPool, 1)
		if err != nil {
			if claims.Err() != nil || errors.Is(err, corebot.ErrClosed) {
				return
			}
			failures++
			r.opts.Log.Error().Err(err).Msg("claim")
			backoff.Sleep(claims, pause.After(failures))
			continue
		}
		failures = 0
		for len(ds) > 0 { // what was claimed is run, also when the claims have ended meanwhile
			w.turn(true)
			ds = append(ds[1:], r.deliver(w, ds[0])...)
			w.turn(false)
		}
	}
}

// turn notes that a turn begins or has ended.
func (w *worker) turn(begins bool) {
	w.crew.mu.Lock()
	defer w.crew.mu.Unlock()
	if w.busy = begins; begins {
		w.late.Reset(longTurn)
	} else {
		w.late.Stop()
	}
}

// claims says whether the worker may claim one more message.
func (w *worker) claims() bool {
	w.crew.mu.Lock()
	defer w.crew.mu.Unlock()
	return !w.lost && w.crew.claims.Err() == nil
}

// giveWay lets a new worker take the place of one whose turn is long. Where too many have lost theirs, it waits.
func (w *worker) giveWay() {
	c := w.crew
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !w.busy || w.lost || c.claims.Err() != nil:
	case c.long >= longShare*c.router.opts.Workers:
		w.late.Reset(longTurn)
	default:
		w.lost = true
		c.long++
		c.start()
	}
}

// leave ends the worker.
func (w *worker) leave() {
	w.crew.mu.Lock()
	defer w.crew.mu.Unlock()
	w.late.Stop()
	if w.lost {
		w.crew.long--
	}
}
