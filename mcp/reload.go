package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/tools"
)

// stamp tells one state of a file from another, without reading it.
type stamp struct {
	there    bool
	inode    uint64
	size     int64
	modified time.Time
	mode     fs.FileMode
	owner    uint32
	failed   bool // it could not be looked at
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{failed: !errors.Is(err, fs.ErrNotExist)}
	}
	s := stamp{there: true, size: info.Size(), modified: info.ModTime(), mode: info.Mode()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.owner = sys.Ino, sys.Uid
	}
	return s
}

// notice reads the file again if it has changed. To look costs a microsecond, so that every turn may.
func (m *Manager) notice() {
	m.mu.Lock()
	same := m.seen == stampOf(m.path)
	m.mu.Unlock()
	if !same {
		_ = m.read(false) // it has said what is wrong
	}
}

// read reads the file and brings the servers in line with it. A file that is wrong changes nothing but what is said of
// it. With again, servers that are not connected are begun anew.
func (m *Manager) read(again bool) error {
	m.reading.Lock()
	defer m.reading.Unlock()
	seen := stampOf(m.path)
	f, err := ReadFile(m.path, m.opts.Env)
	if err == nil {
		err = m.opts.Redactor.Learn(f.Secrets())
	}
	m.metrics.reloaded(err)
	m.mu.Lock()
	m.seen, m.fileErr = seen, err
	if err == nil {
		m.adopt(f.Servers, again)
	}
	trail := m.opts.Trail
	if m.life == nil { // nothing runs yet, nor does the store
		trail = nil
	}
	m.mu.Unlock()
	if err != nil {
		m.opts.Log.Error().Err(err).Str("hint",
			corebot.HintOf(err)).Msg("the file of MCP servers is wrong: what was there before stays")
		note(trail, m.opts.Log, "mcp.reload", corebot.OutcomeError, map[string]any{"error": clip(err.Error(), 300)})
		return err
	}
	m.publish()
	m.opts.Log.Info().Int("servers", len(f.Servers)).Msg("the file of MCP servers was read")
	note(trail, m.opts.Log, "mcp.reload", corebot.OutcomeSuccess, map[string]any{"servers": len(f.Servers)})
	return nil
}

// adopt brings the servers in line with entries. Unchanged servers stay as they are. A changed server is started beside
// the old one, which goes once the new one is connected. Servers without an entry go. The lock is held.
func (m *Manager) adopt(specs []Spec, again bool) {
	named := map[string]bool{}
	for _, spec := range specs {
		named[spec.Name] = true
		m.place(spec, again)
	}
	for name, s := range m.slots {
		if named[name] {
			continue
		}
		delete(m.slots, name)
		m.leave(s.active)
		if s.next != nil {
			m.leave(s.next)
		}
		m.metrics.forget(name)
	}
}

func (m *Manager) place(spec Spec, again bool) {
	s := m.slots[spec.Name]
	switch {
	case s == nil:
		m.slots[spec.Name] = &slot{active: m.begin(spec)}
		return
	case s.next != nil && s.next.spec.same(spec) && !(again && s.next.failed()):
		return
	}
	if s.next != nil {
		m.leave(s.next)
		s.next = nil
	}
	switch {
	case s.active.spec.same(spec) && !(again && s.active.failed()):
	case spec.Disabled || !s.active.wasConnected(): // there is nothing to keep
		m.leave(s.active)
		s.active = m.begin(spec)
	default:
		s.next = m.begin(spec)
	}
}

// begin makes a server and, while servers run, starts it.
func (m *Manager) begin(spec Spec) *server {
	s := newServer(spec, &m.opts, m.metrics, m.publish)
	m.metrics.add(spec.Name)
	if m.life != nil {
		s.start(m.life)
		m.settleBy = time.Now().Add(moment)
	}
	return s
}

// Defaults of [Options].
const (
	defaultConnectTimeout = 30 * time.Second
	defaultTimeout        = time.Minute
	defaultMaxTime        = 10 * time.Minute
	defaultMaxCalls       = 8
	defaultMaxMessage     = 4 << 20
	defaultPingEvery      = time.Minute
	defaultPingTime       = 10 * time.Second
	defaultGrace          = 2 * time.Second
)

// Trail takes events for the audit.
type Trail interface {
	Note(ctx context.Context, e corebot.AuditEvent) error
}

// Options of a [Manager]. Zero means the default; of the lists it means nothing.
type Options struct {
	AllowedServers []string // names, or beginnings and "*"
	AgentServers   []string // the same, of the agent: a server must be in both
	AllowedTools   []string // the same, of tools: mcp__SERVER__TOOL, SERVER/TOOL, or TOOL of any server
	PassEnv        []string // variables of Corebot's environment that every program sees
	ReadOnlyTools  []string // the same, which the operator declares to read only: mcp__SERVER__TOOL or SERVER/TOOL
	EgressTools    []string // the same, which can carry data to addresses that their arguments choose
	// TrustFirst lets the first listing of a server count as approved. Otherwise its tools are offered as unapproved,
	// and a turn that is offered an unapproved tool is tainted.
	TrustFirst bool
	PinTools   bool // hold back a changed tool until an approval (see [Pins]); the entry of a server can say otherwise

	ConnectTimeout time.Duration // from the start of a server to its list of tools
	Timeout        time.Duration // of a call, from its beginning or its last report of progress
	MaxTime        time.Duration // of a call, whatever progress is reported
	MaxCalls       int           // of one server at once
	MaxMessage     int           // bytes of one message of a server
	PingEvery      time.Duration
	PingTime       time.Duration // for the answer
	Grace          time.Duration // for a program to go, each time that it is told to

	Version   string                           // of Corebot, as servers are told
	Env       func(name string) (string, bool) // where variables are looked up; os.LookupEnv
	Pins      Pins                             // nil: changes of tools are not noticed, and no tool is approved
	Artifacts tools.Artifacts                  // nil: results that are not text are lost
	Redactor  *redact.Redactor                 // learns what is secret in the file; nil: one of our own
	Trail     Trail                            // nil: nothing is noted in the audit
	Log       zerolog.Logger                   // the zero logger is silent
	Metrics   prometheus.Registerer            // nil: none
}

func (o Options) withDefaults() Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, defaultConnectTimeout)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MaxTime = cmp.Or(o.MaxTime, max(defaultMaxTime, o.Timeout))
	o.MaxCalls = cmp.Or(o.MaxCalls, defaultMaxCalls)
	o.MaxMessage = cmp.Or(o.MaxMessage, defaultMaxMessage)
	o.PingEvery = cmp.Or(o.PingEvery, defaultPingEvery)
	o.PingTime = cmp.Or(o.PingTime, defaultPingTime)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	return o
}

func (o Options) validate() error {
	if o.ConnectTimeout < 0 || o.Timeout < 0 || o.MaxTime < o.Timeout || o.MaxCalls < 0 || o.MaxMessage < 0 ||
		o.PingEvery < 0 || o.PingTime < 0 || o.Grace < 0 {
		return fmt.Errorf("%w: MCP servers: connect timeout %v, timeout %v, longest time %v, %d calls, %d bytes, "+
			"ping every %v", corebot.ErrInvalid,
			o.ConnectTimeout, o.Timeout, o.MaxTime, o.MaxCalls, o.MaxMessage, o.PingEvery)
	}
	return nil
}
