package bus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Reasons of dead letters and waits. They are stored and counted; they never change.
const (
	ReasonAttempts  = "attempts"               // every attempt failed
	ReasonPermanent = "permanent"              // it would fail the same way again
	ReasonTooLong   = "too long for the model" // it, and what belongs to it, is more than the model takes
	ReasonPoison    = "poison"                 // its workers die of it
	ReasonDamaged   = "damaged"                // its stored body cannot be read
	ReasonShutdown  = "shutdown"               // interrupted; not counted
)

// MaxRetryAfter bounds how long a provider may ask us to wait.
const MaxRetryAfter = time.Hour

// maxErrorBytes bounds the error text that is kept with a message.
const maxErrorBytes = 2_000

// Unfit says whether a delivery must not run, and how to end it: its body is damaged, or its workers die of it.
func (b *Bus) Unfit(d corebot.Delivery) (corebot.Outcome, bool) {
	switch {
	case d.Damaged != nil:
		return dead(ReasonDamaged, d.Damaged), true
	case d.Lost >= b.opts.MaxLost:
		return dead(ReasonPoison, fmt.Errorf("its worker died %d times in a row at the same place", d.Lost)), true
	}
	return corebot.Outcome{}, false
}

// Verdict turns a failure into the outcome that the rules ask for.
func (b *Bus) Verdict(d corebot.Delivery, err error) corebot.Outcome {
	class, after := classify(err)
	now := time.Now()
	switch {
	case class == corebot.Cancelled:
		reason := ReasonShutdown
		if after > 0 {
			reason = corebot.NotNow
		}
		return corebot.Outcome{Verb: corebot.Wait, At: now.Add(min(after, MaxRetryAfter)), Reason: reason}
	case class == corebot.Permanent && errors.Is(err, corebot.ErrTooLarge):
		return dead(ReasonTooLong, err)
	case class == corebot.Permanent:
		return dead(ReasonPermanent, err)
	case d.Attempt >= b.opts.MaxAttempts:
		return dead(ReasonAttempts, err)
	case after <= 0:
		after = b.backoff.After(d.Attempt)
	}
	return corebot.Outcome{Verb: corebot.RetryAt, At: now.Add(min(after, MaxRetryAfter)), Error: errorText(err)}
}

// classify reads an error's class. What nobody classified is worth another attempt.
func classify(err error) (corebot.Class, time.Duration) {
	if errors.Is(err, corebot.ErrShutdown) || errors.Is(err, corebot.ErrLeaseLost) {
		return corebot.Cancelled, 0
	}
	if f := (*corebot.Failure)(nil); errors.As(err, &f) {
		return f.Class, f.RetryAfter
	}
	return corebot.Transient, 0
}

func dead(reason string, err error) corebot.Outcome {
	return corebot.Outcome{Verb: corebot.Dead, Reason: reason, Error: errorText(err)}
}

func errorText(err error) string {
	s := err.Error()
	if len(s) > maxErrorBytes {
		s = strings.ToValidUTF8(s[:maxErrorBytes], "") + "…"
	}
	return s
}
