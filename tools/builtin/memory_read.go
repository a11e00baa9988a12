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

// MemoryRead shows a page of memory.
func MemoryRead(pages *memory.Store) tools.Tool {
	return tools.NewSourced("memory.read", memoryReadDoc, tools.ReadOnly,
		func(ctx context.Context, c tools.Call, a memoryReadArgs) (text string, outside bool, err error) {
			if a.Scope == policy.ScopeGlobal {
				text, err = pages.Read(memory.Global)
			} else {
				text, outside, err = chatMemory(ctx, c, pages)
			}
			if text == "" {
				text = fmt.Sprintf("[the %s memory is empty]", a.Scope)
			}
			return text, outside, tools.Own(err)
		}, tools.Touches(func(_ tools.Call, a memoryReadArgs) policy.Target { return policy.Target{Scope: a.Scope} }))
}
