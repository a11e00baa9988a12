package tools

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// metrics counts calls. Labels are bounded: tools that exist, one word for all that do not, and the five outcomes. An MCP server names its tools as
// it likes, so that names are redacted: who reads the metrics may be nobody who may know the secret in one.
type metrics struct {
	hide     *redact.Redactor
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, hide *redact.Redactor) (*metrics, error) {
	m := &metrics{
		hide: hide,
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
	tool = m.hide.Text(tool)
	m.calls.WithLabelValues(tool, string(o)).Inc()
	m.duration.WithLabelValues(tool).Observe(took.Seconds())
}
