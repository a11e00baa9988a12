package chain

import (
	"errors"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/breaker"
)

// ticket is one call in the eyes of the breakers: its own model's, and those of the other models of its provider, since some failures
// concern them all.
type ticket struct {
	chain    *Chain
	route    *route
	pass     breaker.Pass
	siblings []sibling
	done     bool
}

type sibling struct {
	route *route
	pass  breaker.Pass
}

// enter asks the model's breaker. cause is nil if the call may be made.
func (t *ticket) enter(now time.Time) (wait time.Duration, cause error) {
	if t.alone() {
		return 0, nil
	}
	var ok bool
	if t.pass, ok, wait, cause = t.route.breaker.Enter(now); !ok {
		t.done = true
		return wait, cause
	}
	for _, r := range t.chain.routes {
		if r != t.route && r.provider == t.route.provider {
			t.siblings = append(t.siblings, sibling{r, r.breaker.Join()})
		}
	}
	return 0, nil
}

// alone: a single model has no breaker.
func (t *ticket) alone() bool { return len(t.chain.routes) == 1 }

// giveBack gives up a place that no outcome has given back.
func (t *ticket) giveBack() {
	if !t.done && !t.alone() {
		t.done = true
		t.route.breaker.Release(t.pass)
	}
}

const (
	shortRest = 5 * time.Second  // of a model whose provider names a rate limit and no time
	longRest  = 15 * time.Minute // after a refused key, or of a model that does not exist: somebody has to mend it
)

// outcome tells the breakers what the call has met.
func (t *ticket) outcome(now time.Time, err error) {
	f := (*corebot.Failure)(nil)
	isFailure := errors.As(err, &f)
	switch {
	case t.alone():
	case err == nil:
		t.done = true
		t.route.breaker.Succeeded(t.pass)
	case !isFailure || llm.IsOfRequest(err):
		t.giveBack()
	case errors.Is(err, llm.ErrUnauthorized):
		t.each(true, func(b *breaker.Breaker, p breaker.Pass) { b.Trip(p, now, longRest, err) })
	case errors.Is(err, llm.ErrNoModel):
		t.each(false, func(b *breaker.Breaker, p breaker.Pass) { b.Trip(p, now, longRest, err) })
	case f.RetryAfter > 0:
		t.each(false, func(b *breaker.Breaker, p breaker.Pass) { b.Trip(p, now, f.RetryAfter, err) })
	case f.Class == corebot.RateLimited:
		t.each(false, func(b *breaker.Breaker, p breaker.Pass) { b.Trip(p, now, shortRest, err) })
	default:
		t.each(errors.Is(err, llm.ErrUnreachable), func(b *breaker.Breaker, p breaker.Pass) { b.Failed(p, now, err) })
	}
}

// each tells the model's breaker, and its siblings' if they are concerned.
func (t *ticket) each(siblings bool, tell func(*breaker.Breaker, breaker.Pass)) {
	t.done = true
	tell(t.route.breaker, t.pass)
	for _, s := range t.siblings {
		if siblings {
			tell(s.route.breaker, s.pass)
		}
	}
}

// concernsProvider says whether another model of the same provider would fail as well.
func concernsProvider(err error) bool {
	return errors.Is(err, llm.ErrUnauthorized) || errors.Is(err, llm.ErrUnreachable)
}
