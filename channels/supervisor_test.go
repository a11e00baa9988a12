package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// receiver is a channel that only receives.
type receiver struct {
	name string
	run  func(ctx context.Context) error
}

func (r receiver) Run(ctx context.Context, _ channels.Door) error { return r.run(ctx) }
func (r receiver) Send(context.Context, channels.Outbound) (channels.Receipt, error) {
	return channels.Receipt{}, nil
}

func supervise(t *testing.T, log *logged, cs ...receiver) *channels.Supervisor {
	t.Helper()
	var entries []channels.Entry
	for _, c := range cs {
		entries = append(entries, channels.Entry{Account: channels.Account{Kind: c.name}, Channel: c})
	}
	s, err := channels.NewSupervisor(nil, nil, zerolog.New(log), entries...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAChannelThatFailsOrPanicsIsRunAgainAfterABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Time
		var log logged
		s := supervise(t, &log, receiver{"c", func(ctx context.Context) error {
			starts = append(starts, time.Now())
			switch len(starts) {
			case 8:
				<-ctx.Done()
				return nil
			case 3:
				panic("a bug")
			}
			return errors.New("no connection")
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Receive(ctx) }()
		pass(time.Hour)
		if len(starts) != 8 {
			t.Fatalf("it was run %d times", len(starts))
		}
		for i, ceiling := 1, time.Second; i < 8; i, ceiling = i+1, min(2*ceiling, time.Minute) {
			if wait := starts[i].Sub(starts[i-1]); wait <= 0 || wait > ceiling {
				t.Errorf("run %d came after %v of at most %v", i+1, wait, ceiling)
			}
		}
		if !strings.Contains(log.String(), "panic: a bug") {
			t.Errorf("the panic is not in the log: %s", log.String())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAChannelThatRanWellForAWhileStartsItsBackoffAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		var failed time.Time
		var log logged
		s := supervise(t, &log, receiver{"c", func(ctx context.Context) error {
			n++
			switch {
			case n == 21:
				if wait := time.Since(failed); wait > time.Second {
					t.Errorf("after a healthy run it waited %v", wait)
				}
				return nil
			case n == 20:
				time.Sleep(2 * time.Minute)
			}
			failed = time.Now()
			return errors.New("no connection")
		}})
		if err := s.Receive(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAFinalErrorEndsItsChannelAndIsNamedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := errors.New("the input is broken"), errors.New("the token was revoked")
		final := func(err error) func(context.Context) error {
			return func(context.Context) error { return &channels.Final{Err: err} }
		}
		var log logged
		s := supervise(t, &log, receiver{"a", final(one)}, receiver{
			"b",
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}, receiver{"c", final(two)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Receive(ctx) }()
		pass(time.Second)
		if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 2 {
			t.Errorf("the log has %q", lines)
		}
		cancel()
		err := <-ended
		if !errors.Is(err, one) || !errors.Is(err, two) || !slices.Equal(strings.Split(err.Error(), "\n"),
			[]string{"a: the input is broken", "c: the token was revoked"}) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestTwoChannelsOfOneNameAreRefused(t *testing.T) {
	if _, err := channels.NewSupervisor(nil, nil, zerolog.Nop(), channels.Entry{Account: channels.Account{Kind: "x"}},
		channels.Entry{Account: channels.Account{Kind: "x"}}); err == nil {
		t.Error("no error")
	}
}

// perch is a channel that keeps a door open until its run ends, and says how often it must hear from its platform.
type perch struct {
	receiver
	period time.Duration
	door   chan channels.Door
}

func (p perch) Period() time.Duration { return p.period }

func (p perch) Run(ctx context.Context, door channels.Door) error {
	p.door <- door
	<-ctx.Done()
	return ctx.Err()
}

// tended is a supervisor of one perch that runs until the test ends.
func tended(t *testing.T, period time.Duration) (*channels.Supervisor, perch) {
	t.Helper()
	o := newOutbox(t, "", "")
	p := perch{period: period, door: make(chan channels.Door, 100)}
	s, err := channels.NewSupervisor(o.Door, o.Outbox, zerolog.Nop(), entry("a", p))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Receive(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return s, p
}

func TestARestartedAccountIsRunAnewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := tended(t, time.Hour)
		for range 3 {
			if err := s.Restart(entry("a", p).Account); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if st := s.Status()[0]; len(p.door) != 4 || st.State != channels.Running || st.LastError != "" {
			t.Errorf("%d runs, the account is %+v", len(p.door), st)
		}
		if err := s.Restart(channels.Account{Kind: "nobody"}); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("an account that there is not: %v", err)
		}
	})
}

// "corebot channels restart mail" names a kind.
func TestTheOnlyAccountOfAKindIsRestartedByTheNameOfTheKind(t *testing.T) {
	for name, c := range map[string]struct {
		accounts []string
		want     string
	}{
		"one account":  {[]string{"work"}, "work"},
		"several":      {[]string{"work", "main"}, "main"},
		"none is main": {[]string{"work", "home"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				runs := map[string]int{}
				var entries []channels.Entry
				for _, account := range c.accounts {
					entries = append(entries, channels.Entry{
						Account: channels.Account{Kind: "net", Name: account},
						Channel: &platform{run: func(ctx context.Context, _ channels.Door) error {
							mu.Lock()
							runs[account]++
							mu.Unlock()
							<-ctx.Done()
							return nil
						}},
					})
				}
				s, err := channels.NewSupervisor(nil, nil, zerolog.Nop(), entries...)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Receive(ctx) }()
				synctest.Wait()
				err = s.Restart(channels.Account{Kind: "net"})
				synctest.Wait()
				cancel()
				<-ended
				for account, n := range runs {
					if want := map[bool]int{true: 2, false: 1}[account == c.want]; n != want {
						t.Errorf("%s was run %d times", account, n)
					}
				}
				if (err == nil) != (c.want != "") {
					t.Error(err)
				}
			})
		})
	}
}

func TestARestartEndsABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		var log logged
		s := supervise(t, &log, receiver{"c", func(ctx context.Context) error {
			if runs++; runs < 6 {
				return errors.New("no connection")
			}
			<-ctx.Done()
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Receive(ctx) }()
		for range 5 {
			synctest.Wait()
			if err := s.Restart(channels.Account{Kind: "c"}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if runs != 6 {
			t.Errorf("%d runs", runs)
		}
		cancel()
		<-ended
		if err := s.Restart(channels.Account{Kind: "c"}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("an account that has ended: %v", err)
		}
	})
}

func TestAPlatformThatAsksToWaitIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var starts []time.Time
		begun := func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(starts)
		}
		waits := []time.Duration{5 * time.Minute, 48 * time.Hour, 0}
		var log logged
		s := supervise(t, &log, receiver{"c", func(ctx context.Context) error {
			mu.Lock()
			starts = append(starts, time.Now())
			mu.Unlock()
			if n := len(begun()); n <= len(waits) {
				return fmt.Errorf("ask: %w", &corebot.Failure{
					Class: corebot.RateLimited, RetryAfter: waits[n-1], Err: errors.New("too many requests"),
				})
			}
			<-ctx.Done()
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Receive(ctx) }()
		pass(time.Minute)
		if st := s.Status()[0]; len(begun()) != 1 || !strings.HasSuffix(st.LastError, "asks to wait for 5m0s") {
			t.Errorf("%d runs, the account is %+v", len(begun()), st)
		}
		pass(25 * time.Hour) // the second wait is too long to be believed
		if at := begun(); len(at) != 4 || at[1].Sub(at[0]) != waits[0] || at[2].Sub(at[1]) != 24*time.Hour ||
			at[3].Sub(at[2]) > time.Minute {
			t.Errorf("the runs came at %v", at)
		}
		cancel()
		<-ended
	})
}

func TestARestartEndsAWaitThatThePlatformAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		var log logged
		s := supervise(t, &log, receiver{"c", func(ctx context.Context) error {
			if runs.Add(1) == 1 {
				return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: time.Hour, Err: errors.New("wait")}
			}
			<-ctx.Done()
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Receive(ctx) }()
		synctest.Wait()
		if err := s.Restart(channels.Account{Kind: "c"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := runs.Load(); n != 2 {
			t.Errorf("%d runs", n)
		}
		cancel()
		<-ended
	})
}

func TestAConnectionThatIsOpenAndDeafIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := tended(t, 10*time.Second)
		door := <-p.door
		for range 100 { // an empty poll is an answer
			pass(15 * time.Second)
			door.Alive()
		}
		if len(p.door) != 0 {
			t.Fatal("an account that is alive was run again")
		}
		pass(40 * time.Second)
		if st := s.Status()[0]; len(p.door) != 1 || !strings.Contains(st.LastError, "nothing was heard") {
			t.Errorf("%d more runs, the account is %+v", len(p.door), st)
		}
	})
}

// heard is a channel of a platform that is heard every second.
type heard struct{ receiver }

func (heard) Period() time.Duration { return time.Second }

func TestAnAccountWhoseRunDoesNotEndWhenItIsToldToIsOverdueUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		c := heard{receiver{"deaf", func(ctx context.Context) error {
			<-let // whatever ctx says
			<-ctx.Done()
			return nil
		}}}
		s, err := channels.NewSupervisor(nil, nil, zerolog.Nop(),
			channels.Entry{Account: channels.Account{Kind: "deaf"}, Channel: c})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Receive(ctx) }()
		overdue := func() string {
			mark, err := s.Overdue(t.Context())
			if err != nil {
				t.Error(err)
			}
			return mark
		}
		pass(time.Second)
		if mark := overdue(); mark != "" {
			t.Errorf("before it is deaf, overdue is %q", mark)
		}
		pass(3 * time.Second)
		if mark := overdue(); !strings.Contains(mark, "the run of deaf") {
			t.Errorf("deaf, overdue is %q", mark)
		}
		close(let)
		pass(time.Millisecond)
		if mark := overdue(); mark != "" {
			t.Errorf("after its end, overdue is %q", mark)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAnAccountIsDownFromItsFailureUntilItHasRunForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := 3
		var log logged
		s := supervise(t, &log, receiver{"c", func(ctx context.Context) error {
			if fails--; fails >= 0 {
				time.Sleep(time.Second)
				return errors.New("no connection")
			}
			<-ctx.Done()
			return nil
		}})
		r := prometheus.NewRegistry()
		r.MustRegister(s)
		up := func() float64 {
			all, err := r.Gather()
			if err != nil || len(all) != 1 {
				t.Fatalf("gathered %v (%v)", all, err)
			}
			return all[0].GetMetric()[0].GetGauge().GetValue()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Receive(ctx) }()
		pass(time.Millisecond)
		if up() != 1 || len(s.Down()) != 0 {
			t.Error("it is down before it has failed")
		}
		pass(10 * time.Second) // it has failed, and tries again
		if up() != 0 || len(s.Down()) != 1 {
			t.Error("it is up after its failure")
		}
		pass(3 * time.Minute)
		if up() != 1 || len(s.Down()) != 0 {
			t.Error("it is down after minutes of work")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
