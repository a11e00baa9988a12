package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
)

const (
	fillBatch = 1_000 // messages of a commit
	fillers   = 2     // one makes a batch while the other's is written
	fillSteps = 10    // after each of which the progress is told
	mostHeld  = 100   // chats that are leased or back off
	// bytes of the database for a message that waits, beside its text: rows, indexes, spare room in pages
	perMessage = 1_024
	spareBytes = 256 << 20
)

// backlogBytes is about what a backlog and the databases beside it need on disk.
func (o BusOptions) backlogBytes() int64 {
	return int64(o.Backlog)*int64(o.Bytes+perMessage) + spareBytes
}

// held is how many chats of the backlog are leased or back off: never so many that no other is left.
func (o BusOptions) held() int { return min(mostHeld, o.Chats/2) }

// memory is the resident memory on the way to the whole backlog; nil where the system does not say.
type memory struct{ empty, tenth, whole Series }

// fill publishes the backlog in batches through the store. It notes the resident memory before, at a tenth, and at the
// end. The caches are full at a tenth, and from there on the memory must not grow.
func (b *busBench) fill(ctx context.Context) error {
	b.memory.empty = resident()
	for step := range fillSteps {
		first, last := b.opts.Backlog*step/fillSteps, b.opts.Backlog*(step+1)/fillSteps
		if err := b.fillPart(ctx, first, last); err != nil {
			return fmt.Errorf("fill the backlog: %w", err)
		}
		if step == 0 {
			b.memory.tenth = resident()
		}
		b.tell("backlog: %s of %s messages wait", grouped(int64(last)), grouped(int64(b.opts.Backlog)))
	}
	b.memory.whole = resident()
	return b.hold(ctx)
}

func resident() Series {
	if n, known := residentBytes(); known {
		return Series{n}
	}
	return nil
}

func (b *busBench) fillPart(ctx context.Context, first, last int) error {
	var next atomic.Int64
	next.Store(int64(first))
	return crowd(ctx, fillers, func(ctx context.Context) error {
		for ctx.Err() == nil {
			from := int(next.Add(fillBatch)) - fillBatch
			if from >= last {
				return nil
			}
			receipts, err := b.backlog.queue.Publish(ctx, b.load.lopsided(from, min(from+fillBatch, last)), lifted)
			if err != nil {
				return err
			}
			for _, r := range receipts {
				if r.Err != nil || r.Duplicate {
					return fmt.Errorf("a new message is not accepted: duplicate %v, %w", r.Duplicate, r.Err)
				}
			}
		}
		return nil
	})
}

// hold leases chats of the backlog, and lets every second of them back off. Never the hot one: its half of the backlog
// must stay in play.
func (b *busBench) hold(ctx context.Context) error {
	for n := 0; n < b.opts.held(); {
		d, err := b.backlog.claimOne(ctx)
		if err != nil {
			return err
		}
		switch {
		case d.Message.Key.Chat == chatName(hot):
			err = b.backlog.settle(ctx, d)
		case n%2 == 1:
			n++
			err = b.backlog.end(ctx, d, corebot.Outcome{
				Verb: corebot.RetryAt, At: time.Now().Add(lease),
				Error: "held back",
			})
		default:
			n++
		}
		if err != nil {
			return err
		}
	}
	return nil
}
