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
		{"a provider's wish is granted up to an hour", retryAfterWins},
		{"an interruption is not counted", interruptionIsNotCounted},
		{"a wait is not counted", waitIsNotCounted},
		{"an outcome that does not exist is refused and changes nothing", unknownOutcomeIsRefused},
		{"a life tells its attempts and its end", lifeTells},
	}
}

// maxAttempts is what the suite sets, whatever the default is.
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
	if l := s.life(life); l.End != corebot.EndDead || l.Reason != bus.ReasonAttempts || l.Attempts != maxAttempts || l.LastError != "it broke" {
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

func retryAfterWins(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	for asked, want := range map[time.Duration]time.Duration{17 * time.Minute: 17 * time.Minute, 48 * time.Hour: bus.MaxRetryAfter} {
		o := s.bus.Verdict(d, &corebot.Failure{Class: corebot.RateLimited, RetryAfter: asked, Err: errBroken})
		if got := time.Until(o.At); o.Verb != corebot.RetryAt || got != want {
			s.t.Errorf("asked for %v: %v in %v", asked, o.Verb, got)
		}
	}
	s.settle(d, s.bus.Verdict(d, &corebot.Failure{Class: corebot.RateLimited, RetryAfter: time.Minute, Err: errBroken}))
	time.Sleep(time.Minute - moment)
	s.nothingReady()
	time.Sleep(moment)
	s.claim("1")
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
	for _, verb := range []corebot.OutcomeVerb{0, corebot.Park + 1, 255} {
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
	if n := len(l.AttemptLog); n != corebot.MaxAttemptsKept || l.AttemptLog[n-1].Error != l.LastError || !strings.HasSuffix(l.LastError, "24") {
		s.t.Fatalf("the attempts are %+v, the last error is %q", l.AttemptLog, l.LastError)
	}
	s.settle(s.claim("1"), answered())
	if l = s.life(life); l.End != corebot.EndAnswered || l.EndedAt.IsZero() || l.Message != nil || l.Attempts != corebot.MaxAttemptsKept+6 {
		s.t.Fatalf("after its end: %+v", l)
	}
}
