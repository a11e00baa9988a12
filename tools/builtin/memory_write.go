package builtin

import (
	"cmp"
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
	Scope   string `json:"scope,omitempty" jsonschema:"chat (the default), channel or agent"`
	Content string `json:"content" jsonschema:"what to remember, in Markdown"`
	Mode    string `json:"mode,omitempty" jsonschema:"append (the default) adds content; replace overwrites the page"`
}

// MemoryWrite adds to a page of memory or replaces it.
func MemoryWrite(pages *memory.Store) tools.Tool {
	return tools.New("memory.write", memoryWriteDoc, tools.SideEffect,
		func(ctx context.Context, c tools.Call, a memoryWriteArgs) (string, error) {
			edit, err := a.edit()
			if err != nil {
				return "", err
			}
			page := pageKey(c, a.Scope)
			from := origin(c, page)
			kept, err := pages.Remember(ctx, page, edit, from, c.Unchanged)
			if page == c.Key.OfAgent() { // which is shown whole
				return a.done(), err
			}
			return a.done() + aside(from, kept), err
		}, tools.Touches(func(_ tools.Call, a memoryWriteArgs) policy.Target {
			return policy.Target{
				Scope: cmp.Or(a.Scope, policy.ScopeChat),
				Write: true,
			}
		}),
		tools.Changes(func(c tools.Call, a memoryWriteArgs) tools.Change {
			page := pageKey(c, a.Scope)
			return tools.Change{Path: string(memory.Of(page)), Make: func(old []byte, _ bool) ([]byte, error) {
				edit, err := a.edit()
				if err != nil {
					return nil, err
				}
				return pages.Remembered(context.Background(), page, old, edit, origin(c, page))
			}}
		}))
}

// aside tells the model what became of its text beside what it asked for, and how many lines it did not replace.
func aside(from corebot.MemoryNote, kept int) (text string) {
	switch {
	case from.Taint != "":
		text = fmt.Sprintf(", apart from what the chat's people said themselves, because this turn has read text from "+
			"outside (%s). Later turns do not see it by themselves: they see that something is kept apart, and "+
			"memory.read shows it", from.Taint)
	case from.Sender.ID == "":
		text = ", kept apart, because nobody can tell who said it: memory.read shows it"
	}
	if kept > 0 {
		text += fmt.Sprintf("; %d lines of other origin stay as they are", kept)
	}
	return text
}

// edit is what the arguments ask for.
func (a memoryWriteArgs) edit() (memory.Edit, error) {
	switch a.Mode {
	case "", "append":
		if strings.TrimSpace(a.Content) == "" {
			return memory.Edit{}, fmt.Errorf("%w: there is nothing to remember in content", corebot.ErrInvalid)
		}
		return memory.Edit{Text: a.Content}, nil
	case "replace":
		return memory.Edit{Text: a.Content, Replaces: true}, nil
	}
	return memory.Edit{}, fmt.Errorf("%w: mode %q: want append or replace", corebot.ErrInvalid, a.Mode)
}

// done is what the model is told once it was done.
func (a memoryWriteArgs) done() string {
	if a.Mode == "replace" {
		return "the memory was replaced"
	}
	return "remembered"
}
