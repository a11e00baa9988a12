package builtin

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed memory_read.md
var memoryReadDoc string

type memoryReadArgs struct {
	Scope string `json:"scope" jsonschema:"global or chat"`
}

// empty is what is said of a page with nothing on it.
func (a memoryReadArgs) empty() string { return fmt.Sprintf("[the %s memory is empty]", a.Scope) }

// MemoryRead shows a page of memory.
func MemoryRead(pages *memory.Store) tools.Tool {
	return tools.New("memory.read", memoryReadDoc, tools.ReadOnly|tools.Outside,
		func(_ context.Context, c tools.Call, a memoryReadArgs) (string, error) {
			text, err := pages.Read(page(c, a.Scope))
			if err == nil && text == "" {
				text = a.empty()
			}
			return text, err
		}, tools.Touches(func(_ tools.Call, a memoryReadArgs) policy.Target { return policy.Target{Scope: a.Scope} }),
		tools.OwnWords(func(_ tools.Call, a memoryReadArgs) []string { return []string{a.empty()} }),
		tools.Trusted(func(_ tools.Call, a memoryReadArgs) bool { return a.Scope == policy.ScopeGlobal }))
}

// page is the page of a scope. Policy lets only these two scopes through; the chat's own page is the harmless default.
func page(c tools.Call, scope string) memory.Page {
	if scope == policy.ScopeGlobal {
		return memory.Global
	}
	return memory.Chat(c.Key)
}
