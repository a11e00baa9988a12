package serve

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// metrics have one label: the outcomes of calls and "interrupted".
type metrics struct {
	calls    *prometheus.CounterVec
	duration prometheus.Summary
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{calls: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "corebot_mcp_serve_calls_total", Help: "Calls of MCP clients, by outcome; interrupted is one whose " +
			"client has gone, or that the store did not take.",
	}, []string{"outcome"}), duration: prometheus.NewSummary(prometheus.SummaryOpts{
		Name: "corebot_mcp_serve_call_duration_seconds",
		Help: "How long calls of MCP clients took, waits for replies included.",
	})}
	for _, outcome := range []corebot.AuditOutcome{
		corebot.OutcomeSuccess, corebot.OutcomeDenied, corebot.OutcomeError, corebot.OutcomeInvalidArgs,
		corebot.OutcomeUnknown, interrupted,
	} {
		m.calls.WithLabelValues(string(outcome)) // shown from the start
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(m.calls), r.Register(m.duration))
}

// interrupted is how a call ends whose client has gone, or whose result the store did not take.
const interrupted = "interrupted"

func (m *metrics) count(outcome string, took time.Duration) {
	m.calls.WithLabelValues(outcome).Inc()
	m.duration.Observe(took.Seconds())
}
