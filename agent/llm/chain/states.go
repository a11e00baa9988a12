package chain

import "time"

// ModelState is one model of a [Chain] as it is now.
type ModelState struct {
	Name    string    `json:"name"`            // provider/model
	Breaker string    `json:"breaker"`         // see [breaker.State]
	Until   time.Time `json:"until,omitzero"`  // when a call may find out whether the model is back; zero while the breaker is closed
	Cause   string    `json:"cause,omitempty"` // why the breaker is not closed
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
		states[i] = s
	}
	return states
}
