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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// toolbox is the tools as the agent sees them: its step handle is theirs too, and a turn keeps the MCP servers whose tools it began with.
type toolbox struct {
	*tools.Box
	servers *mcp.Manager // nil: there are none, or a turn has them already
}

// Begin gives a turn the tools that there are now.
func (b toolbox) Begin(ctx context.Context) (now agent.Toolset, end func()) {
	end = b.servers.Begin(ctx, func() { now = toolbox{b.Box.Frozen(), nil} })
	return now, end
}

// Call runs a tool.
func (b toolbox) Call(ctx context.Context, who corebot.Caller, call corebot.ToolCall, step agent.Step) (corebot.ToolResult, error) {
	return b.Box.Call(ctx, who, call, step)
}

// MCPFile is where a home lists its MCP servers.
func MCPFile(home string) string { return filepath.Join(home, mcp.FileName) }

// mcpOptions are what the settings say of MCP servers.
func mcpOptions(c config.Config, version string) mcp.Options {
	return mcp.Options{
		AllowedServers: c.MCP.AllowedServers.Values(), AllowedTools: c.MCP.AllowedTools.Values(), PassEnv: c.Tools.AllowedEnv.Values(), TrustFirst: c.MCP.TrustFirst, PinTools: c.MCP.PinTools,
		ConnectTimeout: c.MCP.ConnectTimeout, Timeout: c.MCP.Timeout, MaxTime: c.MCP.MaxTime, MaxCalls: c.MCP.MaxCalls, MaxMessage: c.MCP.MaxMessage,
		PingEvery: c.MCP.PingEvery, Version: version,
	}
}

// openMCP reads which MCP servers there are. Their tools come into the registry once they are connected.
func (a *App) openMCP(registry *tools.Registry, artifacts tools.Artifacts, r prometheus.Registerer) (err error) {
	o := mcpOptions(a.config, a.version)
	o.Pins, o.Trail, o.Artifacts, o.Redactor, o.Log, o.Metrics = storage.NewMCPTools(a.Store), storage.NewAudit(a.Store), artifacts, a.redactor, a.log, r
	a.servers, err = mcp.New(MCPFile(a.config.Home), registry, o)
	return err
}

// reloads is the MCP servers as the tool mcp.reload sees them.
type reloads struct{ app *App }

// Reload reads the file of MCP servers again and says in words how each is doing.
func (r reloads) Reload(ctx context.Context) (string, error) {
	now, err := r.app.servers.Reload(ctx)
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

// MCPApproval is what [OpMCPApprove] takes: tools of a server, as it calls them, each with the fingerprint of what the
// operator has read.
type MCPApproval struct {
	Server       string            `json:"server"`
	Fingerprints map[string]string `json:"fingerprints"`
}

// Operations on MCP servers.
const (
	OpMCPList    = "mcp.list"
	OpMCPShow    = "mcp.show" // of the name of a server
	OpMCPReload  = "mcp.reload"
	OpMCPApprove = "mcp.approve"
)

// approveMCP takes tools as they were read, if they are so still.
func approveMCP(db *storage.DB) control.Operation {
	return control.Typed(func(ctx context.Context, a MCPApproval) (Done, error) {
		n, err := storage.NewMCPTools(db).Approve(ctx, a.Server, a.Fingerprints)
		return Done{Changed: n}, err
	})
}

// mcpOperations are what a daemon can say of its MCP servers, and do with them.
func (a *App) mcpOperations(all control.Operations) {
	type none struct{}
	all[OpMCPList] = control.Typed(func(context.Context, none) (mcp.Overview, error) { return a.servers.Overview(), nil })
	all[OpMCPShow] = control.Typed(func(_ context.Context, server string) ([]mcp.Description, error) { return a.servers.Describe(server) })
	all[OpMCPReload] = control.Typed(func(ctx context.Context, _ none) (mcp.Overview, error) { return a.servers.Reload(ctx) })
	all[OpMCPApprove] = control.Typed(func(ctx context.Context, what MCPApproval) (Done, error) {
		n, err := storage.NewMCPTools(a.Store).Approve(ctx, what.Server, what.Fingerprints)
		if err == nil {
			err = a.servers.Reconsider(ctx, what.Server)
		}
		return Done{Changed: n}, err
	})
}

// CheckMCP connects to each MCP server of a home once, beside whatever runs, and changes nothing. The error is that of their file.
func CheckMCP(ctx context.Context, c config.Config, version string) (mcp.Overview, error) {
	o := mcpOptions(c, version)
	db, err := storage.OpenReader(ctx, DataDir(c.Home))
	if err == nil {
		defer db.Close() //nolint:errcheck // only read
		o.Pins = storage.NewMCPTools(db)
	}
	found, failed := mcp.Check(ctx, MCPFile(c.Home), o)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // which the servers are not to blame for
		found.Warnings = append(found.Warnings, fmt.Sprintf("which tools are approved is not known: %v", err))
	}
	return found, failed
}

// ListMCP says how the MCP servers of a home are doing: as its daemon knows, or, if none runs, which there are.
func ListMCP(ctx context.Context, home string) (mcp.Overview, error) {
	daemon, running, err := control.Dial(ctx, DataDir(home))
	if err != nil {
		return mcp.Overview{}, err
	}
	if running {
		return control.Call[mcp.Overview](ctx, daemon, OpMCPList, struct{}{})
	}
	f, err := mcp.ReadFile(MCPFile(home), os.LookupEnv)
	return mcp.Overview{Servers: f.Describe()}, err
}

// MCPSecrets are the secrets in the file of MCP servers of a home, for commands that show beside a daemon what it has stored. A variable may be set for the daemon
// only: then its value is not known here, which hides nothing else. A file that is missing or wrong has none: what is stored can be looked at all the same.
func MCPSecrets(home string) []string {
	f, err := mcp.ReadFile(MCPFile(home), func(name string) (string, bool) { return os.Getenv(name), true })
	if err != nil {
		return nil
	}
	return f.Secrets()
}

// checkMCPFile looks at the file of MCP servers and at what is known of their tools, and reaches none of them.
func checkMCPFile(ctx context.Context, c config.Config) []Finding {
	f, err := mcp.ReadFile(MCPFile(c.Home), os.LookupEnv)
	if err != nil {
		return []Finding{fail("the MCP servers", err)}
	}
	findings := []Finding{ok("%d MCP servers are listed (`corebot mcp check` reaches them)", len(f.Servers))}
	return append(findings, checkMCPTools(ctx, c, f.Servers)...)
}

// checkMCPTools tells of servers with tools that the operator does not stand for. Where there is no database that can be read, another check says so.
func checkMCPTools(ctx context.Context, c config.Config, servers []mcp.Spec) (findings []Finding) {
	db, err := storage.OpenReader(ctx, DataDir(c.Home))
	if err != nil {
		return nil
	}
	defer db.Close() //nolint:errcheck // only read
	for _, s := range servers {
		known, err := storage.NewMCPTools(db).List(ctx, s.Name)
		if err != nil {
			return append(findings, fail("the tools of MCP servers", err))
		}
		vouched := slices.DeleteFunc(slices.Clone(known), func(p corebot.ToolPin) bool {
			return s.Allows(c.MCP.AllowedTools.Values(), p.Tool) && !p.Vouched(c.MCP.TrustFirst)
		})
		if n := len(known) - len(vouched); n > 0 && !s.Disabled {
			findings = append(findings, warn("`corebot mcp show "+s.Name+"` prints what they say, and the command that approves it",
				"tools of the MCP server %s are not approved as they are (%d): turns that are offered them count as having read text from outside", s.Name, n))
		}
	}
	return findings
}
