package channels

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/fault"
)

// Queue is what the outbox needs of the bus.
type Queue interface {
	Claim(ctx context.Context, pool corebot.Pool, max int) ([]corebot.Delivery, error)
	Lease() time.Duration
	Extend(ctx context.Context, leases []corebot.Lease) (lost []corebot.Lease, err error)
	Unfit(d corebot.Delivery) (corebot.Outcome, bool)
	Verdict(d corebot.Delivery, err error) corebot.Outcome
	Settle(ctx context.Context, d corebot.Delivery, o corebot.Outcome) error
}

// Journal remembers which parts of a long message were sent.
type Journal interface {
	Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error
}

// OnAmbiguous says what happens to a message whose send was cut off, on a channel without idempotency keys.
type OnAmbiguous string

const (
	Resend OnAmbiguous = "resend" // the default: rather twice than not at all
	Hold   OnAmbiguous = "hold"   // a dead letter, for an operator to decide
)

// ReasonAmbiguous is why a held message is a dead letter.
const ReasonAmbiguous = "ambiguous"

// sendWorkers is how many chats of one channel are sent to at once.
const sendWorkers = 8

// sendTime is how long one Send may take at least, however short the leases are.
const sendTime = 30 * time.Second

// Outbox sends what waits for channels.
type Outbox struct {
	queue       Queue
	journal     Journal
	onAmbiguous OnAmbiguous
	log         zerolog.Logger
	sent        *prometheus.CounterVec
	ambiguous   *prometheus.CounterVec
}

// NewOutbox makes an outbox; it starts nothing.
func NewOutbox(q Queue, j Journal, on OnAmbiguous, log zerolog.Logger, r prometheus.Registerer) (*Outbox, error) {
	if on == "" {
		on = Resend
	}
	if on != Resend && on != Hold {
		return nil, fmt.Errorf("%w: on_ambiguous %q: want resend or hold", corebot.ErrInvalid, on)
	}
	o := &Outbox{
		queue: q, journal: j, onAmbiguous: on, log: log,
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_outbox_sends_total", Help: "Sends of outbound messages, by result: sent, failed, postponed.",
		}, []string{"channel", "result"}),
		ambiguous: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_outbox_ambiguous_total", Help: "Outbound messages that may have been sent before a crash, on a channel that cannot tell.",
		}, []string{"channel"}),
	}
	if r == nil {
		return o, nil
	}
	return o, errors.Join(r.Register(o.sent), r.Register(o.ambiguous))
}

// Run sends the messages of one channel until ctx ends. A Send that is under way then may still finish, within its own
// deadline; a message of many parts stops after the part that is being sent, and goes on there at the next start.
func (o *Outbox) Run(ctx context.Context, c Channel) error {
	var wg sync.WaitGroup
	for range sendWorkers {
		wg.Go(func() { o.loop(ctx, c) })
	}
	wg.Wait()
	return nil
}

func (o *Outbox) loop(ctx context.Context, c Channel) {
	pause := backoff.Policy{Base: 100 * time.Millisecond, Max: 10 * time.Second}
	for failures := 0; ctx.Err() == nil; {
		ds, err := o.queue.Claim(ctx, corebot.OutboundPool(c.Name()), 1)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, corebot.ErrClosed) {
				return
			}
			failures++
			o.log.Error().Err(err).Str("channel", c.Name()).Msg("claim")
			backoff.Sleep(ctx, pause.After(failures))
			continue
		}
		failures = 0
		for _, d := range ds {
			o.deliver(ctx, c, d)
		}
	}
}

// deliver sends one message and settles it.
func (o *Outbox) deliver(ctx context.Context, c Channel, d corebot.Delivery) {
	log := o.log.With().Str("channel", c.Name()).Str("chat", d.Message.Key.String()).Str("message_id", d.Message.ID).Logger()
	outcome := o.outcome(ctx, c, d)
	if err := o.settle(ctx, d, outcome); err != nil {
		log.Error().Err(err).Msg("a message was handled and could not be settled; it is handled again when its lease ends")
		return
	}
	switch outcome.Verb {
	case corebot.Dead:
		log.Error().Str("reason", outcome.Reason).Str("error", outcome.Error).Msg("an outbound message is a dead letter")
	case corebot.RetryAt:
		log.Warn().Str("error", outcome.Error).Time("again", outcome.At).Msg("send")
	}
}

// settleTries bounds how often a settle is tried.
const settleTries = 5

// settle ends the delivery. What was sent should not be sent again for a full disk, which takes a second or two to be helped.
func (o *Outbox) settle(ctx context.Context, d corebot.Delivery, outcome corebot.Outcome) (err error) {
	for n := 1; ; n++ {
		err = o.queue.Settle(context.WithoutCancel(ctx), d, outcome)
		if err == nil || n == settleTries || errors.Is(err, corebot.ErrLeaseLost) || errors.Is(err, corebot.ErrClosed) {
			return err
		}
		backoff.Sleep(ctx, time.Second)
	}
}

// outcome sends the message, unless it must not be sent.
func (o *Outbox) outcome(ctx context.Context, c Channel, d corebot.Delivery) corebot.Outcome {
	if out, unfit := o.queue.Unfit(d); unfit {
		return out
	}
	if d.Lost > 0 {
		if _, native := c.(Idempotent); !native {
			o.ambiguous.WithLabelValues(c.Name()).Inc()
			if o.onAmbiguous == Hold {
				return corebot.Outcome{Verb: corebot.Dead, Reason: ReasonAmbiguous, Error: "a crash cut off its send: it may have been sent"}
			}
		}
	}
	result, out := "sent", corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}
	kept, release := o.keep(ctx, d)
	err := o.send(ctx, kept, c, d)
	release()
	if err != nil {
		result, out = "failed", o.queue.Verdict(d, err)
		if out.Verb == corebot.Wait {
			result = "postponed"
		}
	}
	o.sent.WithLabelValues(c.Name(), result).Inc()
	return out
}

// keep extends the lease of a delivery, three times in a lease, until release is called: a Send that takes long is alive, and its
// message must not be claimed by another worker. The context that it returns survives ctx; it ends with [corebot.ErrLeaseLost]
// when another claim may have the message all the same.
func (o *Outbox) keep(ctx context.Context, d corebot.Delivery) (_ context.Context, release func()) {
	kept, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var beat sync.WaitGroup
	beat.Go(func() {
		tick := time.NewTicker(o.queue.Lease() / 3)
		defer tick.Stop()
		for {
			select {
			case <-kept.Done():
				return
			case <-tick.C:
			}
			lost, err := o.queue.Extend(kept, []corebot.Lease{d.Lease})
			if err != nil && kept.Err() == nil { // the lease may still be extended next time
				o.log.Error().Err(err).Str("chat", d.Message.Key.String()).Str("message_id", d.Message.ID).Msg("extend the lease of a send")
			}
			if len(lost) > 0 {
				cancel(corebot.ErrLeaseLost)
			}
		}
	})
	return kept, func() {
		cancel(nil)
		beat.Wait() // a lease that is settled already would be reported as lost
	}
}

// partID is the idempotency key of a part. It is the same in every run: a platform that has shown a part does not show it again for the
// replay of a dead letter.
func partID(m corebot.Message, i int) string { return corebot.Delivery{Message: m, Run: 1}.StepID(i) }

// send sends the parts that are still to be sent, while the lease is kept, and begins no further one when ctx has ended. Every part
// but the last is journaled; the last rides on the settle.
func (o *Outbox) send(ctx, kept context.Context, c Channel, d corebot.Delivery) error {
	parts := []string{d.Message.Text()}
	if s, ok := c.(Splitter); ok {
		parts = Split(parts[0], s.MaxMessageBytes())
	}
	for i := len(d.Journal); i < len(parts); i++ {
		if i > len(d.Journal) && ctx.Err() != nil {
			return corebot.ErrShutdown
		}
		m := d.Message
		m.Parts = corebot.TextPart(parts[i])
		if len(parts) > 1 {
			m.ID = partID(d.Message, i)
		}
		started := time.Now()
		fault.Point("send", "before")
		if err := o.sendOne(kept, c, m); err != nil {
			return err
		}
		fault.Point("send", "after")
		if i == len(parts)-1 {
			return nil
		}
		step := corebot.Step{Position: i, Kind: corebot.StepPart, State: corebot.StepDone, StartedAt: started, EndedAt: time.Now()}
		if err := o.journal.Record(kept, d, step); err != nil {
			return err
		}
	}
	return nil
}

// sendOne gives one Send its deadline. It turns a panic of a channel into this message's failure: the process must not die of it
// again and again.
func (o *Outbox) sendOne(ctx context.Context, c Channel, m corebot.Message) (err error) {
	ctx, cancel := context.WithTimeout(ctx, max(sendTime, o.queue.Lease()))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.Send(ctx, m)
}
