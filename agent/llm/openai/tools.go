package openai

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot/agent/llm"
)

// encodingCache keeps the encoded form of the offered tools and of the system prompt. These are the largest part of
// most requests, and they rarely change. So they are encoded when they change, and not for every call.
type encodingCache struct {
	tools  recent[encodedTools]
	system recent[encodedSystem]
}

type encodedTools struct {
	tools []llm.Tool
	names *llm.Names
	text  []byte // a field of a JSON object with the comma behind it; empty for no tools
}

type encodedSystem struct {
	text    string
	encoded []byte // the message as a JSON object
}

// recent keeps the values that were added last. One value would not do: admins are offered other tools than normal
// senders, and each agent has a system prompt of its own.
type recent[T any] struct {
	mu  sync.Mutex // held by add; find needs no lock
	all atomic.Pointer[[]*T]
}

const maxRecent = 8

// find gives the newest value for which is returns true, or nil.
func (r *recent[T]) find(is func(*T) bool) *T {
	all := r.all.Load()
	if all == nil {
		return nil
	}
	if i := slices.IndexFunc(*all, is); i >= 0 {
		return (*all)[i]
	}
	return nil
}

// add keeps a value. With maxRecent values it drops the oldest.
func (r *recent[T]) add(v *T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []*T{v}
	if before := r.all.Load(); before != nil {
		all = append(all, (*before)[:min(len(*before), maxRecent-1)]...)
	}
	r.all.Store(&all)
}

// toolsOf gives the tools of a request, encoded. Only the tools decide their names: see [llm.Names].
func (c *encodingCache) toolsOf(tools []llm.Tool) (*encodedTools, error) {
	if known := c.tools.find(func(e *encodedTools) bool {
		return slices.EqualFunc(e.tools, tools, sameTool)
	}); known != nil {
		return known, nil
	}
	names := llm.OfferedNames(tools)
	text, err := encodeTools(tools, names)
	if err != nil {
		return nil, err
	}
	encoded := &encodedTools{slices.Clone(tools), names, text}
	if len(tools) > 0 { // the last call of a turn offers none; the next turn has them again
		c.tools.add(encoded)
	}
	return encoded, nil
}

func sameTool(a, b llm.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
}

func encodeTools(tools []llm.Tool, names *llm.Names) ([]byte, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	encoded := make([]api.Tool, len(tools))
	for i, t := range tools {
		encoded[i] = api.Tool{Type: api.ToolTypeFunction, Function: &api.FunctionDefinition{
			Name: names.Encode(t.Name), Description: t.Description, Parameters: llm.SchemaOf(t),
		}}
	}
	var out bytes.Buffer
	out.WriteString(`"tools":`)
	if err := plainly(&out).Encode(encoded); err != nil {
		return nil, fmt.Errorf("encode the tools: %w", err)
	}
	out.WriteString(",")
	return out.Bytes(), nil
}

// systemOf gives the system prompt at the beginning of the messages as a JSON object, and the messages behind it.
func (c *encodingCache) systemOf(all []api.ChatCompletionMessage) ([]byte, []api.ChatCompletionMessage, error) {
	if len(all) == 0 || all[0].Role != api.ChatMessageRoleSystem {
		return nil, all, nil
	}
	known := c.system.find(func(e *encodedSystem) bool { return e.text == all[0].Content })
	if known == nil {
		var out bytes.Buffer
		if err := writeMessage(plainly(&out), all[0]); err != nil {
			return nil, nil, fmt.Errorf("encode the system prompt: %w", err)
		}
		known = &encodedSystem{all[0].Content, out.Bytes()}
		c.system.add(known)
	}
	return known.encoded, all[1:], nil
}
