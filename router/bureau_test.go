package router_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// bureau is a Corebot whose calls can be bound, with what they did.
type bureau struct {
	counter
	*world
	print atomic.Pointer[string] // what the MCP servers say of their tools now
}

func setUp(t *testing.T, o apptest.Options, more tools.Traits) *bureau {
	t.Helper()
	b := &bureau{world: &world{ran: map[string]int{}, scripts: map[string]string{}, traits: map[string]tools.Traits{}}}
	first := "print-1"
	b.print.Store(&first)
	o.Tools, o.Model, o.Policy.ShellEnabled = b.bindable(t, more), b.obeys(), true
	dir := t.TempDir()
	root, err := rootfs.New(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	workspace, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { workspace.Close() })
	o.Box.Contents, err = tools.NewFiles(roots.Only(root), workspace, nil)
	must(t, err)
	b.workspace = dir
	from := remembers(t, &o, root)
	b.counter = counter{Kit: apptest.New(t, o)}
	from.Chats = storage.NewChats(b.DB)
	b.Start()
	b.admin(t, "root", corebot.Key{})
	return b
}

// bindable are the tools of a world: programs say what they run, and MCP tools have a server.
func (b *bureau) bindable(t *testing.T, more tools.Traits) []tools.Tool {
	all := b.world.tools(more)
	for i, tool := range all {
		switch name := tool.Name(); {
		case name == "shell.exec":
			all[i] = b.world.tool(name, tools.SideEffect|tools.Privileged|tools.Outside, "ran", tools.Runs(
				func(_ tools.Call, a apptest.ToolArgs) []string { return strings.Fields(a.Text) }))
		case strings.HasPrefix(name, "mcp__"):
			all[i] = b.ofServer(t, tool)
		}
	}
	return all
}

// ofServer is a tool as an MCP server describes it now.
func (b *bureau) ofServer(t *testing.T, like tools.Tool) tools.Tool {
	t.Helper()
	tool, err := tools.NewDynamic(tools.Dynamic{
		Name: like.Name(), Doc: "A tool of a server.", Traits: b.traits[like.Name()],
		Schema:     []byte(`{"type":"object","properties":{"text":{"type":"string"}}}`),
		Definition: func() string { return *b.print.Load() }, Made: "print-1",
		GoesTo: func(args json.RawMessage) []string {
			var a apptest.ToolArgs
			if json.Unmarshal(args, &a) != nil {
				return nil
			}
			return []string{a.Text}
		},
		Run: func(ctx context.Context, _ tools.Call, args json.RawMessage) (string, error) {
			return like.Work(ctx, tools.Call{}, args)
		},
	})
	must(t, err)
	return tool
}
