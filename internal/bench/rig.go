package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/storage"
)

// lifted are limits that no workload meets: the default ones would turn away the second half of a backlog that waits in
// one chat. A limit of zero would mean none, but all zero means the defaults.
var lifted = corebot.Limits{LaneDepth: math.MaxInt64}

// unnoticed is a rate of senders that is counted and never delays.
var unnoticed = corebot.Rate{Every: time.Millisecond, Burst: math.MaxInt32}

// lease is longer than any measurement: nobody extends here, and lanes that are held stay held.
const lease = time.Hour

// rig is a bus over a database of its own, with a running writer.
type rig struct {
	dir   string
	db    *storage.DB
	queue *storage.Queue // for filling in batches; whatever is measured passes the bus
	bus   *bus.Bus
	stop  func() error
}

// openRig makes a rig in a new directory below parent. With turns, they are shared fairly between senders.
func openRig(ctx context.Context, parent string, turns int) (_ *rig, err error) {
	dir, err := os.MkdirTemp(parent, "bus-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for a database: %w", err)
	}
	registry := prometheus.NewRegistry() // keeping the figures is part of the cost
	r := &rig{dir: dir, stop: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.db, err = storage.Open(ctx, dir, storage.Options{Metrics: registry}); err != nil {
		return nil, fmt.Errorf("open a database: %w", err)
	}
	r.queue = storage.NewQueue(r.db)
	if r.bus, err = bus.New(r.queue, bus.Options{
		Limits: lifted, Lease: lease, Turns: turns, SenderRate: unnoticed,
		Metrics: registry,
	}); err != nil {
		return nil, err
	}
	r.stop = background(r.db.Run)
	return r, nil
}

// background runs fn until stop is called, which waits for its end. fn outlives the context of the measurement: what it
// does for others has to end first.
func background(fn func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fn(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// close stops the writer and removes the database.
func (r *rig) close() error {
	err := r.stop()
	if r.db != nil {
		err = errors.Join(err, r.db.Close())
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// crowd runs do in n goroutines, ends all of them at the first error, and returns that error.
func crowd(ctx context.Context, n int, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := do(ctx); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// publish sends the messages through so many publishers at once, each message by itself.
func (r *rig) publish(ctx context.Context, messages []corebot.Message, publishers int) error {
	var next atomic.Int64
	return crowd(ctx, publishers, func(ctx context.Context) error {
		for ctx.Err() == nil {
			i := next.Add(1) - 1
			if i >= int64(len(messages)) {
				return nil
			}
			if err := r.publishOne(ctx, messages[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *rig) publishOne(ctx context.Context, m corebot.Message) error {
	receipt, err := r.bus.Publish(ctx, m)
	if err != nil {
		return fmt.Errorf("publish %s: %w", m.ID, err)
	}
	if receipt.Duplicate {
		return fmt.Errorf("publish %s: a new message is taken for a duplicate", m.ID)
	}
	return nil
}

// errSettled ends the claims that wait when there is nothing left to wait for.
var errSettled = errors.New("everything is settled")

// consume claims and settles with so many consumers at once, each one lane at a time as the router does, until n
// messages are settled. No more than n may be there: a consumer that has claimed one of them when the others are done
// is interrupted.
func (r *rig) consume(ctx context.Context, n, consumers int) error {
	var left atomic.Int64
	left.Store(int64(n))
	err := crowd(ctx, consumers, func(ctx context.Context) error {
		var next []corebot.Delivery
		for {
			if len(next) == 0 {
				d, err := r.claimOne(ctx)
				if err != nil {
					return err
				}
				next = append(next, d)
			}
			d := next[0]
			var err error
			if next, err = r.settleAndClaim(ctx, d); err != nil {
				return err
			}
			if left.Add(-1) == 0 {
				return errSettled
			}
		}
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// exchange publishes and consumes at once, until the last settle. An error on one side ends the other, which has
// nothing left to wait for.
func (r *rig) exchange(ctx context.Context, messages []corebot.Message, publishers, consumers int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	consumed := make(chan error, 1)
	go func() {
		err := r.consume(ctx, len(messages), consumers)
		if err != nil {
			cancel(err)
		}
		consumed <- err
	}()
	published := r.publish(ctx, messages, publishers)
	if published != nil {
		cancel(published)
	}
	return cmp.Or(published, <-consumed)
}

func (r *rig) claimOne(ctx context.Context) (corebot.Delivery, error) {
	ds, err := r.bus.Claim(ctx, corebot.InboundPool, 1)
	if err != nil {
		return corebot.Delivery{}, fmt.Errorf("claim: %w", err)
	}
	return ds[0], nil
}

func (r *rig) settle(ctx context.Context, d corebot.Delivery) error {
	return r.end(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered})
}

// settleAndClaim also claims the next message in the same commit, if one is ready.
func (r *rig) settleAndClaim(ctx context.Context, d corebot.Delivery) ([]corebot.Delivery, error) {
	next, err := r.bus.SettleAndClaim(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		r.bus.Next(corebot.InboundPool, 1))
	if err != nil {
		return nil, fmt.Errorf("settle %s: %w", d.Message.ID, err)
	}
	return next, nil
}

func (r *rig) end(ctx context.Context, d corebot.Delivery, o corebot.Outcome) error {
	if err := r.bus.Settle(ctx, d, o); err != nil {
		return fmt.Errorf("settle %s: %w", d.Message.ID, err)
	}
	return nil
}
