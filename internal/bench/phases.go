package bench

import (
	"context"
	"errors"
	"time"

	"github.com/corebot/corebot"
)

// phase is one part of a round.
type phase struct {
	name string
	fair bool // only with [BusOptions.Fair]
	run  func(*busBench, context.Context) error
}

// phases in their order. Each begins with an empty database of its own; only the last looks at the backlog, which is
// there from the start.
var phases = [...]phase{
	{"fsync and raw inserts", false, (*busBench).machine},
	{"publish, drain", false, (*busBench).publishAndDrain},
	{"drain, fair", true, (*busBench).drainFairly},
	{"both at once", false, (*busBench).both},
	{"both at once, fair", true, (*busBench).bothFairly},
	{"pick-up", false, (*busBench).pickup},
	{"with the backlog", false, (*busBench).withBacklog},
}

// machine measures what everything else is compared with.
func (b *busBench) machine(ctx context.Context) error {
	return measureMachine(ctx, b.dir, b.opts.Messages, b.opts.Bytes, &b.fsync, &b.raw)
}

// onEmpty runs fn with an empty bus.
func (b *busBench) onEmpty(ctx context.Context, fn func(*rig) error) error {
	return b.onEmptyWith(ctx, 0, fn)
}

func (b *busBench) onEmptyWith(ctx context.Context, turns int, fn func(*rig) error) error {
	r, err := openRig(ctx, b.dir, turns)
	if err != nil {
		return err
	}
	return errors.Join(fn(r), r.close())
}

// publishAndDrain times how fast messages are accepted, and then how fast what waits is claimed and settled.
func (b *busBench) publishAndDrain(ctx context.Context) error {
	messages := b.load.spread(b.opts.Messages)
	return b.onEmpty(ctx, func(r *rig) error {
		err := timed(len(messages), &b.publish, &b.publishCPU, func() error {
			return r.publish(ctx, messages,
				b.opts.Publishers)
		})
		if err != nil {
			return err
		}
		return timed(len(messages), &b.drain, &b.drainCPU, func() error {
			return r.consume(ctx, len(messages),
				b.opts.Consumers)
		})
	})
}

// both times publishing and consuming at once, until the last settle.
func (b *busBench) both(ctx context.Context) error {
	messages := b.load.spread(b.opts.Messages)
	return b.onEmpty(ctx, func(r *rig) error {
		return timed(len(messages), &b.together, &b.togetherCPU, func() error {
			return r.exchange(ctx, messages, b.opts.Publishers, b.opts.Consumers)
		})
	})
}

// drainFairly is the second half of publishAndDrain with turns that are shared fairly.
func (b *busBench) drainFairly(ctx context.Context) error {
	messages := b.load.spread(b.opts.Messages)
	return b.onEmptyWith(ctx, b.opts.Consumers, func(r *rig) error {
		if err := r.publish(ctx, messages, b.opts.Publishers); err != nil {
			return err
		}
		return timed(len(messages), &b.fairDrain, &b.fairDrainCPU, func() error {
			return r.consume(ctx, len(messages),
				b.opts.Consumers)
		})
	})
}

// bothFairly is both with turns that are shared fairly.
func (b *busBench) bothFairly(ctx context.Context) error {
	messages := b.load.spread(b.opts.Messages)
	return b.onEmptyWith(ctx, b.opts.Consumers, func(r *rig) error {
		return timed(len(messages), &b.fairBoth, &b.fairBothCPU, func() error {
			return r.exchange(ctx, messages, b.opts.Publishers, b.opts.Consumers)
		})
	})
}

const (
	mostSamples = 1_000            // of pick-up in a round
	claimPairs  = 300              // of claims on the empty queue and on the backlog, in a round
	idlePause   = time.Millisecond // in which consumers wait again and the bus falls idle
)

// pickup times, on an idle bus whose consumers wait, from the publish call to the moment at which one of them has the
// message.
func (b *busBench) pickup(ctx context.Context) error {
	messages := b.load.spread(min(mostSamples, b.opts.Messages))
	return b.onEmpty(ctx, func(r *rig) error {
		times, err := r.pickups(ctx, messages, b.opts.Consumers)
		b.pickupP50, b.pickupP99 = append(b.pickupP50, times.quantile(0.5)), append(b.pickupP99, times.quantile(0.99))
		return err
	})
}

func (r *rig) pickups(ctx context.Context, messages []corebot.Message, consumers int) (latencies, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	picked := make(chan time.Time, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- crowd(ctx, consumers, func(ctx context.Context) error { return r.pickUp(ctx, picked) })
	}()
	times := make(latencies, 0, len(messages))
	for _, m := range messages {
		time.Sleep(idlePause)
		started := time.Now()
		if err := r.publishOne(ctx, m); err != nil {
			cancel(err)
			break
		}
		select {
		case at := <-picked:
			times = append(times, at.Sub(started))
		case err := <-ended:
			return times, err
		}
	}
	cancel(errSettled)
	if err := <-ended; !errors.Is(err, errSettled) {
		return times, err
	}
	return times, nil
}

// pickUp is a consumer that says when it got a message.
func (r *rig) pickUp(ctx context.Context, picked chan<- time.Time) error {
	for {
		d, err := r.claimOne(ctx)
		if err != nil {
			return err
		}
		at := time.Now()
		if err := r.settle(ctx, d); err != nil {
			return err
		}
		picked <- at // after the settle: the next publish meets an idle bus
	}
}

// withBacklog publishes on top of the backlog, and times claims there and on a queue that is empty but for one lane, by
// turns.
func (b *busBench) withBacklog(ctx context.Context) error {
	messages := b.load.spread(b.opts.Messages)
	err := timed(len(messages), &b.backlogPublish, &b.backlogCPU,
		func() error { return b.backlog.publish(ctx, messages, b.opts.Publishers) })
	if err != nil {
		return err
	}
	return b.onEmpty(ctx, func(empty *rig) error {
		var onEmpty, onBacklog latencies
		for range min(claimPairs, b.opts.Messages) {
			if err := empty.publishOne(ctx, b.load.message(0)); err != nil {
				return err
			}
			for _, q := range []struct {
				rig  *rig
				took *latencies
			}{{empty, &onEmpty}, {b.backlog, &onBacklog}} {
				took, err := q.rig.timeClaim(ctx)
				if err != nil {
					return err
				}
				*q.took = append(*q.took, took)
			}
		}
		b.emptyClaim, b.backlogClaim = append(b.emptyClaim, onEmpty.quantile(0.5)),
			append(b.backlogClaim, onBacklog.quantile(0.5))
		return nil
	})
}

// timeClaim times the claim of one ready lane, its commit included, and settles it afterwards.
func (r *rig) timeClaim(ctx context.Context) (time.Duration, error) {
	started := time.Now()
	d, err := r.claimOne(ctx)
	took := time.Since(started)
	if err != nil {
		return 0, err
	}
	return took, r.settle(ctx, d)
}
