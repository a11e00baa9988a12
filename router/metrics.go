package router

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	turns   *prometheus.CounterVec
	seconds prometheus.Histogram
	parked  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, a *active) (*metrics, error) {
	m := &metrics{
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_turns_total", Help: "Claims of inbound messages that ended, by how: answered, stopped, refused, retrying, waiting, parked, dead, uncommitted.",
		}, []string{"end"}),
		parked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_budget_refusals_total", Help: "Turns that were not begun because a cap of the budget was used up: of the chat, principal, role or total.",
		}, []string{"scope"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "corebot_turn_seconds", Help: "Time of a turn, from its claim to its commit.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}),
	}
	if r == nil {
		return m, nil
	}
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "corebot_turns_running", Help: "Turns that run now."}, func() float64 { return float64(a.count()) })
	for _, c := range []prometheus.Collector{m.turns, m.seconds, m.parked, running} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the router's metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) turn(end string, d time.Duration) {
	m.turns.WithLabelValues(end).Inc()
	m.seconds.Observe(d.Seconds())
}
