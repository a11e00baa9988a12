package agent

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

type metrics struct {
	calls *prometheus.CounterVec

	compactions *prometheus.CounterVec
	tooLong     prometheus.Counter
	merged      prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_model_calls_total",
			Help: "Calls of a model, by result: ok, transient, rate_limited, permanent, cancelled.",
		}, []string{"model", "result"}),
		compactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_compactions_total",
			Help: "Summaries of older messages, by how they were made: model, extract.",
		}, []string{"by"}),
		tooLong: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_context_too_long_total",
			Help: "Prompts that a provider found too long; each was halved and sent once more.",
		}),
		merged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_messages_merged_total",
			Help: "Messages that ended merged: the turn of another took them in, steered or collected.",
		}),
	}
	for _, by := range []string{"model", "extract"} {
		m.compactions.WithLabelValues(by) // shown from the start
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.calls, m.compactions, m.tooLong, m.merged} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the agent's metrics: %w", err)
		}
	}
	return m, nil
}

// show has the series of a model from the start.
func (m *metrics) show(model string) {
	for _, c := range []corebot.Class{corebot.Transient, corebot.RateLimited, corebot.Permanent, corebot.Cancelled} {
		m.calls.WithLabelValues(model, c.String())
	}
	m.calls.WithLabelValues(model, "ok")
}

func (m *metrics) called(model string, err error) {
	result := "ok"
	if f := (*corebot.Failure)(nil); errors.As(err, &f) {
		result = f.Class.String()
	} else if err != nil {
		result = corebot.Cancelled.String()
	}
	m.calls.WithLabelValues(model, result).Inc()
}

func (m *metrics) compacted(s corebot.Summary) {
	by := "model"
	if s.Model == "" {
		by = "extract"
	}
	m.compactions.WithLabelValues(by).Inc()
}
