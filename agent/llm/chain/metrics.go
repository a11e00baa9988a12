package chain

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// metrics count by provider and model, which are the operator's: their number is that of the settings.
type metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	tokens  *prometheus.CounterVec
}

// outcomes are those of a call.
var outcomes = []string{
	"ok", "resting", "transient", "rate_limited", "permanent", "cancelled", "context_too_long", "refused",
	"bad_request", "unauthorized", "no_model",
	"unreachable",
}

func newMetrics(r prometheus.Registerer, c *Chain) (*metrics, error) {
	labels := []string{"provider", "model"}
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_provider_calls_total",
			Help: "Calls of a provider's model, by outcome: ok, resting (not asked: its breaker is open), transient, " +
				"rate_limited, permanent, cancelled, " +
				"context_too_long, refused, bad_request, unauthorized, no_model, unreachable.",
		}, append(labels, "outcome")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "corebot_provider_seconds", Help: "Time of a call of a provider's model, to its last byte or its " +
				"failure.", Buckets: prometheus.ExponentialBuckets(0.01, 3, 9),
		}, labels),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_provider_tokens_total",
			Help: "Tokens of a provider's model: input and output, and of the input cache_read and cache_write.",
		}, append(labels, "kind")),
	}
	if r == nil {
		return m, nil
	}
	for _, route := range c.routes {
		for _, outcome := range outcomes {
			m.calls.WithLabelValues(route.provider, route.model.Name(), outcome) // shown from the start
		}
	}
	collectors := []prometheus.Collector{m.calls, m.seconds, m.tokens}
	for _, route := range c.routes {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "corebot_provider_breaker",
			Help:        "State of the breaker of a provider's model: 0 closed, 1 half-open, 2 open.",
			ConstLabels: prometheus.Labels{"provider": route.provider, "model": route.model.Name()},
		}, func() float64 { return float64(route.breaker.State(time.Now())) }))
	}
	for _, collector := range collectors {
		if err := r.Register(collector); err != nil {
			return nil, fmt.Errorf("register the metrics of the providers: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) called(r *route, u corebot.Usage, err error, took time.Duration) {
	name := r.model.Name()
	m.calls.WithLabelValues(r.provider, name, llm.FaultOf(err)).Inc()
	m.seconds.WithLabelValues(r.provider, name).Observe(took.Seconds())
	for kind, n := range map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens,
		"cache_read": u.CacheReadTokens, "cache_write": u.CacheWriteTokens,
	} {
		m.tokens.WithLabelValues(r.provider, name, kind).Add(float64(n))
	}
}

func (m *metrics) skipped(r *route) {
	m.calls.WithLabelValues(r.provider, r.model.Name(), "resting").Inc()
}
