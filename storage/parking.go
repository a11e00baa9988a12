package storage

import (
	"math"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// claim asks for up to max lanes of a pool.
type claim struct {
	pool  corebot.Pool
	max   int
	terms corebot.Terms
	got   []claimed
}

// parking holds the claims that wait for work. wakes has a lower bound of the earliest wake_at in each pool: whoever makes a
// lane ready lowers it in the same transaction, so that nobody can forget to wake a claim.
type parking struct {
	waiting map[corebot.Pool][]*op
	wakes   map[corebot.Pool]int64 // unix milliseconds; absent means not known, so due
}

func newParking() parking {
	return parking{waiting: map[corebot.Pool][]*op{}, wakes: map[corebot.Pool]int64{}}
}

// add parks a claim, and drops those whose callers have gone: in an idle pool nobody else does.
func (p *parking) add(o *op) {
	pool := o.claim.pool
	waiting := slices.DeleteFunc(p.waiting[pool], func(o *op) bool { return o.state.Load() == opCancelled })
	p.waiting[pool] = append(waiting, o)
}

// forget drops what was learnt in a transaction that did not happen: every pool may have a ready lane.
func (p *parking) forget() { clear(p.wakes) }

// due says whether a claim waits in a pool that may have a ready lane.
func (p *parking) due(now time.Time) bool { return p.nextWake(now) <= 0 }

// nextWake is how long the writer may sleep for the sake of the parked claims.
func (p *parking) nextWake(now time.Time) time.Duration {
	next := int64(math.MaxInt64)
	for pool, ops := range p.waiting {
		if len(ops) > 0 {
			next = min(next, p.wakes[pool])
		}
	}
	if next == math.MaxInt64 {
		return time.Hour
	}
	return time.UnixMilli(next).Sub(now)
}

// serve gives ready lanes to the claims that wait, first come first served, and returns the claims that got some. They are
// answered after the commit.
func (p *parking) serve(t *tx) ([]*op, error) {
	var served []*op
	for pool, ops := range p.waiting {
		if len(ops) == 0 || p.wakes[pool] > t.now.UnixMilli() {
			continue
		}
		want := 0
		for _, o := range ops {
			want += o.claim.max
		}
		ready, err := readyLanesTx(t, pool, want)
		if err != nil {
			return served, err
		}
		exhausted := len(ready) < want
		if ready, err = quarantineTx(t, pool, ready, ops[0].claim.terms.Quarantine); err != nil {
			return served, err
		}
		n, err := p.hand(t, pool, ready, &served)
		if err != nil {
			return served, err
		}
		if exhausted && n == len(ready) {
			next, err := nextWakeTx(t, pool)
			if err != nil {
				return served, err
			}
			// A lane that is due and was not found has lost its message, as `db check` would say: it must not keep us busy.
			if next <= t.now.UnixMilli() {
				next = t.now.Add(failurePause).UnixMilli()
			}
			p.wakes[pool] = next
		}
	}
	return served, nil
}

// hand leases ready lanes to the waiting claims of a pool and says how many it leased.
func (p *parking) hand(t *tx, pool corebot.Pool, ready []claimed, served *[]*op) (leased int, err error) {
	ops := p.waiting[pool]
	for len(ready) > leased && len(ops) > 0 {
		o := ops[0]
		ops = ops[1:]
		p.waiting[pool] = ops
		if !o.take() { // its caller has gone
			continue
		}
		*served = append(*served, o)
		n := min(o.claim.max, len(ready)-leased)
		o.claim.got = ready[leased : leased+n : leased+n]
		for i := range o.claim.got {
			if err := leaseTx(t, &o.claim.got[i], o.claim.terms); err != nil {
				return leased, err
			}
		}
		leased += n
	}
	return leased, nil
}

// refuse answers every claim that waits.
func (p *parking) refuse(err error) {
	for _, ops := range p.waiting {
		for _, o := range ops {
			o.done <- err
		}
	}
	clear(p.waiting)
}
