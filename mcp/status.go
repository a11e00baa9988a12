package mcp

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/internal/breaker"
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
		calls: counter("calls_total", "Calls of tools of MCP servers, by outcome: ok, tool_error (the tool says that "+
			"it failed), refused (by the server), "+
			"unsettled (no answer), busy, resting (its breaker is open), down (not connected), cancelled.", "server",
			"outcome"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "corebot_mcp_call_seconds", Help: "Time of calls that an MCP server was asked for.",
			Buckets: prometheus.ExponentialBuckets(0.002, 4, 9),
		}, []string{"server"}),
		connects: counter("connects_total", "Attempts to connect to MCP servers, by outcome: ok, failed.", "server",
			"outcome"),
		changes: counter("tool_changes_total", "Tools of MCP servers that were seen to be not what was approved.",
			"server"),
		reloads: counter("reloads_total", "Readings of the file of MCP servers, by outcome: ok, failed.", "outcome"),
		up:      gauge("connected", "Whether an MCP server is connected."),
		tools:   gauge("tools", "Tools of an MCP server that are offered."),
		breaker: gauge("breaker", "State of the breaker of an MCP server: 0 closed, 1 half-open, 2 open."),
	}
	for _, outcome := range []string{"ok", "failed"} {
		m.reloads.WithLabelValues(outcome) // shown from the start
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.calls, m.seconds, m.connects, m.changes, m.reloads, m.up, m.tools,
		m.breaker,
	} {
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
