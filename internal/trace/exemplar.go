package trace

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// Observe observes a value. A recorded trace becomes the exemplar of its bucket: from a slow bucket of a histogram one
// finds a message that fell into it.
func Observe(o prometheus.Observer, value float64, t corebot.Trace) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && t.Sampled {
		e.ObserveWithExemplar(value, prometheus.Labels{"trace_id": t.IDText()})
		return
	}
	o.Observe(value)
}
