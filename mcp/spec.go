package mcp

import (
	"reflect"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// Kinds of connections.
const (
	Stdio = "stdio" // a program that Corebot starts, over its standard input and output
	HTTP  = "http"  // streamable HTTP
	SSE   = "sse"   // the older HTTP with server-sent events
)

// Spec is one server, as its entry in the file says. It is immutable. Durations and numbers that are zero mean the default.
type Spec struct {
	Name      string
	Transport string // Stdio, HTTP or SSE
	Disabled  bool

	Command string            // Stdio: a name that is looked up in PATH, or a path
	Args    []string          // Stdio
	Env     map[string]string // Stdio: beside what every program gets
	Dir     string            // Stdio: where it runs, absolute
	PassEnv []string          // Stdio: variables of Corebot's environment that it sees, by name

	URL     string            // HTTP, SSE
	Headers map[string]string // HTTP, SSE: of every request to the origin of URL, and of none to another

	ConnectTimeout time.Duration // from the start to the list of tools
	Timeout        time.Duration // of a call, from its beginning or from its last report of progress
	MaxTime        time.Duration // of a call, whatever progress is reported
	MaxCalls       int           // at once; others wait

	AllowTools    []string // names, or beginnings and "*"; nil is all
	DenyTools     []string // of those that are allowed
	ReadOnlyTools []string // which the operator knows to change nothing
	Pin           *bool    // nil: as the settings say
}

// same says whether two entries mean the same, so that a connection can stay.
func (s Spec) same(other Spec) bool { return reflect.DeepEqual(s, other) }

// secrets are the values that are taken for secrets, and are kept out of whatever Corebot shows: of headers, and of variables with a name that
// says so. An address or a path is none.
func (s Spec) secrets() []string {
	var all []string
	for name, value := range s.Env {
		if redact.Sensitive(name) && len(value) >= redact.MinSecret { // what is shorter cannot be told from an ordinary word
			all = append(all, value)
		}
	}
	for _, value := range s.Headers {
		all = append(all, redact.OfHeader(value)...)
	}
	return all
}

// Allows says whether the entry and the settings let a tool of the server pass: both must. The settings may name it as
// models do, as SERVER/TOOL, or alone.
func (s Spec) Allows(settings []string, tool string) bool {
	return (s.AllowTools == nil || matchesAny(s.AllowTools, tool)) && !matchesAny(s.DenyTools, tool) &&
		matchesAny(settings, toolName(s.Name, tool), s.Name+"/"+tool, tool)
}

// matchesAny says whether one of the patterns matches one of the names.
func matchesAny(patterns []string, names ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return corebot.MatchesName(pattern, name) })
	})
}
