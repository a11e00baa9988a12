package anthropic

import (
	"encoding/json"
	"errors"

	"github.com/corebot/corebot/agent/llm/exchange"
)

// The messages API, as far as Corebot speaks it: the body of POST /v1/messages, and the events of its answer. See
// https://platform.claude.com/docs/en/api/messages.

type request struct {
	MaxTokens   int             `json:"max_tokens"`
	Messages    []message       `json:"messages"`
	Model       string          `json:"model"`
	Temperature *float64        `json:"temperature,omitempty"`
	Stream      bool            `json:"stream"`
	System      []block         `json:"system,omitempty"`
	Thinking    *thinkingBudget `json:"thinking,omitempty"`
	Tools       []tool          `json:"tools,omitempty"`
}

type thinkingBudget struct {
	Type   string `json:"type"` // "enabled"
	Tokens int    `json:"budget_tokens"`
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type cacheControl struct {
	Type string `json:"type"` // "ephemeral"
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// The kinds of block. Of those in an answer, others count and are left out.
const (
	kindText     = "text"
	kindCall     = "tool_use"
	kindThinking = "thinking"
	kindRedacted = "redacted_thinking"
	kindResult   = "tool_result"
	kindImage    = "image"
	kindDocument = "document"
)

// block is a piece of a message. Each kind has fields of its own; those of the other kinds are left out.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"` // never empty in a text

	ID    string          `json:"id,omitempty"` // of a call
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	CallID  string  `json:"tool_use_id,omitempty"` // of a result
	Content []block `json:"content,omitempty"`

	Thinking  *string `json:"thinking,omitempty"` // may be empty: then its signature says all
	Signature *string `json:"signature,omitempty"`
	Data      *string `json:"data,omitempty"` // of redacted thinking

	Source       *source       `json:"source,omitempty"` // of an image or a document
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// source is the content of an image or a document.
type source struct {
	Type      string `json:"type"` // "base64" or "text"
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

func textBlock(text string) block { return block{Type: kindText, Text: text} }

func resultBlock(callID, text string) block {
	return block{Type: kindResult, CallID: callID, Content: []block{textBlock(text)}}
}

// event is what any event of an answer can say. A kind of event has some of the fields.
type event struct {
	Type    string `json:"type"`
	Index   int64  `json:"index"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	Block begun    `json:"content_block"`
	Delta delta    `json:"delta"`
	Usage usage    `json:"usage"`
	Error apiError `json:"error"`
}

// begun is the beginning of a block.
type begun struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	Text      string `json:"text"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
	Data      string `json:"data"`
}

// delta is a piece of a block, or of what an answer says of itself.
type delta struct {
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON string `json:"partial_json"`
	StopReason  string `json:"stop_reason"`
}

type usage struct {
	Input      int64 `json:"input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// apiError is an error as the API writes it, in a body or as an event.
type apiError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Reasons for which an answer ends. Others are ends as they should be.
const (
	stopRefusal     = "refusal"
	stopMaxTokens   = "max_tokens"
	stopContextFull = "model_context_window_exceeded"
)

// read reads an event. A field of another kind than the API's counts as left out: gateways have their own ideas of
// figures that nobody needs.
func read(data []byte) (event, error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		if odd := (*json.UnmarshalTypeError)(nil); !errors.As(err, &odd) || odd.Field == "" {
			return event{}, exchange.ErrGarbled
		}
	}
	if e.Type == "error" {
		return event{}, &streamError{e.Error}
	}
	return e, nil
}
