package chain

import (
	"errors"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/breaker"
)

// ticket is one call in the eyes of the breakers: its own model's, and those of the other models of its provider, since
// some failures concern them all.
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

// stream keeps what the caller is shown to one answer.
type stream struct {
	onText  func(string)
	onReset func()
	shown   bool // something of an answer that then failed
}

// begin is where the next answer streams to. Text of an earlier answer is taken back first. If the caller has no way to
// take text back, the next answer is not streamed.
func (s *stream) begin() func(string) {
	if s.onText == nil {
		return nil
	}
	if s.shown {
		if s.onReset == nil {
			return nil
		}
		s.onReset()
		s.shown = false
	}
	return func(text string) {
		s.shown = true
		s.onText(text)
	}
}

// ModelState is one model of a [Chain] as it is now.
type ModelState struct {
	Name    string `json:"name"`    // provider/model
	Breaker string `json:"breaker"` // see [breaker.State]
	// when a call may find out whether the model is back; zero while the breaker is closed
	Until time.Time `json:"until,omitzero"`
	Cause string    `json:"cause,omitempty"` // why the breaker is not closed
	// how the last call failed, if nothing says that the next one would not
	Failing string `json:"failing,omitempty"`
}

// States are the models in their order.
func (c *Chain) States(now time.Time) []ModelState {
	states := make([]ModelState, len(c.routes))
	for i, r := range c.routes {
		s := ModelState{Name: r.name(), Breaker: r.breaker.State(now).String()}
		var cause error
		if s.Until, cause = r.breaker.Why(); cause != nil {
			s.Cause = cause.Error()
		}
		s.Failing = r.last.failing()
		states[i] = s
	}
	return states
}

// streak is what the newest calls of a model have met.
type streak struct {
	mu      sync.Mutex
	refused int // requests that were found bad, in a row
	why     string
}

// refusals is how many bad requests in a row are no accident of a request: the model refuses every one.
const refusals = 3

// note learns how a call ended. The end of the caller's context says nothing, nor does a request that is too long or
// that the model declines.
func (s *streak) note(err error) {
	f := (*corebot.Failure)(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.refused, s.why = 0, ""
	case !errors.As(err, &f), errors.Is(err, llm.ErrContextTooLong), errors.Is(err, llm.ErrRefused):
	case errors.Is(err, llm.ErrBadRequest):
		if s.refused++; s.refused >= refusals {
			s.why = err.Error()
		}
	default:
		s.why = err.Error()
	}
}

func (s *streak) failing() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}
