package builtin

import (
	"context"
	_ "embed"

	"github.com/corebot/corebot/tools"
)

//go:embed mcp_reload.md
var mcpReloadDoc string

// Servers are the MCP servers that can be read anew.
type Servers interface {
	// Reload reads their file again and gives, in words, how each is doing. A file that is wrong changes nothing, and
	// is the error.
	Reload(ctx context.Context) (string, error)
}

type mcpReloadArgs struct{}

// MCPReload reads the list of MCP servers again. Its result has words of the servers in it.
func MCPReload(s Servers) tools.Tool {
	return tools.New("mcp.reload", mcpReloadDoc, tools.Idempotent|tools.Privileged|tools.Outside,
		func(ctx context.Context, _ tools.Call, _ mcpReloadArgs) (string, error) {
			return s.Reload(ctx)
		})
}
