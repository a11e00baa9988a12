package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot/agent/llm"
)

// toolText keeps the offered tools as they stand in a request. They are the larger part of most requests and the same
// in nearly all of them, so they are encoded when they change and not for every call.
type toolText struct{ last atomic.Pointer[encodedTools] }

type encodedTools struct {
	tools []llm.Tool
	names *llm.Names
	text  []byte // a field of a JSON object with the comma behind it; empty for no tools
}

// of gives the tools of a request, encoded. Only the tools decide their names: see [llm.Names].
func (t *toolText) of(tools []llm.Tool) (*encodedTools, error) {
	if last := t.last.Load(); last != nil && slices.EqualFunc(last.tools, tools, sameTool) {
		return last, nil
	}
	names := llm.OfferedNames(tools)
	text, err := encodeTools(tools, names)
	if err != nil {
		return nil, err
	}
	encoded := &encodedTools{slices.Clone(tools), names, text}
	if len(tools) > 0 { // the last call of a turn offers none; the next turn has them again
		t.last.Store(encoded)
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

// withField is an HTTP client that puts a field at the beginning of the JSON object of each request's body.
type withField struct {
	api.HTTPDoer
	field []byte
}

func (c withField) Do(req *http.Request) (*http.Response, error) {
	if len(c.field) == 0 {
		return c.HTTPDoer.Do(req)
	}
	body, err := c.insert(req)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	// for a connection that turns out to be closed
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = again()
	req.GetBody, req.ContentLength = again, int64(len(body))
	return c.HTTPDoer.Do(req)
}

// insert gives the body of a request in one piece. The body begins with a brace and has a field of its own to follow.
// net/http sends a body in memory together with the header. Any other body it sends in pieces that it allocates.
func (c withField) insert(req *http.Request) ([]byte, error) {
	defer req.Body.Close() //nolint:errcheck // it was only read
	var body bytes.Buffer
	body.Grow(int(req.ContentLength) + len(c.field) + bytes.MinRead)
	if _, err := io.CopyN(&body, req.Body, 1); err != nil {
		return nil, err
	}
	body.Write(c.field)
	_, err := body.ReadFrom(req.Body)
	return body.Bytes(), err
}
