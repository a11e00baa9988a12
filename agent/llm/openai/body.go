package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	api "github.com/sashabaranov/go-openai"
)

// maxKeptBody is the largest buffer of a body that is kept for later requests, in bytes. One with images is larger.
const maxKeptBody = 512 << 10

// body is an HTTP client that writes the body of a request, for one attempt. The library go-openai encodes the settings
// of the request. body puts the tools in front of them and the messages behind. The library would encode each message
// twice, and the tools and the system prompt anew for every request.
type body struct {
	api.HTTPDoer
	tools    []byte                      // the field with the comma behind it
	system   []byte                      // the first message, encoded
	messages []api.ChatCompletionMessage // those behind it
	buffers  *sync.Pool                  // of *bytes.Buffer
	buffer   *bytes.Buffer
	again    atomic.Bool // a second sending of the body was begun
}

func (b *body) Do(req *http.Request) (*http.Response, error) {
	var err error
	if b.buffer, err = b.complete(req); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	whole := b.buffer.Bytes()
	// net/http sends a body in memory together with the header. Any other body it sends in pieces.
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(whole)), int64(len(whole))
	req.GetBody = func() (io.ReadCloser, error) { // for a connection that turns out to be closed
		b.again.Store(true)
		return io.NopCloser(bytes.NewReader(whole)), nil
	}
	return b.HTTPDoer.Do(req)
}

// release keeps the buffer for a later request. The argument once says that the body was sent to its end, and that no
// other sending was begun: nobody reads the buffer any more. In doubt the collector has it.
func (b *body) release(once bool) {
	if once && b.buffer != nil && !b.again.Load() && b.buffer.Cap() <= maxKeptBody {
		b.buffers.Put(b.buffer)
	}
	b.buffer = nil
}

// beforeMessages is what stands before the messages of a request. It cannot stand within a JSON string, where a
// backslash would be before each quotation mark.
var beforeMessages = []byte(`"messages":[`)

// complete gives the body of a request, of which go-openai has encoded everything but the tools and the messages.
func (b *body) complete(req *http.Request) (*bytes.Buffer, error) {
	defer req.Body.Close() //nolint:errcheck // it was only read
	settings, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	at := bytes.Index(settings, beforeMessages)
	if at < 0 {
		return nil, errors.New("it has no messages")
	}
	at += len(beforeMessages)
	out, _ := b.buffers.Get().(*bytes.Buffer)
	if out == nil {
		out = &bytes.Buffer{}
	}
	out.Reset()
	out.Grow(len(settings) + len(b.tools) + len(b.system) + bytes.MinRead)
	out.Write(settings[:1])
	out.Write(b.tools)
	out.Write(settings[1:at])
	out.Write(b.system)
	encode, first := plainly(out), len(b.system) == 0
	for _, m := range b.messages {
		if !first {
			out.WriteByte(',')
		}
		if first = false; err == nil {
			err = writeMessage(encode, m)
		}
	}
	out.Write(settings[at:])
	return out, err
}

// plainly encodes without the spelling of <, > and & that only HTML needs: each mark of untrusted text has some.
func plainly(out io.Writer) *json.Encoder {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e
}

// plainMessage is a message of text as the API wants it.
type plainMessage struct {
	Role             string         `json:"role"`
	Content          string         `json:"content,omitempty"`
	ReasoningContent string         `json:"reasoning_content,omitempty"`
	ToolCalls        []api.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID       string         `json:"tool_call_id,omitempty"`
}

// writeMessage encodes a message. One with images is encoded by go-openai.
func writeMessage(e *json.Encoder, m api.ChatCompletionMessage) error {
	if m.MultiContent != nil {
		return e.Encode(m)
	}
	return e.Encode(&plainMessage{
		Role: m.Role, Content: m.Content, ReasoningContent: m.ReasoningContent, ToolCalls: m.ToolCalls,
		ToolCallID: m.ToolCallID,
	})
}
