package bus

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Reasons of dead letters and waits. They are stored and counted; they never change.
const (
	ReasonAttempts  = corebot.ReasonAttempts
	ReasonPermanent = "permanent" // another attempt would fail in the same way
	ReasonTooLong   = corebot.ReasonTooLong
	ReasonPoison    = corebot.ReasonPoison
	ReasonDamaged   = corebot.ReasonDamaged
	ReasonShutdown  = "shutdown" // interrupted; not counted
)

// MaxRetryAfter bounds the wait that the other side can ask for.
const MaxRetryAfter = time.Hour

// maxErrorBytes bounds the error text that is kept with a message.
const maxErrorBytes = 2_000

// Unfit says whether a delivery must not run, and how to end it. A delivery is unfit if its body is damaged, or if it
// lost its lease too often.
func (b *Bus) Unfit(d corebot.Delivery) (corebot.Outcome, bool) {
	switch {
	case d.Damaged != nil:
		return dead(ReasonDamaged, d.Damaged), true
	case d.Lost >= b.opts.MaxLost:
		return dead(ReasonPoison, fmt.Errorf("its worker died %d times in a row at the same place", d.Lost)), true
	}
	return corebot.Outcome{}, false
}

// Verdict turns a failure into the outcome that the rules require.
func (b *Bus) Verdict(d corebot.Delivery, err error) corebot.Outcome {
	class, asked := classify(err)
	now := time.Now()
	if class == corebot.Cancelled {
		out := corebot.Outcome{Verb: corebot.Wait, At: now.Add(min(asked, MaxRetryAfter)), Reason: ReasonShutdown}
		if asked > 0 { // nothing bounds such waits, so an operator must find out what they are for
			out.Reason, out.Error = corebot.NotNow, errorText(err)
		}
		return out
	}
	uncounted := class == corebot.RateLimited && b.patient(d, now)
	switch {
	case errors.Is(err, corebot.ErrDiverged), errors.Is(err, corebot.ErrUnstorable):
		return dead(corebot.ReasonUnstored, err)
	case class == corebot.Permanent && errors.Is(err, corebot.ErrTooLarge):
		return dead(ReasonTooLong, err)
	case class == corebot.Permanent:
		return dead(ReasonPermanent, err)
	case d.Attempt >= b.opts.MaxAttempts && !uncounted:
		return dead(ReasonAttempts, err)
	}
	return corebot.Outcome{
		Verb: corebot.RetryAt, At: now.Add(b.wait(d.Attempt+d.Limited, asked)), Uncounted: uncounted,
		Error: errorText(err), Class: class.String(), Plain: corebot.ExplanationOf(err).Plain,
	}
}

// patient says whether a rate limit uses up no attempt: it does not within LimitPatience from the first rate limit of
// the run. A clock that was set back ends the patience, because nothing else would end it.
func (b *Bus) patient(d corebot.Delivery, now time.Time) bool {
	if d.Limited == 0 {
		return b.opts.LimitPatience > 0
	}
	since := now.Sub(d.LimitedAt)
	return since >= 0 && since < b.opts.LimitPatience
}

// wait is the pause after the nth failure of a message: the backoff, or the wait that the other side asked for if that
// is longer. The asked wait grows by a random part of up to a quarter, so that all clients with the same answer do not
// come back at once.
func (b *Bus) wait(n int, asked time.Duration) time.Duration {
	after := b.backoff.After(n)
	if asked = min(asked, MaxRetryAfter); asked <= 0 {
		return after
	}
	return max(after, asked+rand.N(asked/4+1))
}

// classify reads an error's class. An unclassified error is worth another attempt.
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
	class, _ := classify(err)
	return corebot.Outcome{
		Verb: corebot.Dead, Reason: reason, Error: errorText(err), Class: class.String(),
		Plain: corebot.ExplanationOf(err).Plain,
	}
}

func errorText(err error) string {
	s := err.Error()
	if len(s) > maxErrorBytes {
		s = strings.ToValidUTF8(s[:maxErrorBytes], "") + "…"
	}
	return s
}
