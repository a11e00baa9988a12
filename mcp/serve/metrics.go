package serve

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// metrics have bounded labels: the tools that there are and "unknown", the outcomes of calls and "interrupted".
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	known    map[string]bool
}

func newMetrics(r prometheus.Registerer, tools []Tool) (*metrics, error) {
	m := &metrics{known: map[string]bool{}, calls: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "corebot_mcp_serve_calls_total", Help: "Calls of MCP clients, by tool and outcome; interrupted is one " +
			"whose client has gone, or that the store did not take.",
	}, []string{"tool", "outcome"}), duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "corebot_mcp_serve_call_duration_seconds",
		Help:    "How long calls of MCP clients took, waits for replies included.",
		Buckets: []float64{.005, .02, .1, .5, 2, 10, 60, 600},
	}, []string{"tool"})}
	m.show("unknown")
	for _, t := range tools {
		m.known[t.Name] = true
		m.show(t.Name)
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(m.calls), r.Register(m.duration))
}

// show has the series of a tool from the start.
func (m *metrics) show(tool string) {
	for _, outcome := range []corebot.AuditOutcome{
		corebot.OutcomeSuccess, corebot.OutcomeDenied, corebot.OutcomeError, corebot.OutcomeInvalidArgs,
		corebot.OutcomeUnknown, interrupted,
	} {
		m.calls.WithLabelValues(tool, string(outcome))
	}
}

// interrupted is how a call ends whose client has gone, or whose result the store did not take.
const interrupted = "interrupted"

func (m *metrics) count(tool, outcome string, took time.Duration) {
	if !m.known[tool] {
		tool = "unknown"
	}
	m.calls.WithLabelValues(tool, outcome).Inc()
	m.duration.WithLabelValues(tool).Observe(took.Seconds())
}
