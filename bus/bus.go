package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/trace"
)

// Store is the part of storage that the bus needs. Every method is one transaction.
type Store interface {
	Publish(ctx context.Context, messages []corebot.Message, lim corebot.Limits) ([]corebot.Receipt, error)
	Receive(ctx context.Context, b corebot.Batch, lim corebot.Limits) ([]corebot.Receipt, corebot.Cursor, error)
	Cursor(ctx context.Context, channel, account string) (corebot.Cursor, error)
	Claim(ctx context.Context, pool corebot.Pool, max int, opts corebot.ClaimOptions) ([]corebot.Delivery, error)
	Extend(ctx context.Context, leases []corebot.Lease, until time.Time) (lost []corebot.Lease, err error)
	Settle(ctx context.Context, d corebot.Delivery, o corebot.Outcome) error
	// SettleAndClaim is Settle. In the same commit it makes the next claim, which gets what is ready and waits for
	// nothing. With an error, next got nothing.
	SettleAndClaim(ctx context.Context, d corebot.Delivery, o corebot.Outcome, next corebot.Claim) ([]corebot.Delivery,
		error)
}

// Options are the numbers of the bus. Zero values mean the defaults.
type Options struct {
	Lease       time.Duration // how long a claim lasts unless it is extended; 30 s
	MaxAttempts int           // counted attempts before a message is a dead letter; 8, about two minutes of trouble
	// LimitPatience is how long rate limits use up no attempts of a message, counted from its first rate limit. The
	// default is 1 h. A negative value means that rate limits always use up attempts.
	LimitPatience time.Duration
	// MaxLost is how many leases a message loses in a row without progress before it is poison. The last loss happens
	// in quarantine. The default is 3.
	MaxLost     int
	BackoffBase time.Duration // 2 s
	BackoffMax  time.Duration // 5 min
	MaxBytes    int           // of one message's content; 1 MiB
	Limits      corebot.Limits
	Rate        corebot.Rate // of new inbound messages in each chat; none by default
	// Turns is how many inbound claims can be held at once, shared fairly between senders. 0: first come, first served.
	Turns      int
	SenderRate corebot.Rate          // of one sender's new messages, in all chats; only with Turns; none by default
	Metrics    prometheus.Registerer // nil: the metrics are kept and not exported
	Tracer     *trace.Tracer         // nil: nothing is traced
	// Offered is told of each inbound message that the store was asked to take. The store needed the time of the first
	// argument. The second says that there was no room, or that the store failed. Nil: nobody is told.
	Offered func(took time.Duration, refused bool)
}

// DefaultLimitPatience is the default of Options.LimitPatience.
const DefaultLimitPatience = time.Hour

// Default limits of the queue.
const (
	DefaultLaneDepth  = 1_000
	DefaultTotalDepth = 2_000_000
	DefaultTotalBytes = 4 << 30
	DefaultMaxBytes   = 1 << 20
)

func (o Options) withDefaults() Options {
	o.Lease = cmp.Or(o.Lease, 30*time.Second)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 8)
	o.MaxLost = cmp.Or(o.MaxLost, 3)
	o.LimitPatience = cmp.Or(o.LimitPatience, DefaultLimitPatience)
	o.BackoffBase = cmp.Or(o.BackoffBase, 2*time.Second)
	o.BackoffMax = cmp.Or(o.BackoffMax, 5*time.Minute)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	o.Limits = cmp.Or(o.Limits, corebot.Limits{
		LaneDepth: DefaultLaneDepth, TotalDepth: DefaultTotalDepth,
		TotalBytes: DefaultTotalBytes,
	})
	return o
}

// Bus applies the rules to a store.
type Bus struct {
	store   Store
	opts    Options
	backoff backoff.Policy
	metrics *metrics
}

// New makes a bus of a store and options. It refuses negative numbers.
func New(store Store, o Options) (*Bus, error) {
	if o.Lease < 0 || o.MaxAttempts < 0 || o.MaxLost < 0 || o.BackoffBase < 0 || o.BackoffMax < 0 || o.MaxBytes < 0 ||
		o.Rate.Every < 0 || o.Rate.Burst < 0 || o.Turns < 0 || o.SenderRate.Every < 0 || o.SenderRate.Burst < 0 {
		return nil, fmt.Errorf("%w: a number of the bus is negative: %+v", corebot.ErrInvalid, o)
	}
	o = o.withDefaults()
	if o.BackoffBase > o.BackoffMax {
		return nil, fmt.Errorf("%w: bus.backoff_base (%v) is over bus.backoff_max (%v)", corebot.ErrInvalid,
			o.BackoffBase, o.BackoffMax)
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	return &Bus{store: store, opts: o, backoff: backoff.Policy{Base: o.BackoffBase, Max: o.BackoffMax}, metrics: m}, nil
}

// Publish accepts one message. It returns the receipt after the fsync. If it refuses the message, nothing was stored,
// and the error is [corebot.ErrInvalid], [corebot.ErrTooLarge], [corebot.ErrConflict], [corebot.ErrLaneFull],
// [corebot.ErrOverloaded] or [corebot.ErrDiskFull]. After [corebot.ErrCommitUnknown] the message may be stored or not:
// publish the same id again.
func (b *Bus) Publish(ctx context.Context, m corebot.Message) (corebot.Receipt, error) {
	if m.Direction != corebot.Inbound && m.Direction != corebot.Outbound {
		return corebot.Receipt{}, fmt.Errorf("%w: the bus has no lanes for direction %v", corebot.ErrInvalid,
			m.Direction)
	}
	if err := m.Validate(b.opts.MaxBytes); err != nil {
		b.metrics.received(m.Direction, corebot.Receipt{Err: err})
		return corebot.Receipt{}, err
	}
	span := b.opts.Tracer.Publish(&m)
	began := time.Now()
	receipts, err := b.store.Publish(ctx, []corebot.Message{m}, b.opts.Limits)
	if err != nil {
		receipts = []corebot.Receipt{{Err: err}}
	}
	b.metrics.received(m.Direction, receipts[0])
	published(span, &receipts[0])
	b.offered(m.Direction, time.Since(began), receipts[0].Err)
	if err := receipts[0].Err; err != nil {
		return corebot.Receipt{}, err
	}
	return receipts[0], nil
}

// Receive accepts the messages of a batch and moves the cursor of their account, in one commit. It returns a receipt
// for each message, and the cursor for the next batch. A message that is refused for good has its error in its receipt;
// so has a message whose chat or sender has too many waiting messages. Neither holds the cursor back.
//
// If Receive returns an error, nothing was stored and the cursor stays: [corebot.ErrOverloaded], [corebot.ErrDiskFull],
// [corebot.ErrCursorMoved], or an error of the store. After [corebot.ErrCommitUnknown] the whole batch may be stored or
// not: receive the same batch again.
func (b *Bus) Receive(ctx context.Context, batch corebot.Batch) ([]corebot.Receipt, corebot.Cursor, error) {
	if err := batch.Validate(); err != nil {
		return nil, corebot.Cursor{}, err
	}
	receipts := make([]corebot.Receipt, len(batch.Messages))
	fit, places := batch, []int(nil)
	fit.Messages = nil
	for i, m := range batch.Messages {
		if m.Direction != corebot.Inbound {
			return nil, corebot.Cursor{}, fmt.Errorf("%w: a channel receives no message of direction %v",
				corebot.ErrInvalid, m.Direction)
		}
		if receipts[i].Err = m.Validate(b.opts.MaxBytes); receipts[i].Err == nil {
			fit.Messages, places = append(fit.Messages, m), append(places, i)
		}
	}
	spans := b.trace(fit.Messages)
	began := time.Now()
	stored, next, err := b.store.Receive(ctx, fit, b.opts.Limits)
	for i := range fit.Messages {
		r := &corebot.Receipt{Err: err}
		if err == nil {
			r = &stored[i]
		}
		b.offered(corebot.Inbound, time.Since(began), r.Err)
		if spans != nil {
			published(spans[i], r)
		}
	}
	if err != nil {
		return nil, corebot.Cursor{}, err
	}
	for i, place := range places {
		receipts[place] = stored[i]
	}
	for _, r := range receipts {
		b.metrics.received(corebot.Inbound, r)
	}
	return receipts, next, nil
}

// trace begins the spans of a batch; nil where nothing is traced.
func (b *Bus) trace(messages []corebot.Message) []*trace.Span {
	if b.opts.Tracer == nil {
		return nil
	}
	spans := make([]*trace.Span, len(messages))
	for i := range messages {
		spans[i] = b.opts.Tracer.Publish(&messages[i])
	}
	return spans
}

// published ends the span of a message that was offered, and notes it in the receipt.
func published(s *trace.Span, r *corebot.Receipt) {
	r.Trace = s.At()
	if !s.Recorded() {
		return
	}
	what := result(*r)
	if s.Text("corebot.result", what); r.Err != nil {
		s.Fail(what)
	}
	s.End()
}

// offered tells of an inbound message that the store was asked to take. A sender of an
// invalid message, or one with too much waiting, is told so; his error says nothing of the bus.
func (b *Bus) offered(d corebot.Direction, took time.Duration, err error) {
	if b.opts.Offered == nil || d != corebot.Inbound {
		return
	}
	for _, own := range []error{
		corebot.ErrInvalid, corebot.ErrTooLarge, corebot.ErrConflict, corebot.ErrLaneFull, corebot.ErrCommandRate,
		context.Canceled,
	} {
		if errors.Is(err, own) {
			return
		}
	}
	b.opts.Offered(took, err != nil)
}

// Cursor is how far an account of a channel has received.
func (b *Bus) Cursor(ctx context.Context, channel, account string) (corebot.Cursor, error) {
	return b.store.Cursor(ctx, channel, account)
}

// Claim waits for work in a pool and leases up to max of its lanes.
func (b *Bus) Claim(ctx context.Context, pool corebot.Pool, max int) ([]corebot.Delivery, error) {
	return b.store.Claim(ctx, pool, max, b.Next(pool, max).Options)
}

// Next is the claim for up to max lanes of a pool, to be made with the end of another claim.
func (b *Bus) Next(pool corebot.Pool, max int) corebot.Claim {
	opts := corebot.ClaimOptions{Lease: b.opts.Lease, Quarantine: b.opts.MaxLost - 1}
	if pool == corebot.InboundPool {
		opts.Rate, opts.Turns, opts.Sender, opts.Owner = b.opts.Rate, b.opts.Turns, b.opts.SenderRate,
			b.opts.Limits.Owner
	}
	return corebot.Claim{Pool: pool, Max: max, Options: opts}
}

// Lease is how long a claim lasts. A worker extends its lease three times in that time.
func (b *Bus) Lease() time.Duration { return b.opts.Lease }

// Extend prolongs leases by one lease time from now. It returns the leases that are lost.
func (b *Bus) Extend(ctx context.Context, leases []corebot.Lease) (lost []corebot.Lease, err error) {
	lost, err = b.store.Extend(ctx, leases, time.Now().Add(b.opts.Lease))
	b.metrics.lost.Add(float64(len(lost)))
	return lost, err
}

// Settle ends a claim that has nothing to commit beside its outcome.
func (b *Bus) Settle(ctx context.Context, d corebot.Delivery, o corebot.Outcome) error {
	err := b.store.Settle(ctx, d, o)
	if err == nil {
		b.Settled(d, o)
	}
	return err
}

// SettleAndClaim is Settle, and in the same commit makes a claim of [Bus.Next]. The claim gets what is ready, behind
// the claims that wait. It waits for nothing.
func (b *Bus) SettleAndClaim(ctx context.Context, d corebot.Delivery, o corebot.Outcome,
	next corebot.Claim,
) ([]corebot.Delivery, error) {
	ds, err := b.store.SettleAndClaim(ctx, d, o, next)
	if err == nil {
		b.Settled(d, o)
	}
	return ds, err
}

// Settled counts an outcome in the metrics. Callers that commit an outcome in another way than Settle call it.
func (b *Bus) Settled(d corebot.Delivery, o corebot.Outcome) { b.metrics.settled(d, o) }
