package chain

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/trace"
)

// Metrics count by provider and model, which are the operator's: their number is that of the settings. They outlive a
// chain: the next chain of the same process goes on counting.
type Metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	tokens  *prometheus.CounterVec
	shown   atomic.Pointer[Chain] // whose breakers are shown
}

// outcomes are those of a call.
var outcomes = []string{
	"ok", "resting", "transient", "rate_limited", "permanent", "cancelled", "context_too_long", "refused",
	"bad_request", "unauthorized", "no_model",
	"unreachable",
}

// NewMetrics registers the metrics of chains. r may be nil.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	labels := []string{"provider", "model"}
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_provider_calls_total",
			Help: "Calls of a provider's model, by outcome: ok, resting (not asked: its breaker is open), transient, " +
				"rate_limited, permanent, cancelled, " +
				"context_too_long, refused, bad_request, unauthorized, no_model, unreachable.",
		}, append(labels, "outcome")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "corebot_provider_seconds", Help: "Time of a call of a provider's model, to its last byte or its " +
				"failure.", Buckets: []float64{.1, 1, 5, 15, 60, 300},
		}, labels),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_provider_tokens_total",
			Help: "Tokens of a provider's model: input and output, and of the input cache_read and cache_write.",
		}, append(labels, "kind")),
	}
	if r == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.calls, m.seconds, m.tokens, breakers{m}} {
		if err := r.Register(collector); err != nil {
			return nil, fmt.Errorf("register the metrics of the providers: %w", err)
		}
	}
	return m, nil
}

// Show has the metrics show the breakers of a chain from now on, and its series from the start. nil: no chain answers.
func (m *Metrics) Show(c *Chain) {
	if c != nil {
		for _, route := range c.routes {
			for _, outcome := range outcomes {
				m.calls.WithLabelValues(route.provider, route.model.Name(), outcome)
			}
			m.seconds.WithLabelValues(route.provider, route.model.Name())
			for kind := range tokensOf(corebot.Usage{}) {
				m.tokens.WithLabelValues(route.provider, route.model.Name(), kind)
			}
		}
	}
	m.shown.Store(c)
}

// breakers are the breakers of the chain that is shown.
type breakers struct{ *Metrics }

var breakerState = prometheus.NewDesc("corebot_provider_breaker",
	"State of the breaker of a provider's model: 0 closed, 1 half-open, 2 open.", []string{"provider", "model"}, nil)

// Describe implements [prometheus.Collector].
func (breakers) Describe(all chan<- *prometheus.Desc) { all <- breakerState }

// Collect implements [prometheus.Collector].
func (b breakers) Collect(all chan<- prometheus.Metric) {
	c := b.shown.Load()
	if c == nil {
		return
	}
	for _, route := range c.routes {
		all <- prometheus.MustNewConstMetric(breakerState, prometheus.GaugeValue,
			float64(route.breaker.State(time.Now())), route.provider, route.model.Name())
	}
}

func (m *Metrics) called(r *route, u corebot.Usage, err error, took time.Duration, t corebot.Trace) {
	name := r.model.Name()
	m.calls.WithLabelValues(r.provider, name, llm.FaultOf(err)).Inc()
	trace.Observe(m.seconds.WithLabelValues(r.provider, name), took.Seconds(), t)
	for kind, n := range tokensOf(u) {
		m.tokens.WithLabelValues(r.provider, name, kind).Add(float64(n))
	}
}

// tokensOf are the tokens of a call, by the label of their series.
func tokensOf(u corebot.Usage) map[string]int64 {
	return map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens,
		"cache_read": u.CacheReadTokens, "cache_write": u.CacheWriteTokens,
	}
}

func (m *Metrics) skipped(r *route) {
	m.calls.WithLabelValues(r.provider, r.model.Name(), "resting").Inc()
}
