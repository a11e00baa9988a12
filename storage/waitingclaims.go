package storage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// claim asks for up to max lanes of a pool.
type claim struct {
	// of the caller, who cannot say that it has gone while the claim is being served
	ctx  context.Context //nolint:containedctx // see above
	pool corebot.Pool
	max  int
	opts corebot.ClaimOptions
	got  []claimed
}

// writeAndClaim is write, and serves a claim in the same commit. The claim gets the lanes that are ready then. It does
// not wait, and it gets nothing if fn or the commit fails.
func (db *DB) writeAndClaim(ctx context.Context, name string, next corebot.Claim,
	fn func(*tx) error,
) ([]corebot.Delivery, error) {
	o := &op{name: name, run: fn, done: make(chan error, 1)}
	if next.Max > 0 {
		o.next = &op{claim: &claim{ctx: ctx, pool: next.Pool, max: next.Max, opts: next.Options}}
	}
	if err := db.submit(ctx, o); err != nil || o.next == nil {
		return nil, err
	}
	return o.next.claim.deliveries(), nil
}

// deliveries are the lanes that the claim got.
func (c *claim) deliveries() []corebot.Delivery {
	out := make([]corebot.Delivery, len(c.got))
	for i := range c.got {
		out[i] = c.got[i].delivery(c.pool)
	}
	return out
}

// waitingClaims are the claims of workers that wait in the writer for a ready lane. wakes has a lower bound of the
// earliest wake_at in each pool. A transaction that makes a lane ready also lowers this bound, so nobody can forget to
// wake a claim.
type waitingClaims struct {
	waiting map[corebot.Pool][]*op
	wakes   map[corebot.Pool]int64     // unix milliseconds; absent: not known, so due
	shut    map[corebot.Pool]time.Time // pools whose lanes could not be chosen, until the next look
	aside   *aside
	joined  bool // claims that do not wait are among them
}

func newWaitingClaims(a *aside) waitingClaims {
	return waitingClaims{
		waiting: map[corebot.Pool][]*op{}, wakes: map[corebot.Pool]int64{},
		shut: map[corebot.Pool]time.Time{}, aside: a,
	}
}

// add makes a claim wait, and drops claims whose callers have gone. In an idle pool nothing else drops them.
func (w *waitingClaims) add(o *op) {
	pool := o.claim.pool
	waiting := slices.DeleteFunc(w.waiting[pool], func(o *op) bool { return o.state.Load() == opCancelled })
	w.waiting[pool] = append(waiting, o)
}

// join lets the claims that go with successful operations take part in one round, behind those that wait.
func (w *waitingClaims) join(ops []*op, verdicts []error) {
	for i, o := range ops {
		if o.next != nil && verdicts[i] == nil {
			pool := o.next.claim.pool
			w.waiting[pool] = append(w.waiting[pool], o.next)
			w.joined = true
		}
	}
}

// part ends their part: a claim that got nothing does not wait.
func (w *waitingClaims) part() {
	if !w.joined {
		return
	}
	w.joined = false
	for pool, ops := range w.waiting {
		w.waiting[pool] = slices.DeleteFunc(ops, func(o *op) bool { return o.done == nil })
	}
}

// giveBack puts claims back to the front of their lines when the transaction that served them has failed.
func (w *waitingClaims) giveBack(served []*op) {
	for _, o := range slices.Backward(served) {
		o.claim.got = nil
		if o.done == nil {
			continue
		}
		o.state.Store(opWaiting)
		// its caller left after the claim was taken, and now waits for the answer
		if o.claim.ctx.Err() != nil && o.take() {
			o.done <- context.Cause(o.claim.ctx)
			continue
		}
		w.waiting[o.claim.pool] = slices.Insert(w.waiting[o.claim.pool], 0, o)
	}
}

// forget drops what a failed transaction has learnt: every pool can have a ready lane.
func (w *waitingClaims) forget() { clear(w.wakes) }

// due says whether a claim waits in a pool that can have a ready lane.
func (w *waitingClaims) due(now time.Time) bool { return w.nextWake(now) <= 0 }

// nextWake is how long the writer can sleep before a waiting claim needs it.
func (w *waitingClaims) nextWake(now time.Time) time.Duration {
	next := int64(math.MaxInt64)
	for pool, ops := range w.waiting {
		if len(ops) > 0 {
			next = min(next, max(w.wakes[pool], w.shut[pool].UnixMilli()))
		}
	}
	if next == math.MaxInt64 {
		return idle
	}
	return time.UnixMilli(next).Sub(now)
}

// idle is how long the writer sleeps if nothing waits for a time.
const idle = 365 * 24 * time.Hour

// unserved says that the waiting claims of a pool could not be served, and which lane is at fault. Without a lane, the
// pool is at fault.
type unserved struct {
	pool corebot.Pool
	lane *claimed
	row  bool // the lane's row cannot be written; its head is known to be unreadable
	err  error
}

func (u *unserved) Error() string { return fmt.Sprintf("serve pool %s: %v", u.pool, u.err) }
func (u *unserved) Unwrap() error { return u.err }

// serve gives ready lanes to the waiting claims, first come first served, and returns the claims that got some. They
// are answered after the commit. Unless probe is set, it skips lanes that were set aside, because reading their heads
// can cost the transaction. Its errors are [*unserved].
func (w *waitingClaims) serve(t *tx, probe bool) (served []*op, err error) {
	for pool, ops := range w.waiting {
		if now := t.now.UnixMilli(); len(ops) == 0 || w.wakes[pool] > now || w.shut[pool].After(t.now) {
			continue
		}
		if err := w.servePool(t, pool, probe, &served); err != nil {
			return served, err
		}
	}
	return served, nil
}

func (w *waitingClaims) servePool(t *tx, pool corebot.Pool, probe bool, served *[]*op) error {
	want := 0
	for _, o := range w.waiting[pool] {
		want += o.claim.max
	}
	due, whole, err := w.choose(t, pool, want, probe)
	if err != nil {
		return err
	}
	ready, left, err := w.load(t, pool, due, want, probe)
	if err != nil {
		return err
	}
	whole = whole && left == 0
	opts := w.waiting[pool][0].claim.opts
	if ready, err = quarantineTx(t, pool, ready, opts.Quarantine); err != nil {
		return err
	}
	n, err := w.hand(t, pool, ready, served)
	if err != nil || !whole || n < len(ready) {
		return err
	}
	next, err := nextWakeTx(t, pool)
	if err != nil {
		return &unserved{pool: pool, err: err}
	}
	w.wakes[pool] = min(next, w.aside.next(pool), t.flows.nextAllowed(t.now, opts))
	return nil
}

// choose returns the lanes whose heads are worth reading: at least want lanes that are not set aside, if there are so
// many. They are the oldest, or fairly chosen between principals if the opts say so. whole says that no other lane is
// ready.
func (w *waitingClaims) choose(t *tx, pool corebot.Pool, want int, probe bool) (due []claimed, whole bool, err error) {
	aside := w.aside.remembered(pool) // their rows still say that they are due
	if opts := w.waiting[pool][0].claim.opts; opts.Turns > 0 {
		return t.flows.fairTx(t, fairness{
			pool: pool, want: want, opts: opts, aside: aside,
			skip: func(lane int64) (skip, due bool) {
				stands := w.aside.stands(lane, t.now)
				return stands == asideNow || stands == asideDue && !probe, stands == asideDue
			},
		})
	}
	limit := want + aside
	if due, err = readyLanesTx(t, pool, limit); err != nil {
		return nil, false, &unserved{pool: pool, err: err}
	}
	return due, len(due) < limit, nil
}

// load reads the heads of up to want lanes, each separately. left is how many lanes must be looked at again soon.
func (w *waitingClaims) load(t *tx, pool corebot.Pool, due []claimed, want int,
	probe bool,
) (ready []claimed, left int, err error) {
	ready = due[:0]
	for i := range due {
		c := &due[i]
		if len(ready) == want {
			return ready, len(due) - i, nil
		}
		switch w.aside.stands(c.lane, t.now) {
		case asideNow:
			continue
		case asideDue:
			if !probe {
				left++
				continue
			}
		}
		if err := loadTx(t, c); err != nil {
			return nil, 0, &unserved{pool: pool, lane: c, err: err}
		}
		ready = append(ready, *c)
	}
	return ready, left, nil
}

// hand leases ready lanes to the waiting claims of a pool and returns how many it leased.
func (w *waitingClaims) hand(t *tx, pool corebot.Pool, ready []claimed, served *[]*op) (leased int, err error) {
	ops := w.waiting[pool]
	for len(ready) > leased && len(ops) > 0 {
		o := ops[0]
		ops = ops[1:]
		w.waiting[pool] = ops
		if !o.take() { // its caller has gone
			continue
		}
		*served = append(*served, o)
		n := min(o.claim.max, len(ready)-leased)
		o.claim.got = ready[leased : leased+n : leased+n]
		for i := range o.claim.got {
			c := &o.claim.got[i]
			if err := leaseTx(t, c, o.claim.opts); err != nil {
				return leased, &unserved{pool: pool, lane: c, err: err}
			}
			if w.aside.stands(c.lane, t.now) != asideNot {
				t.readmitted = append(t.readmitted, c.lane)
			}
		}
		leased += n
	}
	return leased, nil
}

// refusePool answers the waiting claims of a pool with an error.
func (w *waitingClaims) refusePool(pool corebot.Pool, err error) {
	for _, o := range w.waiting[pool] {
		if o.take() {
			o.done <- err
		}
	}
	delete(w.waiting, pool)
}

// refuse answers every waiting claim with an error.
func (w *waitingClaims) refuse(err error) {
	for _, ops := range w.waiting {
		for _, o := range ops {
			o.done <- err
		}
	}
	clear(w.waiting)
}
