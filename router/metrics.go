package router

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/trace"
)

type metrics struct {
	lost     prometheus.Counter
	seconds  prometheus.Histogram
	deferred *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, a *active) (*metrics, error) {
	m := &metrics{
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_turns_uncommitted_total",
			Help: "Turns that this process did not commit: they run again. Those that ended are corebot_turns_total.",
		}),
		deferred: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_budget_refusals_total", Help: "Turns that were not begun because a cap of the budget was " +
				"used up: of the chat, principal, role or total.",
		}, []string{"scope"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "corebot_turn_seconds", Help: "Time of a turn, from its claim to its commit.",
			Buckets: []float64{.01, .1, 1, 5, 15, 60, 300, 3600},
		}),
	}
	for _, scope := range corebot.BudgetScopes() {
		m.deferred.WithLabelValues(string(scope)) // creates the series at zero
	}
	if r == nil {
		return m, nil
	}
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "corebot_turns_running", Help: "Turns that run now."},
		func() float64 { return float64(a.count()) })
	oldest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "corebot_turn_oldest_seconds", Help: "For how long the turn that began first of those that run has run.",
	}, func() float64 { return a.oldest().Seconds() })
	for _, c := range []prometheus.Collector{m.lost, m.seconds, m.deferred, running, oldest} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the router's metrics: %w", err)
		}
	}
	return m, nil
}

// turn observes the duration of a turn. The store counts how the turn ended.
func (m *metrics) turn(d time.Duration, s *trace.Span) { trace.Observe(m.seconds, d.Seconds(), s.At()) }
