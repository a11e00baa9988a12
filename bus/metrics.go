package bus

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/trace"
)

type metrics struct {
	publish *prometheus.CounterVec
	settle  *prometheus.CounterVec
	lost    prometheus.Counter
	life    *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		publish: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_bus_published_total",
			Help: "Messages offered to the bus, by what became of them: accepted, duplicate, conflict, refused.",
		}, []string{"direction", "result"}),
		settle: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_bus_settled_total", Help: "Claims that ended, by outcome: done, retry, wait, dead, park.",
		}, []string{"direction", "outcome"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_bus_leases_lost_total", Help: "Leases that another claim had taken when they were to be " +
				"extended. A claim that was settled meanwhile is not counted.",
		}),
		life: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "corebot_bus_message_seconds", Help: "Time from publish to the end of a message's life.",
			Buckets: []float64{.01, .1, 1, 5, 15, 60, 300, 3600},
		}, []string{"direction"}),
	}
	m.begin()
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.publish, m.settle, m.lost, m.life} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the bus's metrics: %w", err)
		}
	}
	return m, nil
}

// begin creates every series at zero, so that each is exported from the start.
func (m *metrics) begin() {
	for _, direction := range []corebot.Direction{corebot.Inbound, corebot.Outbound} {
		m.life.WithLabelValues(direction.String())
		for _, result := range []string{"accepted", "duplicate", "conflict", "refused"} {
			m.publish.WithLabelValues(direction.String(), result)
		}
		for _, outcome := range outcomeNames {
			m.settle.WithLabelValues(direction.String(), outcome)
		}
	}
}

// received counts a message that was offered, by what became of it.
func (m *metrics) received(d corebot.Direction, r corebot.Receipt) {
	m.publish.WithLabelValues(d.String(), result(r)).Inc()
}

// result names what became of a message that was offered.
func result(r corebot.Receipt) string {
	switch {
	case errors.Is(r.Err, corebot.ErrConflict):
		return "conflict"
	case r.Err != nil:
		return "refused"
	case r.Duplicate:
		return "duplicate"
	}
	return "accepted"
}

func (m *metrics) settled(d corebot.Delivery, o corebot.Outcome) {
	direction := d.Message.Direction.String()
	m.settle.WithLabelValues(direction, outcomeNames[o.Verb]).Inc()
	if o.Verb == corebot.Done || o.Verb == corebot.Dead {
		trace.Observe(m.life.WithLabelValues(direction), time.Since(d.PublishedAt).Seconds(), d.Message.Trace)
	}
}

var outcomeNames = map[corebot.OutcomeVerb]string{
	corebot.Done: "done", corebot.RetryAt: "retry", corebot.Wait: "wait",
	corebot.Dead: "dead", corebot.Defer: "park",
}
