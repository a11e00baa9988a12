package mcp

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count by server where an operator has to know which server it is, and all servers together elsewhere. The
// names of servers are those of the operator. The series of a server that left the file are deleted.
type metrics struct {
	calls    *prometheus.CounterVec
	outcomes *prometheus.CounterVec
	seconds  prometheus.Histogram
	failed   *prometheus.CounterVec
	changes  prometheus.Counter
	reloads  *prometheus.CounterVec
	up       *prometheus.GaugeVec
	tools    *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	of := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "corebot_mcp_" + name, Help: help}
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		opts := prometheus.GaugeOpts{Name: "corebot_mcp_" + name, Help: help}
		return prometheus.NewGaugeVec(opts, []string{"server"})
	}
	m := &metrics{
		calls: prometheus.NewCounterVec(of("calls_total", "Calls of tools of MCP servers, by result: ok, failed."),
			[]string{"server", "result"}),
		outcomes: prometheus.NewCounterVec(of("call_outcomes_total", "The same calls of all servers, by outcome: ok, "+
			"tool_error (the tool says that it failed), refused (by the server), unsettled (no answer), busy, "+
			"resting (its breaker is open), down (not connected), cancelled."), []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "corebot_mcp_call_seconds", Help: "Time of calls that an MCP server was asked for.",
			Buckets: []float64{.01, .1, 1, 10, 60, 300},
		}),
		failed: prometheus.NewCounterVec(of("connect_failures_total",
			"Attempts to connect to MCP servers that failed."), []string{"server"}),
		changes: prometheus.NewCounter(of("tool_changes_total",
			"Tools of MCP servers that were new, or described differently, when they were listed again.")),
		reloads: prometheus.NewCounterVec(of("reloads_total",
			"Readings of the file of MCP servers, by outcome: ok, failed."), []string{"outcome"}),
		up:    gauge("connected", "Whether an MCP server is connected."),
		tools: gauge("tools", "Tools of an MCP server that are offered."),
	}
	for _, outcome := range []string{"ok", "failed"} {
		m.reloads.WithLabelValues(outcome) // shown from the start
	}
	for _, outcome := range callOutcomes {
		m.outcomes.WithLabelValues(outcome)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.calls, m.outcomes, m.seconds, m.failed, m.changes, m.reloads, m.up, m.tools,
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of MCP servers: %w", err)
		}
	}
	return m, nil
}

// callOutcomes are all outcomes that a call can have.
var callOutcomes = []string{"ok", "tool_error", "refused", "unsettled", "busy", "resting", "down", "cancelled"}

// add makes the series of a server, at zero.
func (m *metrics) add(server string) {
	for _, result := range []string{"ok", "failed"} {
		m.calls.WithLabelValues(server, result)
	}
	m.failed.WithLabelValues(server)
	for _, g := range []*prometheus.GaugeVec{m.up, m.tools} {
		g.WithLabelValues(server)
	}
}

// called counts a call. A cancelled call counts neither as good nor as failed: it says nothing of its server.
func (m *metrics) called(server, outcome string) {
	m.outcomes.WithLabelValues(outcome).Inc()
	switch outcome {
	case "cancelled":
	case "ok":
		m.calls.WithLabelValues(server, "ok").Inc()
	default:
		m.calls.WithLabelValues(server, "failed").Inc()
	}
}

// took observes the time of a call that reached its server.
func (m *metrics) took(d time.Duration) { m.seconds.Observe(d.Seconds()) }

// connectEnded counts an attempt to connect that failed. The gauge of connected servers is set elsewhere.
func (m *metrics) connectEnded(server string, err error) {
	if err != nil {
		m.failed.WithLabelValues(server).Inc()
	}
}

func (m *metrics) reloaded(err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.reloads.WithLabelValues(outcome).Inc()
}

// forget deletes the series of a server that left the file.
func (m *metrics) forget(server string) {
	of := prometheus.Labels{"server": server}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.calls, m.failed, m.up, m.tools} {
		v.DeletePartialMatch(of)
	}
}
