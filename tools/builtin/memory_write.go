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
	Mode    string `json:"mode,omitempty" jsonschema:"append (the default) adds content; replace overwrites the page"`
}

// MemoryWrite adds to a page of memory or replaces it.
func MemoryWrite(pages *memory.Store) tools.Tool {
	return tools.New("memory.write", memoryWriteDoc, tools.SideEffect,
		func(_ context.Context, c tools.Call, a memoryWriteArgs) (string, error) {
			edit, done, err := a.edit()
			if err != nil {
				return "", err
			}
			return done, pages.Change(page(c, a.Scope), edit, c.Unchanged)
		}, tools.Touches(func(_ tools.Call, a memoryWriteArgs) policy.Target {
			return policy.Target{
				Scope: a.Scope,
				Write: true,
			}
		}),
		tools.Changes(func(c tools.Call, a memoryWriteArgs) tools.Change {
			return tools.Change{Path: string(page(c, a.Scope)), Make: func(old []byte, _ bool) ([]byte, error) {
				edit, _, err := a.edit()
				if err != nil {
					return nil, err
				}
				return pages.Changed(old, edit)
			}}
		}))
}

// edit is what the arguments ask for, and what the model is told once it was done.
func (a memoryWriteArgs) edit() (e memory.Edit, done string, err error) {
	switch a.Mode {
	case "", "append":
		if strings.TrimSpace(a.Content) == "" {
			return e, "", fmt.Errorf("%w: there is nothing to remember in content", corebot.ErrInvalid)
		}
		return memory.Edit{Text: a.Content}, "remembered", nil
	case "replace":
		return memory.Edit{Text: a.Content, Replaces: true}, "the memory was replaced", nil
	}
	return e, "", fmt.Errorf("%w: mode %q: want append or replace", corebot.ErrInvalid, a.Mode)
}
