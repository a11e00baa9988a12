package mcp

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/internal/breaker"
)

// metrics count by server. Names are the operator's, and those of servers that left are forgotten.
type metrics struct {
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	connects *prometheus.CounterVec
	changes  *prometheus.CounterVec
	reloads  *prometheus.CounterVec
	up       *prometheus.GaugeVec
	tools    *prometheus.GaugeVec
	breaker  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "corebot_mcp_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "corebot_mcp_" + name, Help: help}, []string{"server"})
	}
	m := &metrics{
		calls: counter("calls_total", "Calls of tools of MCP servers, by outcome: ok, tool_error (the tool says that it failed), refused (by the server), "+
			"unsettled (no answer), busy, resting (its breaker is open), down (not connected), cancelled.", "server", "outcome"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "corebot_mcp_call_seconds", Help: "Time of calls that an MCP server was asked for.", Buckets: prometheus.ExponentialBuckets(0.002, 4, 9),
		}, []string{"server"}),
		connects: counter("connects_total", "Attempts to connect to MCP servers, by outcome: ok, failed.", "server", "outcome"),
		changes:  counter("tool_changes_total", "Tools of MCP servers that were seen to be not what was approved.", "server"),
		reloads:  counter("reloads_total", "Readings of the file of MCP servers, by outcome: ok, failed.", "outcome"),
		up:       gauge("connected", "Whether an MCP server is connected."),
		tools:    gauge("tools", "Tools of an MCP server that are offered."),
		breaker:  gauge("breaker", "State of the breaker of an MCP server: 0 closed, 1 half-open, 2 open."),
	}
	for _, outcome := range []string{"ok", "failed"} {
		m.reloads.WithLabelValues(outcome) // shown from the start
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.calls, m.seconds, m.connects, m.changes, m.reloads, m.up, m.tools, m.breaker} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of MCP servers: %w", err)
		}
	}
	return m, nil
}

// callOutcomes are all that a call can have. Those that have not happened are shown as zero.
var callOutcomes = []string{"ok", "tool_error", "refused", "unsettled", "busy", "resting", "down", "cancelled"}

// show begins the series of a server.
func (m *metrics) show(server string) {
	for _, outcome := range callOutcomes {
		m.calls.WithLabelValues(server, outcome)
	}
	for _, outcome := range []string{"ok", "failed"} {
		m.connects.WithLabelValues(server, outcome)
	}
	m.changes.WithLabelValues(server)
}

func (m *metrics) called(server, outcome string) { m.calls.WithLabelValues(server, outcome).Inc() }

func (m *metrics) asked(server string, took time.Duration, b *breaker.Breaker) {
	m.seconds.WithLabelValues(server).Observe(took.Seconds())
	m.breaker.WithLabelValues(server).Set(float64(b.State(time.Now())))
}

func (m *metrics) connected(server string, err error) {
	m.connects.WithLabelValues(server, outcomeOf(err)).Inc()
}

func (m *metrics) reloaded(err error) { m.reloads.WithLabelValues(outcomeOf(err)).Inc() }

func outcomeOf(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

// forget takes away what is known of a server that left.
func (m *metrics) forget(server string) {
	of := prometheus.Labels{"server": server}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.calls, m.seconds, m.connects, m.changes, m.up, m.tools, m.breaker} {
		v.DeletePartialMatch(of)
	}
}
