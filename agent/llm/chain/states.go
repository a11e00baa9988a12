package chain

import "time"

// ModelState is one model of a [Chain] as it is now.
type ModelState struct {
	Name    string    `json:"name"`            // provider/model
	Breaker string    `json:"breaker"`         // see [State]
	Until   time.Time `json:"until,omitzero"`  // when a call may find out whether the model is back; zero while the breaker is closed
	Cause   string    `json:"cause,omitempty"` // why the breaker is not closed
}

// States are the models in their order.
func (c *Chain) States(now time.Time) []ModelState {
	states := make([]ModelState, len(c.routes))
	for i, r := range c.routes {
		states[i] = r.breaker.describe(now)
		states[i].Name = r.name()
	}
	return states
}

func (b *breaker) describe(now time.Time) ModelState {
	state := b.state(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := ModelState{Breaker: state.String(), Until: b.until}
	if b.cause != nil {
		s.Cause = b.cause.Error()
	}
	return s
}
