package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed memory_write.md
var memoryWriteDoc string

type memoryWriteArgs struct {
	Scope   string `json:"scope" jsonschema:"global or chat"`
	Content string `json:"content" jsonschema:"what to remember, in Markdown"`
	Mode    string `json:"mode,omitempty" jsonschema:"append (the default) adds to what is there, replace puts content in its place"`
}

// MemoryWrite adds to a page of memory or replaces it.
func MemoryWrite(pages *memory.Store) tools.Tool {
	return tools.New("memory.write", memoryWriteDoc, tools.SideEffect, func(_ context.Context, c tools.Call, a memoryWriteArgs) (string, error) {
		switch a.Mode {
		case "", "append":
			if strings.TrimSpace(a.Content) == "" {
				return "", fmt.Errorf("%w: there is nothing to remember in content", corebot.ErrInvalid)
			}
			return "remembered", pages.Append(page(c, a.Scope), a.Content)
		case "replace":
			return "the memory was replaced", pages.Replace(page(c, a.Scope), a.Content)
		}
		return "", fmt.Errorf("%w: mode %q: want append or replace", corebot.ErrInvalid, a.Mode)
	}, tools.Touches(func(_ tools.Call, a memoryWriteArgs) policy.Target { return policy.Target{Scope: a.Scope, Write: true} }))
}
