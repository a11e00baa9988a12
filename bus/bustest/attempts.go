package bustest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

func attemptSpecs() []spec {
	return []spec{
		{"failures are retried until the last attempt, then the message is a dead letter", attemptsEnd},
		{"a permanent failure is dead at once", permanentIsDead},
		{"a provider's wish is granted up to an hour, and never shortens the backoff", retryAfterOnlyLengthens},
		{"rate limits use up no attempt for as long as the bus is patient", limitsAreNotCounted},
		{"the patience with rate limits ends with the message, and with a clock that steps back", patienceEnds},
		{"an interruption is not counted", interruptionIsNotCounted},
		{"a wait is not counted", waitIsNotCounted},
		{"an outcome that does not exist is refused and changes nothing", unknownOutcomeIsRefused},
		{"a life tells its attempts and its end", lifeTells},
	}
}

// maxAttempts is the suite's own number, independent of the default.
const maxAttempts = 5

var errBroken = errors.New("it broke")

func attemptsEnd(s *suite) {
	life := s.publish("a", "1")
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		d := s.claim("1")
		if d.Attempt != attempt {
			s.t.Fatalf("attempt %d, want %d", d.Attempt, attempt)
		}
		o := s.bus.Verdict(d, errBroken)
		want := corebot.RetryAt
		if attempt == maxAttempts {
			want = corebot.Dead
		}
		if o.Verb != want {
			s.t.Fatalf("attempt %d: %+v", attempt, o)
		}
		if wait := time.Until(o.At); want == corebot.RetryAt && (wait <= 0 || wait > time.Second<<(attempt-1)) {
			s.t.Fatalf("attempt %d: the backoff is %v", attempt, wait)
		}
		s.settle(d, o)
		time.Sleep(time.Minute)
	}
	s.nothingReady()
	if l := s.life(life); l.End != corebot.EndDead || l.Reason != bus.ReasonAttempts || l.Attempts != maxAttempts ||
		l.LastError != "it broke" {
		s.t.Fatalf("the life says %+v", l)
	}
}

func permanentIsDead(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	o := s.bus.Verdict(d, fmt.Errorf("ask the model: %w", &corebot.Failure{Class: corebot.Permanent, Err: errBroken}))
	if o.Verb != corebot.Dead || o.Reason != bus.ReasonPermanent {
		s.t.Fatalf("got %+v", o)
	}
	s.settle(d, o)
	s.nothingReady()
}

func limited(after time.Duration) error {
	return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: after, Err: errBroken}
}

func retryAfterOnlyLengthens(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	for asked, want := range map[time.Duration]time.Duration{
		17 * time.Minute: 17 * time.Minute,
		48 * time.Hour:   bus.MaxRetryAfter,
	} {
		spread := map[time.Duration]bool{}
		for range 20 {
			o := s.bus.Verdict(d, limited(asked))
			wait := time.Until(o.At)
			if o.Verb != corebot.RetryAt || wait < want || wait > want+want/4 {
				s.t.Errorf("asked for %v: %v in %v", asked, o.Verb, wait)
			}
			spread[wait] = true
		}
		if len(spread) < 10 {
			s.t.Errorf("asked for %v: all come back within %d moments", asked, len(spread))
		}
	}
	// The provider asks for a second every time; the backoff must grow all the same.
	late, longest := d, time.Duration(0)
	late.Attempt, late.Limited = 3, 5
	for range 100 {
		longest = max(longest, time.Until(s.bus.Verdict(late, limited(time.Second)).At))
	}
	if longest < 4*time.Second {
		s.t.Errorf("after eight failures the longest of 100 waits is %v", longest)
	}
	s.settle(d, s.bus.Verdict(d, limited(time.Minute)))
	time.Sleep(time.Minute - moment)
	s.nothingReady()
	time.Sleep(moment + time.Minute/4)
	s.claim("1")
}

func limitsAreNotCounted(s *suite) {
	life := s.publish("a", "1")
	began := time.Now()
	n := 0
	for ; time.Since(began) < bus.DefaultLimitPatience; n++ {
		d := s.claim("1")
		if d.Attempt != 1 || d.Limited != n || n > 0 && !d.LimitedAt.Equal(began) {
			s.t.Fatalf("limited %d times since %v: %+v", n, began, d)
		}
		o := s.bus.Verdict(d, limited(time.Second))
		if o.Verb != corebot.RetryAt || !o.Uncounted {
			s.t.Fatalf("limited %d times: %+v", n, o)
		}
		s.settle(d, o)
		if l := s.life(life); l.Attempts != 0 || l.AttemptLog[len(l.AttemptLog)-1].What != "limited" ||
			l.AttemptLog[len(l.AttemptLog)-1].Class != "rate_limited" {
			s.t.Fatalf("the life says %+v", l)
		}
		time.Sleep(max(time.Until(o.At), time.Minute))
	}
	if n < 20 {
		s.t.Fatalf("limited only %d times in an hour", n)
	}
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		d := s.claim("1")
		if d.Attempt != attempt || d.Limited != n {
			s.t.Fatalf("after an hour: %+v, want attempt %d", d, attempt)
		}
		o := s.bus.Verdict(d, limited(time.Second))
		if o.Uncounted || attempt == maxAttempts && o.Verb != corebot.Dead {
			s.t.Fatalf("after an hour, attempt %d: %+v", attempt, o)
		}
		s.settle(d, o)
		time.Sleep(time.Until(o.At))
	}
	if l := s.life(life); l.End != corebot.EndDead || l.Reason != bus.ReasonAttempts || l.Attempts != maxAttempts {
		s.t.Fatalf("the life says %+v", l)
	}
}

func patienceEnds(s *suite) {
	s.publish("a", "1")
	s.publish("a", "2")
	d := s.claim("1")
	s.settle(d, s.bus.Verdict(d, limited(0)))
	time.Sleep(time.Minute)
	d = s.claim("1")
	if d.Limited != 1 || !s.bus.Verdict(d, limited(0)).Uncounted || s.bus.Verdict(d, errBroken).Uncounted {
		s.t.Fatalf("%+v: %+v and %+v", d, s.bus.Verdict(d, limited(0)), s.bus.Verdict(d, errBroken))
	}
	d.LimitedAt = time.Now().Add(time.Hour)
	if s.bus.Verdict(d, limited(0)).Uncounted {
		s.t.Error("a limit from the future is not counted")
	}
	s.settle(d, answered())
	for range 2 { // the second claim of a head reads counts that the first claim stored
		if d = s.claim("2"); d.Limited != 0 || !d.LimitedAt.IsZero() {
			s.t.Errorf("the next message of the chat: %+v", d)
		}
		s.settle(d, retryIn(0))
	}
}

func interruptionIsNotCounted(s *suite) {
	s.publish("a", "1")
	for _, err := range []error{
		corebot.ErrShutdown,
		fmt.Errorf("the turn: %w", corebot.ErrShutdown),
		corebot.ErrLeaseLost,
		&corebot.Failure{Class: corebot.Cancelled, Err: context.Canceled},
		fmt.Errorf("%w: %w", corebot.ErrShutdown, &corebot.Failure{Class: corebot.Permanent, Err: errBroken}),
		corebot.ErrShutdown,
	} {
		d := s.claim("1")
		if d.Attempt != 1 {
			s.t.Fatalf("attempt %d", d.Attempt)
		}
		o := s.bus.Verdict(d, err)
		if o.Verb != corebot.Wait {
			s.t.Fatalf("%v: %+v", err, o)
		}
		s.settle(d, o)
	}
}

func waitIsNotCounted(s *suite) {
	s.publish("a", "1")
	s.settle(s.claim("1"), retryIn(0))
	for range 10 {
		d := s.claim("1")
		if d.Attempt != 2 || d.Lost != 0 {
			s.t.Fatalf("attempt %d, lost %d", d.Attempt, d.Lost)
		}
		s.settle(d, waitFor(time.Second))
		time.Sleep(time.Second)
	}
}

func unknownOutcomeIsRefused(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	before := s.census()
	for _, verb := range []corebot.OutcomeVerb{0, corebot.Defer + 1, 255} {
		if err := s.Queue.Settle(s.t.Context(), d, corebot.Outcome{Verb: verb}); err == nil {
			s.t.Errorf("outcome %d was written", verb)
		}
	}
	s.unchanged(before)
	s.settle(d, answered())
}

func lifeTells(s *suite) {
	life := s.publish("a", "1")
	if l := s.life(life); l.State == "running" || l.End != "" || l.Message == nil || l.Attempts != 0 {
		s.t.Fatalf("before its claim: %+v", l)
	}
	for i := range corebot.MaxAttemptsKept + 5 {
		d := s.claim("1")
		if l := s.life(life); l.State != "running" || l.Attempts != i+1 || !l.ClaimedAt.Equal(d.ClaimedAt) {
			s.t.Fatalf("while it runs: %+v", l)
		}
		s.settle(d, corebot.Outcome{Verb: corebot.RetryAt, At: time.Now(), Error: fmt.Sprint("error ", i)})
		time.Sleep(moment)
	}
	l := s.life(life)
	if n := len(l.AttemptLog); n != corebot.MaxAttemptsKept || l.AttemptLog[n-1].Error != l.LastError ||
		!strings.HasSuffix(l.LastError, "24") {
		s.t.Fatalf("the attempts are %+v, the last error is %q", l.AttemptLog, l.LastError)
	}
	s.settle(s.claim("1"), answered())
	if l = s.life(life); l.End != corebot.EndAnswered || l.EndedAt.IsZero() || l.Message != nil ||
		l.Attempts != corebot.MaxAttemptsKept+6 {
		s.t.Fatalf("after its end: %+v", l)
	}
}
