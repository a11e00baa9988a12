package tools

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// metrics counts calls. Labels are bounded: tools that exist, one word for all that do not, and the five outcomes.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_tool_calls_total", Help: "Tool calls that ended, by tool and outcome.",
		}, []string{"tool", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "corebot_tool_duration_seconds", Help: "How long tool calls took, from look-up to result.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 30, 120},
		}, []string{"tool"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.calls, m.duration} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of tools: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) count(tool string, o corebot.AuditOutcome, took time.Duration) {
	m.calls.WithLabelValues(tool, string(o)).Inc()
	m.duration.WithLabelValues(tool).Observe(took.Seconds())
}
