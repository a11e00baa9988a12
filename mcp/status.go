package mcp

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is how a server is doing. The values are part of what scripts read.
type State string

const (
	Connecting State = "connecting" // for the first time, or again
	Connected  State = "connected"
	Resting    State = "resting"  // connected; its calls failed, and none is made for a while
	Failed     State = "failed"   // it is tried again after a while
	Disabled   State = "disabled" // by its entry, or by mcp.allowed_servers
	Stopped    State = "stopped"  // Corebot does not run
)

// Status is one server as it is now.
type Status struct {
	Name      string    `json:"name"`
	Transport string    `json:"transport"`
	State     State     `json:"state"`
	Since     time.Time `json:"since"`     // when the state began
	LastError string    `json:"lastError"` // also what of it is not offered, and why; empty if all is well
	Tools     []string  `json:"tools"`     // as models are offered them

	// Unapproved are those of Tools that no operator has approved as they are: a turn that is offered them is tainted.
	Unapproved []string `json:"unapproved"`
}

// Description is what a server says of one of its tools, as a model is shown it.
type Description struct {
	Name    string `json:"name"`    // as models are offered it
	Tool    string `json:"tool"`    // as the server calls it
	Trusted bool   `json:"trusted"` // the operator stands for it: see [corebot.ToolPin.Vouched]
	// ReadOnly: the operator declares that the tool only reads. Hint: the server says so, which decides nothing.
	ReadOnly bool `json:"readOnly"`
	Hint     bool `json:"readOnlyHint,omitempty"`
	// Egress: the tool can carry data to an address that its arguments choose.
	Egress bool            `json:"egress"`
	Text   string          `json:"text"`
	Schema json.RawMessage `json:"schema"` // JSON Schema of the arguments

	Fingerprint string `json:"fingerprint,omitempty"` // of all that the server says of the tool: what an approval takes
	// why the tool is not offered, whatever is approved; then there is no fingerprint
	Unusable string `json:"unusable,omitempty"`
}

// Fingerprints are those of the tools that can be approved, by the names that their server gives them, and one over all
// of them.
func Fingerprints(all []Description) (each map[string]string, whole string) {
	each = map[string]string{}
	for _, d := range all {
		if d.Unusable == "" {
			each[d.Tool] = d.Fingerprint
		}
	}
	return each, digest(each)
}

// Overview is all servers, by name, and what is wrong with their file: then the servers are those of the last good one.
type Overview struct {
	Servers   []Status `json:"servers"`
	FileError string   `json:"fileError,omitempty"`
	Hint      string   `json:"hint,omitempty"` // what to do about the file's error
	Warnings  []string `json:"warnings,omitempty"`
}

// Describe gives the servers of a file without reaching any of them.
func (f File) Describe() []Status {
	all := make([]Status, len(f.Servers))
	for i, s := range f.Servers {
		all[i] = Status{Name: s.Name, Transport: s.Transport, State: Stopped, Tools: []string{}, Unapproved: []string{}}
		if s.Disabled {
			all[i].State = Disabled
		}
	}
	return all
}

// metrics count by server where an operator has to know which one, and together elsewhere. Names are the operator's.
// Those of servers that left are forgotten.
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

// callOutcomes are all that a call can have.
var callOutcomes = []string{"ok", "tool_error", "refused", "unsettled", "busy", "resting", "down", "cancelled"}

// show begins the series of a server.
func (m *metrics) show(server string) {
	for _, result := range []string{"ok", "failed"} {
		m.calls.WithLabelValues(server, result)
	}
	m.failed.WithLabelValues(server)
	for _, g := range []*prometheus.GaugeVec{m.up, m.tools} {
		g.WithLabelValues(server)
	}
}

// called counts a call. One that the caller took back says nothing of its server.
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

func (m *metrics) asked(took time.Duration) { m.seconds.Observe(took.Seconds()) }

func (m *metrics) connected(server string, err error) {
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

// forget takes away what is known of a server that left.
func (m *metrics) forget(server string) {
	of := prometheus.Labels{"server": server}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.calls, m.failed, m.up, m.tools} {
		v.DeletePartialMatch(of)
	}
}
