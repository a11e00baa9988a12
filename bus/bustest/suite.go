package bustest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

// suite is the store of one test with the bus on top, and the helpers of the tests.
type suite struct {
	Store
	t    *testing.T
	bus  *bus.Bus
	open Open
	dir  string
	opts bus.Options
}

func newSuite(t *testing.T, open Open) *suite {
	s := &suite{t: t, open: open, dir: t.TempDir()}
	s.reopenWith(bus.Options{Lease: lease, MaxAttempts: maxAttempts, BackoffBase: time.Second, BackoffMax: time.Minute})
	t.Cleanup(func() {
		problems, err := s.Problems(context.Background())
		if err != nil || len(problems) > 0 {
			t.Errorf("the store finds fault with itself: %v %v", problems, err)
		}
		s.must(s.Close())
	})
	return s
}

// lease is how long claims last in the tests.
const lease = 30 * time.Second

// moment is the smallest step of a store's clock. An event one moment later sorts behind.
const moment = time.Millisecond

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) wantErr(err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Fatalf("got %v, want %v", err, want)
	}
}

// reopen is a crash and a new process.
func (s *suite) reopen() { s.reopenWith(s.opts) }

func (s *suite) reopenWith(o bus.Options) {
	s.t.Helper()
	if s.Store.Close != nil {
		s.must(s.Close())
	}
	store, err := s.open(s.dir)
	s.must(err)
	b, err := bus.New(store.Queue, o)
	s.must(err)
	s.Store, s.bus, s.opts = store, b, o
}

// prompt is an inbound message whose text follows from its id.
func prompt(chat, id string) corebot.Message {
	return corebot.Message{
		ID: id, Direction: corebot.Inbound, Kind: corebot.KindPrompt,
		Key:    corebot.Key{Agent: corebot.DefaultAgent, Channel: "test", Chat: chat},
		Sender: corebot.Principal{Channel: "test", ID: "someone"},
		Parts:  corebot.TextPart("text of " + id),
	}
}

// reply is an outbound message.
func reply(chat, id string) corebot.Message {
	m := prompt(chat, id)
	m.Direction, m.Kind, m.Sender = corebot.Outbound, corebot.KindReply, corebot.Principal{}
	return m
}

// publish publishes a message that must be new, and returns its life.
func (s *suite) publish(chat, id string) int64 {
	s.t.Helper()
	r, err := s.bus.Publish(s.t.Context(), prompt(chat, id))
	s.must(err)
	if r.Duplicate {
		s.t.Fatalf("message %s is called a duplicate", id)
	}
	time.Sleep(moment)
	return r.Life
}

// publishAgain publishes a message that must be a duplicate of that life.
func (s *suite) publishAgain(chat, id string, life int64) {
	s.t.Helper()
	before := s.census()
	r, err := s.bus.Publish(s.t.Context(), prompt(chat, id))
	s.must(err)
	if !r.Duplicate || r.Life != life {
		s.t.Fatalf("got %+v, want a duplicate of life %d", r, life)
	}
	s.unchanged(before)
}

func (s *suite) census() Census {
	s.t.Helper()
	c, err := s.Census()
	s.must(err)
	return c
}

func (s *suite) unchanged(before Census) {
	s.t.Helper()
	if after := s.census(); after != before {
		s.t.Fatalf("the store changed: %+v, was %+v", after, before)
	}
}

// pending is a claim that may still wait.
type pending struct {
	cancel context.CancelFunc
	ended  chan struct{}
	got    []corebot.Delivery
	err    error
}

func (s *suite) claimLater(pool corebot.Pool, n int) *pending {
	ctx, cancel := context.WithCancel(s.t.Context())
	p := &pending{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.got, p.err = s.bus.Claim(ctx, pool, n)
	}()
	synctest.Wait()
	return p
}

// over says whether the claim has returned.
func (p *pending) over() bool {
	synctest.Wait()
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// ready claims at most n messages that are due at this moment, and does not wait.
func (s *suite) ready(pool corebot.Pool, n int) []corebot.Delivery {
	s.t.Helper()
	p := s.claimLater(pool, n)
	p.cancel()
	<-p.ended
	if p.err != nil {
		s.wantErr(p.err, context.Canceled)
	}
	return p.got
}

// claim claims the one message that must be due now.
func (s *suite) claim(id string) corebot.Delivery {
	s.t.Helper()
	got := s.ready(corebot.InboundPool, 1)
	if len(got) != 1 {
		s.t.Fatalf("message %s is not ready", id)
	}
	if got[0].Message.ID != id {
		s.t.Fatalf("got message %s, want %s", got[0].Message.ID, id)
	}
	return got[0]
}

func (s *suite) nothingReady() {
	s.t.Helper()
	if got := s.ready(corebot.InboundPool, 1); len(got) > 0 {
		s.t.Fatalf("message %s is ready", got[0].Message.ID)
	}
}

func (s *suite) settle(d corebot.Delivery, o corebot.Outcome) {
	s.t.Helper()
	s.must(s.bus.Settle(s.t.Context(), d, o))
}

func answered() corebot.Outcome {
	return corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
}

func given(reason string) corebot.Outcome {
	return corebot.Outcome{Verb: corebot.Dead, Reason: reason, Error: "it broke"}
}

func retryIn(d time.Duration) corebot.Outcome {
	return corebot.Outcome{Verb: corebot.RetryAt, At: time.Now().Add(d), Error: "not now"}
}

func limitedFor(d time.Duration) corebot.Outcome {
	return corebot.Outcome{
		Verb: corebot.RetryAt, At: time.Now().Add(d), Error: "not so fast",
		Class: corebot.RateLimited.String(), Uncounted: true,
	}
}

func waitFor(d time.Duration) corebot.Outcome {
	return corebot.Outcome{Verb: corebot.Wait, At: time.Now().Add(d), Reason: "approval"}
}

func (s *suite) life(id int64) corebot.Life {
	s.t.Helper()
	l, err := s.Lives.Get(s.t.Context(), id)
	s.must(err)
	return l
}

// step is a finished tool call at a position.
func step(position int) corebot.Step {
	return corebot.Step{
		Position: position, Kind: corebot.StepTool, State: corebot.StepDone,
		Call:   &corebot.ToolCall{ID: "c1", Tool: "fs.read", Args: []byte(`{"path":"."}`)},
		Result: &corebot.ToolResult{Outcome: corebot.OutcomeSuccess, Content: "a file"},
	}
}

func (s *suite) record(d corebot.Delivery, position int) {
	s.t.Helper()
	s.must(s.Ledger.Record(s.t.Context(), d, step(position)))
}
