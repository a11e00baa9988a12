package mcp

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/redact"
)

// Kinds of connections.
const (
	Stdio = "stdio" // a program that Corebot starts, over its standard input and output
	HTTP  = "http"  // streamable HTTP
	SSE   = "sse"   // the older HTTP with server-sent events
)

// Spec is one server, as its entry in the file says. It is immutable. Durations and numbers that are zero mean the
// default.
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

// secrets are the values that are taken for secrets, and are kept out of whatever Corebot shows: of headers, and of
// variables with a name that says so. An address or a path is none.
func (s Spec) secrets() []string {
	var all []string
	for name, value := range s.Env {
		// what is shorter cannot be told from an ordinary word
		if redact.Sensitive(name) && len(value) >= redact.MinSecret {
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

// markVariable names every process of a server, so that one which left its process group can be found when the server
// ends.
const markVariable = "COREBOT_MCP_SERVER"

// environment is what a program sees: where programs and the user's files are, the language, what the operator lets
// through, and what the entry sets, which wins. It never has anything else of Corebot's own environment.
func environment(s Spec, pass []string, env func(string) (string, bool), mark string) []string {
	all := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
	for _, name := range slices.Concat([]string{"PATH", "HOME", "LANG"}, pass, s.PassEnv) {
		if value, ok := env(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, s.Env)
	all[markVariable] = mark
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// program finds what a command means: as a shell would in the program's own environment and directory. A program that
// others can change, or exchange, is refused.
func program(s Spec, environment []string) (string, error) {
	path, err := find(s, environment)
	if err == nil {
		err = requireOwned(path)
	}
	return path, err
}

// requireOwned refuses a program that others can change, and a missing one: in /tmp everybody could make a program of
// that name before it is started.
func requireOwned(program string) error {
	_, err := owned.Resolve(program)
	return err
}

func find(s Spec, environment []string) (string, error) {
	if filepath.IsAbs(s.Command) {
		return s.Command, runnable(s.Command)
	}
	if strings.Contains(s.Command, "/") {
		path := filepath.Join(s.Dir, s.Command)
		return path, runnable(path)
	}
	for _, variable := range environment {
		list, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(cmp.Or(dir, "."), s.Command)
			if filepath.IsAbs(path) && runnable(path) == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("there is no program %q in PATH", s.Command)
}

func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s cannot be executed", path)
	}
	return nil
}
