package chain

import (
	"errors"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/breaker"
)

// ticket tells the breakers how one call of a model ends. Some failures concern all models of a provider. So it holds a
// pass of that model's breaker, and one of the breaker of each other model of the same provider.
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

// enter asks the model's breaker for a pass. cause is nil if the call can be made; otherwise wait is how long the
// breaker stays open.
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

// alone reports whether the chain has a single model, which has no breaker.
func (t *ticket) alone() bool { return len(t.chain.routes) == 1 }

// giveBack returns the pass of a call without an outcome.
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

// outcome tells the breakers how the call ended.
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
		t.tellProvider(trip(now, longRest, err))
	case errors.Is(err, llm.ErrNoModel):
		t.tellModel(trip(now, longRest, err))
	case f.RetryAfter > 0:
		t.tellModel(trip(now, f.RetryAfter, err))
	case f.Class == corebot.RateLimited:
		t.tellModel(trip(now, shortRest, err))
	case errors.Is(err, llm.ErrUnreachable):
		t.tellProvider(failed(now, err))
	default:
		t.tellModel(failed(now, err))
	}
}

// news is what a breaker is told of a call.
type news func(*breaker.Breaker, breaker.Pass)

func trip(now time.Time, rest time.Duration, err error) news {
	return func(b *breaker.Breaker, p breaker.Pass) { b.Trip(p, now, rest, err) }
}

func failed(now time.Time, err error) news {
	return func(b *breaker.Breaker, p breaker.Pass) { b.Failed(p, now, err) }
}

// tellModel tells the breaker of the called model alone.
func (t *ticket) tellModel(n news) {
	t.done = true
	n(t.route.breaker, t.pass)
}

// tellProvider tells the breakers of all models of the provider.
func (t *ticket) tellProvider(n news) {
	t.tellModel(n)
	for _, s := range t.siblings {
		n(s.route.breaker, s.pass)
	}
}

// concernsProvider reports whether another model of the same provider would fail as well.
func concernsProvider(err error) bool {
	return errors.Is(err, llm.ErrUnauthorized) || errors.Is(err, llm.ErrUnreachable)
}

// stream shows the caller the text of one answer only, however many models are tried.
type stream struct {
	onText  func(string)
	onReset func()
	shown   bool // text of the current answer was shown
}

// begin gives the function that gets the text of the next answer. The caller is told first to take back the text of a
// failed answer. If the caller cannot take text back, begin gives nil: the next answer is not streamed.
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

// streak says whether the newest calls of a model failed.
type streak struct {
	mu      sync.Mutex
	refused int // bad requests in a row
	why     string
}

// maxRefusals is how many bad requests in a row show that the model refuses every request.
const maxRefusals = 3

// note records how a call ended. The end of the caller's context says nothing, nor does a request that is too long or
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
		if s.refused++; s.refused >= maxRefusals {
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
