package witness

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// chain has so many events, of which one may be broken.
type chain struct {
	events int
	broken *corebot.BrokenChain
	fails  error
	takes  time.Duration // each part
	parts  atomic.Int64
	done   atomic.Int64
	read   int
	sent   map[string]string
	refuse error
	mu     sync.Mutex
}

// becomes changes the trail while a checker runs.
func (c *chain) becomes(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *chain) VerifyPart(_ context.Context, walk *corebot.AuditWalk, most int) (bool, error) {
	time.Sleep(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts.Add(1)
	if !walk.Begun() {
		walk.Begin(0, nil, nil)
		c.read = 0
	}
	c.read = min(c.read+most, c.events)
	switch {
	case c.fails != nil:
		return false, c.fails
	case c.read < c.events:
		return false, nil
	case c.broken != nil:
		return false, c.broken
	}
	c.done.Add(1)
	return true, nil
}

func (c *chain) Tell(_ context.Context, m corebot.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return c.refuse
	}
	if c.sent == nil {
		c.sent = map[string]string{}
	}
	c.sent[m.ID] = m.Text()
	return nil
}

// checking runs a checker in the bubble.
func checking(t *testing.T, of *chain, o CheckOptions) (*Checker, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	o.Log = zerolog.New(&log).Level(zerolog.InfoLevel)
	c, err := NewChecker(of, o)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-over)
	})
	return c, &log
}

// pass lets time go by, until all that it has begun waits.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestTheTrailIsVerifiedAMinuteAfterTheStartAndThenEachPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &chain{events: 10}
		c, _ := checking(t, of, CheckOptions{Every: 24 * time.Hour})
		pass(59 * time.Second)
		if of.done.Load() != 0 {
			t.Error("it is verified at once")
		}
		pass(time.Second)
		want := float64(time.Now().Add(72*time.Hour + time.Minute).Unix())
		if n := of.done.Load(); n != 1 || testutil.ToFloat64(c.by) != want {
			t.Errorf("verified %d times after a minute", n)
		}
		pass(72*time.Hour - time.Minute)
		if n := of.done.Load(); n != 3 {
			t.Errorf("verified %d times in three days", n)
		}
		c.Set(time.Hour)
		pass(10*time.Hour + time.Minute)
		if n := of.done.Load(); n < 12 || n > 14 {
			t.Errorf("verified %d times after ten hours of another period", n)
		}
		n := of.done.Load()
		c.Set(0)
		pass(48 * time.Hour)
		if of.done.Load() != n || testutil.ToFloat64(c.by) != 0 {
			t.Error("it is verified though that is switched off")
		}
	})
}

func TestAVerificationTakesATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &chain{events: 100 * checkPart, takes: 30 * time.Millisecond}
		checking(t, of, CheckOptions{Every: 24 * time.Hour})
		pass(time.Minute + 29*time.Second)
		if of.done.Load() != 0 || of.parts.Load() < 90 {
			t.Errorf("%d parts of 30 ms took %d ends in 29 s", of.parts.Load(), of.done.Load())
		}
		pass(2 * time.Second)
		if of.done.Load() != 1 {
			t.Error("100 parts of 30 ms take more than 31 s")
		}
	})
}

func TestABreakIsToldOnceUntilItIsAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &chain{events: 10, broken: &corebot.BrokenChain{Event: 7, Why: "it is gone"}}
		chat := corebot.Key{Agent: "main", Channel: "telegram", Account: "main", Chat: "1"}
		c, log := checking(t, of, CheckOptions{Every: time.Hour, Chat: chat})
		pass(24 * time.Hour)
		if n := strings.Count(log.String(), `"error":"the audit trail is broken at event 7: it is gone"`); n != 1 {
			t.Errorf("the log has it %d times: %s", n, log)
		}
		if len(of.sent) != 1 || testutil.ToFloat64(c.broken) != 1 ||
			testutil.ToFloat64(c.by) > float64(time.Now().Unix()) {
			t.Errorf("sent are %q", of.sent)
		}
		of.becomes(func() { of.broken = &corebot.BrokenChain{Event: 3, Why: "it is gone"} })
		pass(2 * time.Hour)
		if len(of.sent) != 2 || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("of another break is sent %q, and the log is %s", of.sent, log)
		}
		of.becomes(func() { of.broken = nil })
		pass(2 * time.Hour)
		if testutil.ToFloat64(c.broken) != 0 || testutil.ToFloat64(c.by) < float64(time.Now().Unix()) {
			t.Error("a trail that is whole again still counts as broken")
		}
	})
}

func TestATrailThatCannotBeReadOrToldIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &chain{events: 1, fails: errors.New("a page is damaged")}
		c, log := checking(t, of, CheckOptions{
			Every: 24 * time.Hour, Chat: corebot.Key{Agent: "main", Channel: "x", Chat: "1"},
		})
		pass(62 * time.Minute)
		if n := of.parts.Load(); n < 6 || n > 8 {
			t.Errorf("tried %d times in an hour", n)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || testutil.ToFloat64(c.broken) != 0 {
			t.Errorf("the log has %d lines: %s", n, log)
		}
		of.becomes(func() {
			of.fails, of.refuse = nil, errors.New("no room")
			of.broken = &corebot.BrokenChain{Event: 1, Why: "changed"}
		})
		pass(11 * time.Minute)
		of.becomes(func() { of.refuse = nil })
		pass(11 * time.Minute)
		if len(of.sent) != 1 {
			t.Errorf("sent are %q", of.sent)
		}
	})
}
