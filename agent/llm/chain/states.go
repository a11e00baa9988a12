package chain

import (
	"errors"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// ModelState is one model of a [Chain] as it is now.
type ModelState struct {
	Name    string    `json:"name"`              // provider/model
	Breaker string    `json:"breaker"`           // see [breaker.State]
	Until   time.Time `json:"until,omitzero"`    // when a call may find out whether the model is back; zero while the breaker is closed
	Cause   string    `json:"cause,omitempty"`   // why the breaker is not closed
	Failing string    `json:"failing,omitempty"` // how the last call failed, if nothing says that the next one would not
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
