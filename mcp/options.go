package mcp

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/tools"
)

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
	TrustFirst     bool     // what a tool says of itself when it is seen first needs no approval; a turn that is offered what needs one is tainted
	PinTools       bool     // a tool that is not what it was pinned to is not offered; an entry may say otherwise

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
	if o.ConnectTimeout < 0 || o.Timeout < 0 || o.MaxTime < o.Timeout || o.MaxCalls < 0 || o.MaxMessage < 0 || o.PingEvery < 0 || o.PingTime < 0 || o.Grace < 0 {
		return fmt.Errorf("%w: MCP servers: connect timeout %v, timeout %v, longest time %v, %d calls, %d bytes, ping every %v", corebot.ErrInvalid,
			o.ConnectTimeout, o.Timeout, o.MaxTime, o.MaxCalls, o.MaxMessage, o.PingEvery)
	}
	return nil
}
