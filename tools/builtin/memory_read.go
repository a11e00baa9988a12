package builtin

import (
	"cmp"
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
	Scope string `json:"scope,omitempty" jsonschema:"chat (the default), channel or agent"`
}

// MemoryRead shows a page of memory.
func MemoryRead(pages *memory.Store) tools.Tool {
	return tools.NewSourced("memory.read", memoryReadDoc, tools.ReadOnly,
		func(ctx context.Context, c tools.Call, a memoryReadArgs) (text string, outside bool, err error) {
			if page := pageKey(c, a.Scope); page == c.Key.OfAgent() {
				text, err = pages.Read(memory.Global)
			} else {
				text, outside, err = inPieces(ctx, c, pages, page)
			}
			if text == "" {
				text = fmt.Sprintf("[the %s memory is empty]", cmp.Or(a.Scope, policy.ScopeChat))
			}
			return text, outside, tools.Own(err)
		}, tools.Touches(func(_ tools.Call, a memoryReadArgs) policy.Target {
			return policy.Target{Scope: cmp.Or(a.Scope, policy.ScopeChat)}
		}))
}
