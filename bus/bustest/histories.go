package bustest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/corebot/corebot"
)

func historySpecs() []spec {
	return []spec{
		{
			"what publishers, workers, heartbeats and stale workers see at once of a lane has an order",
			historiesAreLinearizable,
		},
	}
}

// recorder notes calls and returns in the order in which they happen. A counter serves as its clock, because the
// virtual clock stands still.
type recorder struct {
	clock   atomic.Int64
	mu      sync.Mutex
	history map[string][]porcupine.Operation // by chat

	stale []corebot.Delivery
	left  int // messages that have not ended
}

func (r *recorder) add(chat string, client int, call int64, input, output any) {
	returned := r.clock.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history[chat] = append(r.history[chat], porcupine.Operation{
		ClientId: client, Input: input, Call: call,
		Output: output, Return: returned,
	})
}

// claimed notes the answer of a claim. The count of lost leases tells that the lane had been leased before.
func (r *recorder) claimed(client int, call int64, d corebot.Delivery) {
	r.add(d.Message.Key.Chat, client, call, claimCall{}, claimAnswer{
		id: d.Message.ID, text: d.Message.Text(), epoch: d.Epoch, attempt: d.Attempt,
		at: d.ClaimedAt.UnixMilli(), expires: d.ExpiresAt.UnixMilli(), runsAfterLease: d.Lost > 0,
	})
}

// strand keeps the claim of a worker that was silent until its lease expired.
func (r *recorder) strand(d corebot.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = append(r.stale, d)
}

func (r *recorder) stranded() (corebot.Delivery, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stale) == 0 {
		return corebot.Delivery{}, false
	}
	return r.stale[rand.IntN(len(r.stale))], true
}

// ended counts a message that is done, and says whether it was the last message.
func (r *recorder) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left--
	return r.left == 0
}

const (
	historyChats   = 4
	historyEach    = 40 // messages of a chat
	historyWorkers = 6
)

func historiesAreLinearizable(s *suite) {
	// Quarantine is off, because it raises the epoch of a lane without a claim. Other chapters test it.
	options := s.opts
	options.MaxLost = 1 << 30
	s.reopenWith(options)
	r := &recorder{history: map[string][]porcupine.Operation{}, left: historyChats * historyEach}
	// a claim that nobody wakes is an error, not a test that hangs
	ctx, stop := context.WithTimeout(s.t.Context(), 24*time.Hour)
	defer stop()
	var all sync.WaitGroup
	for c := range historyChats {
		ids := make(chan string, historyEach)
		for i := range historyEach {
			ids <- fmt.Sprintf("%d-%02d", c, i)
		}
		close(ids)
		for p := range 2 {
			all.Go(func() { s.publishRecorded(r, 100+2*c+p, fmt.Sprint(c), ids) })
		}
	}
	for w := range historyWorkers {
		all.Go(func() { s.workRecorded(ctx, stop, r, w) })
	}
	all.Wait()
	stolen, refused := 0, 0
	for chat, history := range r.history {
		for _, o := range history {
			if a, ok := o.Output.(claimAnswer); ok && a.runsAfterLease {
				stolen++
			} else if o.Output == held(false) {
				refused++
			}
		}
		if got := linearizable(history); got != porcupine.Ok {
			s.t.Errorf("the %d operations of chat %s have no order that a lane allows: %s", len(history), chat, got)
		}
	}
	if stolen == 0 || refused == 0 {
		s.t.Errorf("%d leases passed to another, %d stale workers were refused: the test proves nothing", stolen,
			refused)
	}
}

// publishRecorded offers each message once or more, and some ids with another text.
func (s *suite) publishRecorded(r *recorder, client int, chat string, ids <-chan string) {
	for id := range ids {
		for range 1 + rand.IntN(3) {
			m := prompt(chat, id)
			if rand.IntN(5) == 0 {
				m.Parts = corebot.TextPart("another text of " + id)
			}
			call, at := r.clock.Add(1), nowMS()
			got, err := s.bus.Publish(s.t.Context(), m)
			answer := accepted
			switch {
			case errors.Is(err, corebot.ErrConflict):
				answer = conflict
			case err != nil:
				s.t.Errorf("publish %s: %v", id, err)
				return
			case got.Duplicate:
				answer = duplicate
			}
			r.add(chat, client, call, publishCall{id, m.Text(), at}, answer)
		}
		if rand.IntN(4) == 0 {
			time.Sleep(rand.N(2 * time.Second))
		}
	}
}

// workRecorded claims messages and does with each claim what workers do: settle, extend, or come too late.
func (s *suite) workRecorded(ctx context.Context, stop func(), r *recorder, client int) {
	for {
		call := r.clock.Add(1)
		ds, err := s.bus.Claim(ctx, corebot.InboundPool, 1+rand.IntN(2))
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				s.t.Errorf("claim: %v", err)
			}
			return
		}
		for _, d := range ds {
			r.claimed(client, call, d)
		}
		for len(ds) > 0 {
			next, ended := s.deliverRecorded(r, client, ds[0])
			if ended && r.ended() {
				stop()
			}
			ds = append(ds[1:], next...)
		}
	}
}

// deliverRecorded says whether the message has ended. One worker in ten sleeps until its lease has expired and comes
// back as if nothing had happened. At the same time an older claim can come back. Some ends of claims get the next one.
func (s *suite) deliverRecorded(r *recorder, client int, d corebot.Delivery) (next []corebot.Delivery, ended bool) {
	switch rand.IntN(10) {
	case 0:
		r.strand(d)
		time.Sleep(lease + rand.N(lease))
	case 1, 2:
		time.Sleep(rand.N(lease))
		s.extendRecorded(r, client, d)
	}
	if old, ok := r.stranded(); ok {
		s.extendRecorded(r, client, old)
		if old.Lease != d.Lease {
			// refused, unless no other claim has the lane yet
			s.settleRecorded(r, client, old, retryIn(0), corebot.Claim{})
		}
	}
	o := answered()
	switch rand.IntN(6) {
	case 0:
		o = retryIn(rand.N(time.Second))
	case 1:
		o = waitFor(rand.N(time.Second))
	case 2:
		o = given("permanent")
	}
	ask := s.bus.Next(corebot.InboundPool, rand.IntN(3))
	next, settled := s.settleRecorded(r, client, d, o, ask)
	return next, settled && (o.Verb == corebot.Done || o.Verb == corebot.Dead)
}

func (s *suite) extendRecorded(r *recorder, client int, d corebot.Delivery) {
	call, until := r.clock.Add(1), nowMS()+lease.Milliseconds()
	lost, err := s.bus.Extend(s.t.Context(), []corebot.Lease{d.Lease})
	if err != nil {
		s.t.Errorf("extend: %v", err)
		return
	}
	r.add(d.Message.Key.Chat, client, call, extendCall{d.Epoch, until}, held(len(lost) == 0))
}

func (s *suite) settleRecorded(r *recorder, client int, d corebot.Delivery, o corebot.Outcome,
	ask corebot.Claim,
) (next []corebot.Delivery, settled bool) {
	call, at := r.clock.Add(1), nowMS()
	next, err := s.bus.SettleAndClaim(s.t.Context(), d, o, ask)
	if err != nil && !errors.Is(err, corebot.ErrLeaseLost) {
		s.t.Errorf("settle: %v", err)
		return nil, false
	}
	r.add(d.Message.Key.Chat, client, call, settleCall{d.Epoch, o.Verb, at, o.At.UnixMilli()}, held(err == nil))
	for _, n := range next {
		r.claimed(client, call, n)
	}
	return next, err == nil
}
