package bus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/corebot/corebot"
)

// script is a store whose answers a test sets.
type script struct {
	receipt corebot.Receipt
	err     error
	limits  corebot.Limits
	opts    corebot.ClaimOptions
	until   time.Time
	lost    []corebot.Lease

	received corebot.Batch
}

func (s *script) Publish(_ context.Context, _ []corebot.Message, lim corebot.Limits) ([]corebot.Receipt, error) {
	s.limits = lim
	return []corebot.Receipt{s.receipt}, s.err
}

func (s *script) Receive(_ context.Context, b corebot.Batch,
	lim corebot.Limits,
) ([]corebot.Receipt, corebot.Cursor, error) {
	s.limits, s.received = lim, b
	return slices.Repeat([]corebot.Receipt{s.receipt}, len(b.Messages)), b.Cursor, s.err
}

func (s *script) Cursor(context.Context, string, string) (corebot.Cursor, error) {
	return s.received.Cursor, s.err
}

func (s *script) Claim(_ context.Context, _ corebot.Pool, _ int,
	opts corebot.ClaimOptions,
) ([]corebot.Delivery, error) {
	s.opts = opts
	return nil, s.err
}

func (s *script) Extend(_ context.Context, _ []corebot.Lease, until time.Time) ([]corebot.Lease, error) {
	s.until = until
	return s.lost, s.err
}

func (s *script) Settle(context.Context, corebot.Delivery, corebot.Outcome) error { return s.err }

func (s *script) SettleAndClaim(_ context.Context, _ corebot.Delivery, _ corebot.Outcome,
	next corebot.Claim,
) ([]corebot.Delivery, error) {
	s.opts = next.Options
	return nil, s.err
}

// counted is the value of a counter.
func counted(t *testing.T, c prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func newTest(t *testing.T, s Store, o Options) *Bus {
	t.Helper()
	b, err := New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func prompt(text string) corebot.Message {
	return corebot.Message{
		ID: "1", Direction: corebot.Inbound, Kind: corebot.KindPrompt, Parts: corebot.TextPart(text),
		Key: corebot.Key{Agent: corebot.DefaultAgent, Channel: "test", Chat: "1"},
	}
}

func TestNumbersThatMakeNoSenseAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"lease": {Lease: -1}, "attempts": {MaxAttempts: -1}, "lost": {MaxLost: -1}, "base": {BackoffBase: -1},
		"max":   {BackoffMax: -1},
		"bytes": {MaxBytes: -1}, "base over max": {BackoffBase: time.Hour, BackoffMax: time.Minute},
	} {
		if _, err := New(&script{}, o); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := prometheus.NewRegistry()
	newTest(t, &script{}, Options{Metrics: r})
	if _, err := New(&script{}, Options{Metrics: r}); err == nil {
		t.Error("two buses share one registry")
	}
}

func TestTheDefaultsBoundEverything(t *testing.T) {
	s := &script{}
	b := newTest(t, s, Options{})
	if _, err := b.Publish(t.Context(), prompt("x")); err != nil {
		t.Fatal(err)
	}
	if l := s.limits; l.LaneDepth <= 0 || l.TotalDepth <= 0 || l.TotalBytes <= 0 {
		t.Errorf("the limits are %+v", l)
	}
	if _, err := b.Publish(t.Context(), prompt(strings.Repeat("x", DefaultMaxBytes+1))); !errors.Is(err,
		corebot.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestLeasesAreAskedForAndExtendedByTheLeaseTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lost: []corebot.Lease{{Lane: 1, Epoch: 2}}}
		b := newTest(t, s, Options{Lease: time.Minute})
		if _, err := b.Claim(t.Context(), corebot.InboundPool, 1); err != nil || s.opts.Lease != time.Minute ||
			b.Lease() != time.Minute {
			t.Errorf("claimed for %v: %v", s.opts, err)
		}
		lost, err := b.Extend(t.Context(), nil)
		if err != nil || len(lost) != 1 || s.until != time.Now().Add(time.Minute) {
			t.Errorf("extended until %v: lost %v, %v", s.until, lost, err)
		}
	})
}

func TestEveryPublishIsCountedByWhatBecameOfIt(t *testing.T) {
	s := &script{}
	b := newTest(t, s, Options{})
	for _, c := range []struct {
		receipt corebot.Receipt
		err     error
		want    error
		result  string
	}{
		{corebot.Receipt{Life: 1}, nil, nil, "accepted"},
		{corebot.Receipt{Life: 1, Duplicate: true}, nil, nil, "duplicate"},
		{corebot.Receipt{Err: corebot.ErrConflict}, nil, corebot.ErrConflict, "conflict"},
		{corebot.Receipt{Err: corebot.ErrLaneFull}, nil, corebot.ErrLaneFull, "refused"},
		{corebot.Receipt{}, corebot.ErrCommitUnknown, corebot.ErrCommitUnknown, "refused"},
	} {
		s.receipt, s.err = c.receipt, c.err
		before := counted(t, b.metrics.publish.WithLabelValues("inbound", c.result))
		r, err := b.Publish(t.Context(), prompt("x"))
		if !errors.Is(err, c.want) || (err != nil) == (r.Life != 0) {
			t.Errorf("%s: %+v, %v", c.result, r, err)
		}
		if after := counted(t, b.metrics.publish.WithLabelValues("inbound", c.result)); after != before+1 {
			t.Errorf("%s was counted %v times", c.result, after-before)
		}
	}
}

// TestARefusalIsTheBusesOwnUnlessItsSenderHasCausedIt: an objective must not be missed because somebody floods a chat.
func TestARefusalIsTheBusesOwnUnlessItsSenderHasCausedIt(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []bool // refused, of each that is told
	}{
		{nil, []bool{false}},
		{corebot.ErrConflict, nil},
		{corebot.ErrLaneFull, nil},
		{corebot.ErrSenderFull, nil},
		{context.Canceled, nil},
		{context.DeadlineExceeded, []bool{true}},
		{corebot.ErrOverloaded, []bool{true}},
		{corebot.ErrDiskFull, []bool{true}},
		{corebot.ErrCommitUnknown, []bool{true}},
	} {
		var told []bool
		s := &script{receipt: corebot.Receipt{Life: 1, Err: c.err}}
		b := newTest(t, s, Options{Offered: func(_ time.Duration, refused bool) { told = append(told, refused) }})
		_, _ = b.Publish(t.Context(), prompt("x"))
		_, _ = b.Publish(t.Context(), prompt(" ")) // the store was not asked
		if !slices.Equal(told, c.want) {
			t.Errorf("%v: told %v of a publish, want %v", c.err, told, c.want)
		}
		told = nil
		_, _, _ = b.Receive(t.Context(), corebot.Batch{
			Channel: "test", Messages: []corebot.Message{prompt("x")}, Cursor: corebot.Cursor{}.To("3"),
		})
		if !slices.Equal(told, c.want) {
			t.Errorf("%v: told %v of a batch, want %v", c.err, told, c.want)
		}
	}
}

func TestOnlyFitMessagesOfABatchReachTheStore(t *testing.T) {
	s := &script{receipt: corebot.Receipt{Life: 7}}
	b := newTest(t, s, Options{})
	bad, fit := prompt(" "), prompt("x")
	batch := corebot.Batch{Channel: "test", Messages: []corebot.Message{bad, fit, prompt("\xff")}}
	batch.Cursor = corebot.Cursor{}.To("3")
	receipts, _, err := b.Receive(t.Context(), batch)
	if err != nil || len(receipts) != 3 || receipts[1].Life != 7 || !errors.Is(receipts[0].Err, corebot.ErrInvalid) ||
		!errors.Is(receipts[2].Err, corebot.ErrInvalid) {
		t.Fatalf("got %+v, %v", receipts, err)
	}
	if len(s.received.Messages) != 1 || s.received.Cursor.Position != "3" || s.limits.LaneDepth <= 0 {
		t.Errorf("the store was given %+v", s.received)
	}
	for result, want := range map[string]float64{"accepted": 1, "refused": 2} {
		if got := counted(t, b.metrics.publish.WithLabelValues("inbound", result)); got != want {
			t.Errorf("%v are counted as %s, want %v", got, result, want)
		}
	}
	for name, wrong := range map[string]func(*corebot.Batch){
		"no channel":      func(b *corebot.Batch) { b.Channel = "" },
		"an account":      func(b *corebot.Batch) { b.Account = "a\nb" },
		"a position":      func(b *corebot.Batch) { b.Cursor.Position = "\xff" },
		"a long position": func(b *corebot.Batch) { b.Cursor.Position = strings.Repeat("x", corebot.MaxCursor+1) },
		"too many":        func(b *corebot.Batch) { b.Messages = slices.Repeat(b.Messages, corebot.MaxBatch) },
		"another direction": func(b *corebot.Batch) {
			b.Messages = []corebot.Message{{Direction: corebot.Outbound}}
		},
	} {
		other := batch
		wrong(&other)
		s.received = corebot.Batch{}
		if _, _, err := b.Receive(t.Context(), other); !errors.Is(err, corebot.ErrInvalid) &&
			!errors.Is(err, corebot.ErrTooLarge) || s.received.Channel != "" {
			t.Errorf("%s: %v, stored %+v", name, err, s.received)
		}
	}
}

func TestASettleThatFailedIsNotCounted(t *testing.T) {
	s := &script{err: corebot.ErrLeaseLost}
	b := newTest(t, s, Options{})
	d := corebot.Delivery{Message: prompt("x"), PublishedAt: time.Now()}
	for _, want := range []float64{0, 1} {
		if err := b.Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done}); !errors.Is(err, s.err) {
			t.Errorf("got %v", err)
		}
		if got := counted(t, b.metrics.settle.WithLabelValues("inbound", "done")); got != want {
			t.Errorf("counted %v, want %v", got, want)
		}
		s.err = nil
	}
}

func TestAnErrorIsKeptInBounds(t *testing.T) {
	b := newTest(t, &script{}, Options{})
	for _, text := range []string{strings.Repeat("ü", maxErrorBytes), "x" + strings.Repeat("ü", maxErrorBytes)} {
		o := b.Verdict(corebot.Delivery{Attempt: 1}, errors.New(text))
		if len(o.Error) > maxErrorBytes+len("…") || !utf8.ValidString(o.Error) {
			t.Errorf("kept %d bytes, valid: %v", len(o.Error), utf8.ValidString(o.Error))
		}
	}
}

func TestTheBackoffGrowsWithTheAttemptsUpToItsMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTest(t, &script{}, Options{BackoffBase: time.Second, BackoffMax: 4 * time.Second, MaxAttempts: 100})
		for attempt, ceiling := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 4, 99: 4} {
			for range 50 {
				o := b.Verdict(corebot.Delivery{Attempt: attempt}, errors.New("x"))
				if wait := time.Until(o.At); wait <= 0 || wait > ceiling*time.Second {
					t.Fatalf("attempt %d waits for %v", attempt, wait)
				}
			}
		}
	})
}
