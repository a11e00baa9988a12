package tools

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/internal/redact"
)

// metrics times calls. Labels are bounded: tools that exist, and one word for all that do not. An MCP server names its tools as
// it likes, so that names are redacted: who reads the metrics may be nobody who may know the secret in one.
type metrics struct {
	hide     *redact.Redactor
	duration *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, hide *redact.Redactor) (*metrics, error) {
	m := &metrics{
		hide: hide,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "corebot_tool_duration_seconds", Help: "How long tool calls took, from look-up to result.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 30, 120},
		}, []string{"tool"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.duration} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of tools: %w", err)
		}
	}
	return m, nil
}

// label is how counters name a tool.
func (m *metrics) label(tool string) string { return m.hide.Text(tool) }

// took notes how long a call took. How it ended is counted where its result is stored.
func (m *metrics) took(tool string, d time.Duration) {
	m.duration.WithLabelValues(m.label(tool)).Observe(d.Seconds())
}
