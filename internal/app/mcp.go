package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// toolbox is the tools as the agent sees them: its step handle is theirs too, and a turn keeps the MCP servers whose
// tools it began with.
type toolbox struct {
	*tools.Box
	servers *mcp.Manager           // nil: a turn has them already
	late    func(tool string) bool // of a turn: servers that had not been tried yet when it began
}

// Begin gives a turn the tools that there are now.
func (b toolbox) Begin(ctx context.Context) (now agent.Toolset, end func()) {
	end = b.servers.Begin(ctx, func(late func(string) bool) { now = toolbox{b.Box.Frozen(), nil, late} })
	return now, end
}

// lateServer is how long a turn waits, without a worker, before it looks again for the server of a call.
const lateServer = time.Second

// Call runs a tool. A model knows tools from earlier turns of its chat, and an approved call can outlive the process
// that asked for the approval. Where the server of a call was not tried yet since the start, the turn is put off: the
// call would be of an unknown tool. The end of the server's first attempt, connected or not, bounds the wait.
func (b toolbox) Call(ctx context.Context, who corebot.Caller, call corebot.ToolCall,
	step agent.Step,
) (corebot.ToolResult, error) {
	if step.State() != corebot.StepWaiting && b.late(call.Tool) {
		return corebot.ToolResult{}, &corebot.Failure{
			Class: corebot.Cancelled, RetryAfter: lateServer,
			Err: fmt.Errorf("the MCP server of %s is still connecting for the first time since the start", call.Tool),
		}
	}
	return b.Box.Call(ctx, who, call, step)
}

// MCPFile is where a home lists its MCP servers.
func MCPFile(home string) string { return filepath.Join(home, mcp.FileName) }

// mcpOptions are what the settings say of MCP servers.
func mcpOptions(c config.Config, version string) mcp.Options {
	return mcp.Options{
		AllowedServers: c.MCP.AllowedServers.Values(), AgentServers: []string{"*"},
		AllowedTools: c.MCP.AllowedTools.Values(), PassEnv: c.Tools.AllowedEnv.Values(), TrustFirst: c.MCP.TrustFirst,
		ReadOnlyTools: c.MCP.ReadOnly.Values(), EgressTools: c.MCP.Egress.Values(),
		PinTools:       c.MCP.PinTools,
		ConnectTimeout: c.MCP.ConnectTimeout, Timeout: c.MCP.Timeout, MaxTime: c.MCP.MaxTime, MaxCalls: c.MCP.MaxCalls,
		MaxMessage: c.MCP.MaxMessage,
		PingEvery:  c.MCP.PingEvery, Version: version,
	}
}

// openMCP reads which MCP servers an agent has. Their tools come into the registry once they are connected.
func (a *App) openMCP(u *agentUnit, registry *tools.Registry, artifacts tools.Artifacts,
	r prometheus.Registerer,
) (err error) {
	o := mcpOptions(a.config, a.version)
	o.AgentServers = u.entry.MCP.Values()
	o.Pins, o.Trail, o.Artifacts, o.Redactor, o.Log, o.Metrics = storage.NewMCPTools(a.Store, u.entry.ID),
		storage.NewAudit(a.Store), artifacts, a.redactor, a.log, r
	u.servers, err = mcp.New(u.place.mcpFile(), registry, o)
	return err
}

// missing says what a tool that is not there lacks. The model is told.
func (u *agentUnit) missing(tool string) string {
	if tool == "web.search" {
		return noEngine
	}
	return u.servers.Lacking(tool)
}

// reloads is an agent's MCP servers as the tool mcp.reload sees them.
type reloads struct{ unit *agentUnit }

// Reload reads the file of MCP servers again and says in words how each is doing.
func (r reloads) Reload(ctx context.Context) (string, error) {
	now, err := r.unit.servers.Reload(ctx)
	if err != nil {
		return "", err
	}
	if len(now.Servers) == 0 {
		return "there are no MCP servers", nil
	}
	var lines []string
	for _, s := range now.Servers {
		line := fmt.Sprintf("%s: %s, %d tools", s.Name, s.State, len(s.Tools))
		if s.LastError != "" {
			line += " (" + s.LastError + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, now.Warnings...), "\n"), nil
}

// CheckMCP connects to each MCP server of an agent once, beside whatever runs, and changes nothing. The error is that
// of their file.
func CheckMCP(ctx context.Context, c config.Config, agent, version string) (operate.MCPServers, error) {
	entry, err := entryOf(c, agent)
	if err != nil {
		return operate.MCPServers{}, err
	}
	o := mcpOptions(c, version)
	o.AgentServers = entry.MCP.Values()
	db, err := storage.OpenReader(ctx, DataDir(c.Home))
	if err == nil {
		defer db.Close() //nolint:errcheck // only read
		o.Pins = storage.NewMCPTools(db, entry.ID)
	}
	found, failed := mcp.Check(ctx, place{c.Home, entry.ID}.mcpFile(), o)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // which the servers are not to blame for
		found.Warnings = append(found.Warnings, fmt.Sprintf("which tools are approved is not known: %v", err))
	}
	return serversOf(found), failed
}

// serversAtRest are the MCP servers of an agent's file, none of which runs.
func serversAtRest(c config.Config, entry config.AgentEntry) (operate.MCPServers, error) {
	f, err := mcp.ReadFile(place{c.Home, entry.ID}.mcpFile(), os.LookupEnv)
	return serversOf(mcp.Overview{Servers: f.Describe()}), err
}

// serversOf is an overview as operators see it.
func serversOf(o mcp.Overview) operate.MCPServers {
	all := operate.MCPServers{FileError: o.FileError, Hint: o.Hint, Warnings: o.Warnings}
	for _, s := range o.Servers {
		all.Rows = append(all.Rows, operate.MCPServer{
			Name: s.Name, Transport: s.Transport, State: string(s.State), Since: s.Since, LastError: s.LastError,
			Tools: s.Tools, Unapproved: s.Unapproved,
		})
	}
	return all
}

// MCPSecrets are the secrets in the files of MCP servers of a home, for commands that show beside a daemon what it has
// stored. A variable may be set for the daemon only: then its value is not known here, which hides nothing else. A file
// that is missing or wrong has none: what is stored can be looked at all the same.
func MCPSecrets(c config.Config) (all []string) {
	for _, p := range places(c) {
		f, err := mcp.ReadFile(p.mcpFile(), func(name string) (string, bool) { return os.Getenv(name), true })
		if err == nil {
			all = append(all, f.Secrets()...)
		}
	}
	return all
}

// checkMCPFiles looks at the files of MCP servers and at what is known of their tools, and reaches none of them.
func checkMCPFiles(ctx context.Context, c config.Config) (findings []Finding) {
	seen := map[string]bool{}
	for _, entry := range c.AgentList() {
		path := place{c.Home, entry.ID}.mcpFile()
		f, err := mcp.ReadFile(path, os.LookupEnv)
		switch {
		case err != nil && !seen[path]:
			findings = append(findings, fail("the MCP servers", err))
		case !seen[path]:
			findings = append(findings, ok("%d MCP servers are listed (`corebot mcp check` reaches them)",
				len(f.Servers)))
		}
		seen[path] = true
		if err == nil {
			findings = append(findings, checkMCPTools(ctx, c, entry, f.Servers)...)
		}
	}
	return findings
}

// checkMCPTools tells of servers with tools that the operator does not stand for. Where there is no database that can
// be read, another check says so.
func checkMCPTools(ctx context.Context, c config.Config, entry config.AgentEntry,
	servers []mcp.Spec,
) (findings []Finding) {
	db, err := storage.OpenReader(ctx, DataDir(c.Home))
	if err != nil {
		return nil
	}
	defer db.Close() //nolint:errcheck // only read
	of := ""
	if entry.ID != c.DefaultAgent() {
		of = " --agent " + entry.ID
	}
	for _, s := range servers {
		known, err := storage.NewMCPTools(db, entry.ID).List(ctx, s.Name)
		if err != nil {
			return append(findings, fail("the tools of MCP servers", err))
		}
		vouched := slices.DeleteFunc(slices.Clone(known), func(p corebot.ToolPin) bool {
			return s.Allows(c.MCP.AllowedTools.Values(), p.Tool) && !p.Vouched(c.MCP.TrustFirst)
		})
		if n := len(known) - len(vouched); n > 0 && !s.Disabled {
			findings = append(findings, warn("`corebot mcp show "+s.Name+of+
				"` prints what they say, and the command that approves it",
				"tools of the MCP server %s are not approved as they are (%d): turns that are offered them count as "+
					"having read text from outside", s.Name, n))
		}
	}
	return findings
}
