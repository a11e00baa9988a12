package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/trace"
	"github.com/corebot/corebot/internal/watchdog"
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

// Journal remembers which parts of a long message were sent, and where platforms have asked to wait.
type Journal interface {
	Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error
	FloodWaits(ctx context.Context, pool corebot.Pool) ([]corebot.FloodWait, error)
}

const (
	sendWorkers = 8                      // how many messages of one channel are begun at once
	handOver    = 100 * time.Millisecond // a send that takes longer goes on without its worker, which begins the next
	sendTime    = 30 * time.Second       // how long one Send may take at least, however short the leases are
)

// Outbox sends what waits for channels.
type Outbox struct {
	queue       Queue
	journal     Journal
	onAmbiguous OnAmbiguous
	log         zerolog.Logger
	tracer      *trace.Tracer
	sent        *prometheus.CounterVec
	ambiguous   *prometheus.CounterVec
	reconciled  *prometheus.CounterVec
	underWay    *prometheus.GaugeVec
	drafts      drafts
	claimed     watchdog.Steps[corebot.Lease] // that a worker has begun and not handed over
	sending     watchdog.Steps[corebot.Lease] // calls of Send
}

// Overdue names what the outbox, or a Send, should have finished by now; empty: nothing.
func (o *Outbox) Overdue() (mark string) {
	return cmp.Or(o.claimed.Overdue("a worker with lane and epoch"), o.sending.Overdue("a send of lane and epoch"))
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
		}, []string{"channel", "account", "result"}),
		ambiguous: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_outbox_ambiguous_total",
			Help: "Sends that were cut off and may have been shown, on a channel that cannot tell.",
		}, []string{"channel"}),
		reconciled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_outbox_reconciled_total",
			Help: "Sends of unknown end that a platform was asked about, by what it said: shown, missing.",
		}, []string{"channel", "result"}),
		underWay: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "corebot_outbox_sends_under_way", Help: "Sends of outbound messages that nobody has answered yet; " +
				"the accounts of a channel share 256 places.",
		}, []string{"channel"}),
	}
	if r == nil {
		return o, nil
	}
	return o, errors.Join(r.Register(o.sent), r.Register(o.ambiguous), r.Register(o.reconciled),
		r.Register(o.underWay))
}

// Trace has the sends of a later Run traced.
func (o *Outbox) Trace(t *trace.Tracer) { o.tracer = t }

// Run sends the messages of some accounts of one kind until ctx ends. A Send that is under way then can still finish,
// within its own deadline. A message of many parts stops after the part that is being sent, and goes on there at the
// next start.
func (o *Outbox) Run(ctx context.Context, first Entry, others ...Entry) error {
	accounts := []*watched{watch(first)}
	for _, e := range others {
		if e.Kind != first.Kind {
			return fmt.Errorf("%w: one outbox for channels of the kinds %s and %s", corebot.ErrInvalid, first.Kind,
				e.Kind)
		}
		accounts = append(accounts, watch(e))
	}
	o.run(ctx, first.Kind, accounts)
	return nil
}

// show exports the series of a kind from the start. The messages of a pulled account are in the mailbox with the commit
// that causes them, so that only one result of their sends is expected.
func (o *Outbox) show(kind string, accounts []*watched) {
	for _, e := range accounts {
		results := []string{"sent", "failed", "postponed"}
		if p, is := e.Channel.(Pulled); is && p.Pulled() {
			results = results[:1]
		} else {
			o.underWay.WithLabelValues(kind)
			o.ambiguous.WithLabelValues(kind)
		}
		for _, result := range results {
			o.sent.WithLabelValues(kind, e.Name, result)
		}
	}
}

// run sends for all accounts of a kind.
func (o *Outbox) run(ctx context.Context, kind string, accounts []*watched) {
	o.show(kind, accounts)
	r := &run{Outbox: o, kind: kind, accounts: map[string]*watched{}, places: newPlaces()}
	r.doubts = newDoubts(time.Now())
	for _, e := range accounts {
		r.accounts[e.Name] = e
		r.known(e.Channel)
	}
	r.recall(ctx)
	var workers sync.WaitGroup
	for range sendWorkers {
		workers.Go(func() { r.loop(ctx) })
	}
	workers.Wait()
	r.sends.Wait()
}

// run is the outbox of one kind of channel at work.
type run struct {
	*Outbox
	kind     string
	accounts map[string]*watched // by name
	places   *places
	doubts   *doubts
	sends    sync.WaitGroup
}

// absent is how long a message waits whose account this process does not serve. Another process tries at once.
const absent = time.Minute

func (r *run) loop(ctx context.Context) {
	pause := backoff.Policy{Base: 100 * time.Millisecond, Max: 10 * time.Second}
	for failures := 0; ctx.Err() == nil; {
		ds, err := r.queue.Claim(ctx, corebot.OutboundPool(r.kind), 1)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, corebot.ErrClosed) {
				return
			}
			failures++
			r.log.Error().Err(err).Str("channel", r.kind).Msg("claim")
			backoff.Sleep(ctx, pause.After(failures))
			continue
		}
		failures = 0
		for _, d := range ds {
			r.claimed.Begin(d.Lease, time.Now())
			fault.Point("outbox", "claimed")
			r.begin(ctx, d)
			r.claimed.End(d.Lease)
		}
	}
}

// recall closes the gates that an earlier process left closed.
func (r *run) recall(ctx context.Context) {
	waits, err := r.journal.FloodWaits(ctx, corebot.OutboundPool(r.kind))
	if err != nil && ctx.Err() == nil {
		r.log.Error().Err(err).Str("channel", r.kind).Msg("it is not known where the platform has asked to wait")
	}
	for _, w := range waits {
		if e := r.accounts[w.Account]; e != nil {
			e.gate.close(&e.gate.closed, w.Chat, w.Until, time.Now())
		}
	}
}

// begin delivers one message and returns when that is done, or after a moment. A chat that answers late, or never, must
// not keep the worker from the next message. The worker does not wait at all for a chat that failed lately.
func (r *run) begin(ctx context.Context, d corebot.Delivery) {
	e := r.accounts[d.Message.Key.Account]
	if e == nil {
		r.deliver(ctx, d, func() corebot.Outcome {
			return corebot.Outcome{
				Verb: corebot.Wait, At: time.Now().Add(absent), Reason: corebot.NotNow,
				Error: fmt.Sprintf("the settings of the running Corebot have no account %q of %s",
					d.Message.Key.Account, r.kind),
			}
		})
		return
	}
	if opens := e.gate.opens(d.Message.Key.Chat, time.Now()); !opens.IsZero() {
		r.deliver(ctx, d, func() corebot.Outcome { return r.postpone(d, opens, corebot.Flooded) })
		return
	}
	s, again := r.places.take(d, max(sendTime, r.queue.Lease()), time.Now())
	if s == nil {
		r.deliver(ctx, d, func() corebot.Outcome { return r.postpone(d, again, corebot.Crowded) })
		return
	}
	done := make(chan struct{})
	under := r.underWay.WithLabelValues(r.kind)
	under.Inc()
	r.sends.Go(func() {
		defer close(done)
		defer under.Dec()
		defer s.end()
		r.deliver(ctx, d, func() corebot.Outcome { return r.send(ctx, s, d) })
	})
	if s.failing {
		return
	}
	moment := time.NewTimer(handOver)
	defer moment.Stop()
	select {
	case <-done:
	case <-moment.C:
	}
}

// deliver settles one message by what send says, unless it must not be sent.
func (r *run) deliver(ctx context.Context, d corebot.Delivery, send func() corebot.Outcome) {
	log := r.log.With().Str("channel", r.kind).Str("account", d.Message.Key.Account).Str("chat",
		d.Message.Key.String()).Str("message_id", d.Message.ID).Logger()
	r.doubts.about(d, time.Now())
	if t := d.Message.Trace; t.Sampled {
		log = log.With().Str("trace_id", t.IDText()).Logger()
	}
	outcome, unsent := r.unsendable(ctx, d)
	if !unsent {
		outcome = send()
	}
	e, edits := r.channelOf(d).(Editor)
	took := func() {}
	if edits && r.drafts.store != nil && outcome.Verb == corebot.Dead && outcome.Reason != ReasonAmbiguous &&
		len(d.Journal) == 0 { // nothing of it is shown, as far as is known
		took = r.drafts.dies(context.WithoutCancel(ctx), e, d.Message)
	}
	err := r.settle(ctx, d, outcome)
	if outcome.Verb == corebot.Dead {
		fault.Point("outbox", "dead")
	}
	took()
	if err != nil {
		log.Error().Err(err).Msg(
			"a message was handled and could not be settled; it is handled again when its lease ends")
		return
	}
	r.doubts.settled(d, outcome)
	if r.drafts.store != nil && outcome.Verb == corebot.Done {
		r.drafts.settled(context.WithoutCancel(ctx), r.channelOf(d), d.Message)
	}
	switch outcome.Verb {
	case corebot.Dead:
		log.Error().Str("reason", outcome.Reason).Str("error",
			outcome.Error).Msg("an outbound message is a dead letter")
	case corebot.Wait:
		e := r.accounts[d.Message.Key.Account]
		_, attended := r.channelOf(d).(Attended)
		if outcome.Error != "" && e != nil && !attended && e.tells(outcome.Error, time.Now()) {
			log.Warn().Str("error", outcome.Error).Time("again", outcome.At).Msg(
				"a message waits; it uses up no attempt")
		}
	case corebot.RetryAt:
		log.Warn().Str("error", outcome.Error).Time("again", outcome.At).Msg("send")
	}
}

// settleTries bounds how often a settle is tried.
const settleTries = 5

// settle ends the delivery. A sent message should not be sent again because of a full disk, which gets room within a
// second or two.
func (o *Outbox) settle(ctx context.Context, d corebot.Delivery, outcome corebot.Outcome) (err error) {
	maybeDone := false
	for n := 1; ; n++ {
		err = o.queue.Settle(context.WithoutCancel(ctx), d, outcome)
		if errors.Is(err, corebot.ErrSettled) && maybeDone {
			return nil // by the earlier try, whose outcome was unknown
		}
		maybeDone = maybeDone || errors.Is(err, corebot.ErrCommitUnknown)
		if err == nil || n == settleTries || errors.Is(err, corebot.ErrLeaseLost) || errors.Is(err, corebot.ErrClosed) {
			return err
		}
		backoff.Sleep(ctx, time.Second)
	}
}

// unsendable says whether a message must not be sent, and how it ends then.
func (r *run) unsendable(ctx context.Context, d corebot.Delivery) (corebot.Outcome, bool) {
	if out, unfit := r.queue.Unfit(d); unfit {
		return out, true
	}
	if _, known := resumeAt(d, r.channelOf(d)); !known { // nor do the parts have the ids that they had then
		return r.mayBeShown(d, "an earlier version of Corebot has sent a part of it and did not note how much")
	}
	if d.Lost > 0 && !r.idempotent(d) && !r.editing(ctx, d) {
		return r.mayBeShown(d, "a crash cut off its send: it may have been sent")
	}
	return corebot.Outcome{}, false
}

// channelOf is the channel that sends a message; nil: this process does not serve its account.
func (r *run) channelOf(d corebot.Delivery) Channel {
	if e := r.accounts[d.Message.Key.Account]; e != nil {
		return e.Channel
	}
	return nil
}

// labels are the kind and the account of a message, as metrics name them.
func (r *run) labels(d corebot.Delivery) []string { return []string{r.kind, d.Message.Key.Account} }

// postpone has a message wait that finds no place, or a closed gate. That counts no attempt.
func (r *run) postpone(d corebot.Delivery, again time.Time, why string) corebot.Outcome {
	r.sent.WithLabelValues(append(r.labels(d), "postponed")...).Inc()
	return corebot.Outcome{Verb: corebot.Wait, At: again, Reason: why}
}

// send sends one message and says what becomes of it.
func (r *run) send(ctx context.Context, s *send, d corebot.Delivery) corebot.Outcome {
	result, out := "sent", corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}
	r.tracer.Claim(&d)
	span := r.tracer.Work(trace.Producer, "send", d)
	kept, release := r.keep(trace.With(ctx, span), d)
	last, err := r.sendPieces(ctx, kept, s, d)
	release()
	out.Last = last
	if err != nil {
		result, out = "failed", r.verdict(d, err)
		if out.Verb == corebot.Wait {
			result = "postponed"
		}
	}
	e := r.accounts[d.Message.Key.Account]
	e.gate.refused(d.Message.Key.Chat, err, time.Now())
	if out.Verb != corebot.Wait { // which is of the process, not of the chat
		s.judge(err != nil)
		e.noted(err)
	}
	r.sent.WithLabelValues(append(r.labels(d), result)...).Inc()
	if span.Text("corebot.result", result); err != nil {
		span.Fail(cmp.Or(out.Class, result))
	}
	span.End()
	return out
}

// keep extends the lease of a delivery, three times in a lease, until release is called. So no other worker claims the
// message of a Send that takes long. The context that it returns survives ctx; it ends with [corebot.ErrLeaseLost] when
// another claim may have the message all the same.
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
				o.log.Error().Err(err).Str("chat", d.Message.Key.String()).Str("message_id",
					d.Message.ID).Msg("extend the lease of a send")
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
