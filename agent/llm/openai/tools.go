package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot/agent/llm"
)

// lasting keeps the parts of requests that stay the same for long, encoded: the offered tools and the system prompt.
// They are most of most requests, and they are encoded when they change and not for every call.
type lasting struct {
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

// recent keeps the last few values of one kind. Admins are offered other tools than normal senders, and each agent has
// a system prompt of its own.
type recent[T any] struct {
	mu  sync.Mutex // of those who add
	all atomic.Pointer[[]*T]
}

const maxRecent = 8

// find gives a value, or nil.
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

// add keeps a value in place of the oldest.
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
func (l *lasting) toolsOf(tools []llm.Tool) (*encodedTools, error) {
	if known := l.tools.find(func(e *encodedTools) bool {
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
		l.tools.add(encoded)
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
	list, err := json.Marshal(encoded)
	if err != nil {
		return nil, fmt.Errorf("encode the tools: %w", err)
	}
	return slices.Concat([]byte(`"tools":`), list, []byte(",")), nil
}

// takeSystem takes the system prompt out of a request, and gives it as a JSON object. A request with nothing else keeps
// it.
func (l *lasting) takeSystem(r *api.ChatCompletionRequest) ([]byte, error) {
	if len(r.Messages) < 2 || r.Messages[0].Role != api.ChatMessageRoleSystem {
		return nil, nil
	}
	first := r.Messages[0]
	known := l.system.find(func(e *encodedSystem) bool { return e.text == first.Content })
	if known == nil {
		encoded, err := json.Marshal(first)
		if err != nil {
			return nil, fmt.Errorf("encode the system prompt: %w", err)
		}
		known = &encodedSystem{first.Content, encoded}
		l.system.add(known)
	}
	r.Messages = r.Messages[1:]
	return known.encoded, nil
}

// withLasting is an HTTP client that completes the JSON object of each request's body: by a field at its beginning, and
// by a first message.
type withLasting struct {
	api.HTTPDoer
	field   []byte
	message []byte
}

func (c withLasting) Do(req *http.Request) (*http.Response, error) {
	if len(c.field) == 0 && len(c.message) == 0 {
		return c.HTTPDoer.Do(req)
	}
	body, err := c.complete(req)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	// for a connection that turns out to be closed
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = again()
	req.GetBody, req.ContentLength = again, int64(len(body))
	return c.HTTPDoer.Do(req)
}

// beforeMessages is what stands before the messages of a request. It cannot stand within a JSON string, where a
// backslash would be before each quotation mark.
var beforeMessages = []byte(`"messages":[`)

// complete gives the body of a request in one piece. The body begins with a brace and has a field of its own to follow.
// net/http sends a body in memory together with the header. Any other body it sends in pieces that it allocates.
func (c withLasting) complete(req *http.Request) ([]byte, error) {
	defer req.Body.Close() //nolint:errcheck // it was only read
	var read bytes.Buffer
	read.Grow(int(req.ContentLength) + bytes.MinRead)
	if _, err := read.ReadFrom(req.Body); err != nil {
		return nil, err
	}
	body := read.Bytes()
	out := make([]byte, 0, len(body)+len(c.field)+len(c.message)+1)
	out, body = append(append(out, body[:1]...), c.field...), body[1:]
	if len(c.message) > 0 {
		at := bytes.Index(body, beforeMessages)
		if at < 0 {
			return nil, errors.New("it has no messages")
		}
		at += len(beforeMessages)
		out, body = append(append(append(out, body[:at]...), c.message...), ','), body[at:]
	}
	return append(out, body...), nil
}
