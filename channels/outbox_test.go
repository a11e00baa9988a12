package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

func TestRepliesOfAChatLeaveInOrderAndASlowChatHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &platform{send: func(_ context.Context, m channels.Outbound) error {
			if m.Key.Chat == "slow" {
				time.Sleep(10 * time.Second)
			}
			return nil
		}}
		for i := range 3 {
			o.enqueue(t, "slow", fmt.Sprint("s", i), fmt.Sprint(i))
			o.enqueue(t, "fast", fmt.Sprint("f", i), fmt.Sprint(i))
		}
		o.run(t, p)
		pass(time.Second)
		if got := p.texts("fast"); !slices.Equal(got, []string{"0", "1", "2"}) || len(p.texts("slow")) != 0 {
			t.Errorf("after a second the fast chat has %q", got)
		}
		pass(30 * time.Second)
		if got := p.texts("slow"); !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("the slow chat has %q", got)
		}
	})
}

func TestARetryKeepsItsPlaceInItsChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		fails := 2
		p := &platform{send: func(_ context.Context, m channels.Outbound) error {
			if m.Text() == "first" && fails > 0 {
				fails--
				return errors.New("a gateway timeout")
			}
			return nil
		}}
		o.enqueue(t, "a", "1", "first")
		o.enqueue(t, "a", "2", "second")
		o.run(t, p)
		pass(time.Minute)
		if got := p.texts("a"); !slices.Equal(got, []string{"first", "second"}) {
			t.Errorf("the chat has %q", got)
		}
		if n := o.life(t, "1").Attempts; n != 3 {
			t.Errorf("it took %d attempts", n)
		}
	})
}

func TestASendThatFailsForGoodIsADeadLetterAndTheChatGoesOn(t *testing.T) {
	for name, send := range map[string]func() error{
		"permanent": func() error { return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("blocked")} },
		"attempts":  func() error { return errors.New("down") },
		"panics":    func() error { panic("a bug") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox(t, "", "")
				p := &platform{send: func(_ context.Context, m channels.Outbound) error {
					if m.Text() == "first" {
						return send()
					}
					return nil
				}}
				o.enqueue(t, "a", "1", "first")
				o.enqueue(t, "a", "2", "second")
				o.run(t, p)
				pass(time.Hour)
				if life := o.life(t, "1"); life.End != corebot.EndDead || life.LastError == "" {
					t.Errorf("the first ended %q, %q", life.End, life.LastError)
				}
				if got := p.texts("a"); !slices.Equal(got, []string{"second"}) {
					t.Errorf("the chat has %q", got)
				}
			})
		})
	}
}

func TestAFailureThatIsNobodysFaultWaitsUncounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		open := time.Now().Add(time.Hour)
		p := &platform{send: func(context.Context, channels.Outbound) error {
			if time.Now().Before(open) {
				return &corebot.Failure{
					Class: corebot.Cancelled, RetryAfter: time.Minute,
					Err: errors.New("nobody is there"),
				}
			}
			return nil
		}}
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(30 * time.Minute)
		if life := o.life(t, "1"); life.State != "waiting: "+corebot.NotNow || life.Attempts != 0 ||
			life.LastError != "nobody is there" {
			t.Errorf("after half an hour it is %s with %d attempts: %q", life.State, life.Attempts, life.LastError)
		}
		if n := strings.Count(o.log.String(), "nobody is there"); n != 4 {
			t.Errorf("in half an hour the log says %d times why it waits", n)
		}
		pass(31 * time.Minute)
		if got := p.texts("a"); !slices.Equal(got, []string{"hello"}) {
			t.Errorf("the chat has %q", got)
		}
	})
}

func TestAfterACrashALongMessageGoesOnAtTheRightPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first := newOutbox(t, dir, "")
		hang := make(chan struct{})
		p := &platform{}
		p.send = func(context.Context, channels.Outbound) error {
			if len(p.texts("a")) == 2 {
				<-hang // in the middle of the third part
				return errors.New("gone")
			}
			return nil
		}
		first.enqueue(t, "a", "1", "one one. two two. three. four.")
		stop := first.run(t, narrow{p, 9})
		pass(time.Second)
		go func() { // the store dies first
			time.Sleep(time.Second)
			close(hang)
		}()
		first.Crash()
		stop()

		second := newOutbox(t, dir, "")
		q := &platform{}
		second.run(t, narrow{q, 9})
		pass(time.Second)
		if got := append(p.texts("a"), q.texts("a")...); !slices.Equal(got,
			[]string{"one one.", "two two.", "three.", "four."}) {
			t.Errorf("the chat has %q", got)
		}
		var ids []string
		for _, m := range append(p.sent, q.sent...) {
			ids = append(ids, m.IdempotencyKey)
		}
		if want := []string{"1/1/0-9", "1/1/9-18", "1/1/18-25", "1/1/25-30"}; !slices.Equal(ids, want) {
			t.Errorf("the parts have the ids %q", ids)
		}
	})
}

func TestAMessageOfManySlowPartsIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &platform{send: func(ctx context.Context, _ channels.Outbound) error {
			select {
			case <-time.After(4 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		o.enqueue(t, "a", "1", strings.Repeat("12345678 ", 30))
		o.run(t, narrow{p, 9})
		pass(3 * time.Minute)
		if got := len(p.texts("a")); got != 30 {
			t.Errorf("%d parts were sent", got)
		}
		if life := o.life(t, "1"); life.End != corebot.EndSent || life.Attempts != 1 {
			t.Errorf("it ended %q after %d attempts, last error %q", life.End, life.Attempts, life.LastError)
		}
	})
}

func TestAMessageThatMayHaveBeenSentIsResentOrHeld(t *testing.T) {
	type seen struct {
		sent      int
		end       corebot.End
		reason    string
		ambiguous float64
	}
	for name, c := range map[string]struct {
		on     channels.OnAmbiguous
		native bool
		want   seen
	}{
		"resent by default": {"", false, seen{1, corebot.EndSent, "", 1}},
		"held if configured": {channels.Hold, false, seen{
			0, corebot.EndDead, channels.ReasonAmbiguous,
			1,
		}},
		"no question if ids are honoured": {channels.Hold, true, seen{1, corebot.EndSent, "", 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				before := newOutbox(t, dir, c.on)
				before.enqueue(t, "a", "1", "hello")
				before.claim(t)
				before.Crash()

				o := newOutbox(t, dir, c.on)
				p := &platform{}
				var channel channels.Channel = p
				if c.native {
					channel = idempotent{p}
				}
				o.run(t, channel)
				pass(time.Second)
				life := o.life(t, "1")
				if got := (seen{len(p.texts("a")), life.End, life.Reason, o.counted(t,
					"corebot_outbox_ambiguous_total")}); got != c.want {
					t.Errorf("saw %+v, want %+v", got, c.want)
				}
			})
		})
	}
}

func TestASendThatIsUnderWayAtShutdownIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &platform{send: func(ctx context.Context, _ channels.Outbound) error {
			select {
			case <-time.After(5 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		o.enqueue(t, "a", "1", "hello")
		stop := o.run(t, p)
		pass(time.Second)
		stop()
		if got := p.texts("a"); len(got) != 1 || o.life(t, "1").End != corebot.EndSent {
			t.Errorf("sent %q, ended %q", got, o.life(t, "1").End)
		}
	})
}

// newBriefOutbox is an outbox whose leases last a second; around, if set, stands between it and the bus.
func newBriefOutbox(t *testing.T, around func(channels.Queue) channels.Queue) *outbox {
	t.Helper()
	k := apptest.New(t, apptest.Options{Bus: bus.Options{Lease: time.Second, MaxAttempts: 3}})
	var queue channels.Queue = k.Bus
	if around != nil {
		queue = around(queue)
	}
	registry := prometheus.NewRegistry()
	o, err := channels.NewOutbox(queue, k.Ledger, "", zerolog.Nop(), registry)
	if err != nil {
		t.Fatal(err)
	}
	return &outbox{k, o, registry, nil}
}

func TestASendThatOutlastsManyLeasesIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newBriefOutbox(t, nil)
		sends := make(chan string, 100)
		p := &platform{send: func(_ context.Context, m channels.Outbound) error {
			sends <- m.ID
			<-time.After(10 * time.Second) // as a writer does whose reader pauses: whatever the context says
			return nil
		}}
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(time.Minute)
		life := o.life(t, "1")
		if n := len(sends); n != 1 || life.End != corebot.EndSent || len(life.AttemptLog) != 0 {
			t.Errorf("%d sends; it ended %q after the claims %+v", n, life.End, life.AttemptLog)
		}
		if n := o.counted(t, "corebot_outbox_ambiguous_total"); n != 0 {
			t.Errorf("%v sends are ambiguous", n)
		}
	})
}

func TestASendHasItsDeadlineHoweverShortTheLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newBriefOutbox(t, nil)
		took := make(chan time.Duration, 100)
		p := &platform{send: func(ctx context.Context, _ channels.Outbound) error {
			begun := time.Now()
			<-ctx.Done()
			took <- time.Since(begun)
			return ctx.Err()
		}}
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(time.Hour)
		if d := <-took; d != 30*time.Second {
			t.Errorf("it was called off after %v", d)
		}
		if life := o.life(t, "1"); life.Reason != bus.ReasonAttempts || len(took) != 2 {
			t.Errorf("%d more sends; it ended as %q", len(took), life.Reason)
		}
	})
}

// robbed is a queue that reports every lease as lost.
type robbed struct{ channels.Queue }

func (robbed) Extend(_ context.Context, leases []corebot.Lease) ([]corebot.Lease, error) {
	return leases, nil
}

func TestALostLeaseCallsTheSendOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newBriefOutbox(t, func(q channels.Queue) channels.Queue { return robbed{q} })
		causes := make(chan error, 100)
		p := &platform{send: func(ctx context.Context, _ channels.Outbound) error {
			if len(causes) > 0 {
				return nil
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		}}
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(time.Minute)
		if cause := <-causes; !errors.Is(cause, corebot.ErrLeaseLost) {
			t.Errorf("the send was called off by %v", cause)
		}
		if life := o.life(t, "1"); life.End != corebot.EndSent || life.Attempts != 1 {
			t.Errorf("it ended %q after %d attempts", life.End, life.Attempts)
		}
	})
}

func TestAShutdownWaitsForOnePartOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := newOutbox(t, dir, "")
		p := &platform{send: func(context.Context, channels.Outbound) error {
			time.Sleep(5 * time.Second)
			return nil
		}}
		o.enqueue(t, "a", "1", "one one. two two. three.")
		stop := o.run(t, narrow{p, 9})
		pass(time.Second)
		stop()
		if got := p.texts("a"); !slices.Equal(got, []string{"one one."}) {
			t.Errorf("at the end of Run the chat has %q", got)
		}
		o.run(t, narrow{p, 9})
		pass(time.Minute)
		if got := p.texts("a"); !slices.Equal(got, []string{"one one.", "two two.", "three."}) {
			t.Errorf("the chat has %q", got)
		}
		if life := o.life(t, "1"); life.End != corebot.EndSent || life.Attempts != 1 {
			t.Errorf("it ended %q after %d attempts", life.End, life.Attempts)
		}
	})
}

func TestAnUnknownWayWithAmbiguousSendsIsRefused(t *testing.T) {
	if _, err := channels.NewOutbox(nil, nil, "sometimes", zerolog.Nop(), nil); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("the error is %v", err)
	}
}

// cramped is a queue on a disk that is full for a while.
type cramped struct {
	channels.Queue
	refuse int
}

func (c *cramped) Settle(ctx context.Context, d corebot.Delivery, o corebot.Outcome) error {
	if c.refuse > 0 {
		c.refuse--
		return corebot.ErrDiskFull
	}
	return c.Queue.Settle(ctx, d, o)
}

func TestWhatWasSentIsNotSentAgainForADiskThatIsFullForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", channels.Resend)
		var err error
		if o.Outbox, err = channels.NewOutbox(&cramped{o.Bus, 3}, o.Ledger, channels.Resend, zerolog.Nop(),
			nil); err != nil {
			t.Fatal(err)
		}
		p := &platform{}
		o.enqueue(t, "a", "1", "once")
		o.run(t, p)
		pass(time.Hour)
		if got := p.texts("a"); len(got) != 1 {
			t.Errorf("sent %q", got)
		}
		if life := o.life(t, "1"); life.End != corebot.EndSent {
			t.Errorf("its life is %+v", life)
		}
	})
}
