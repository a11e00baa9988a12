// Package llm holds the types that the agent and the model providers share. A provider lives in a package below this one
// and implements [Model]; nothing here does I/O.
package llm

import (
	"context"
	"encoding/json"

	"github.com/corebot/corebot"
)

// Role is who speaks in a [Message].
type Role string

const (
	System    Role = "system" // only what the operator wrote: identity, skills, global memory
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one entry of a model's context. An assistant message may carry Calls; each is answered by one later tool
// message with its CallID.
type Message struct {
	Role   Role
	Text   string
	Calls  []corebot.ToolCall
	CallID string
}

// Tool is a tool as it is offered to a model. Name is the internal one, with dots; providers encode it with [EncodeName].
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object
}

// Request is one call of a model.
type Request struct {
	Messages        []Message
	Tools           []Tool
	MaxOutputTokens int // zero: the provider's default
}

// Model answers requests. Complete streams text to onText as it arrives (onText may be nil, and is called from one
// goroutine at a time) and returns the whole answer, with tool names decoded.
//
// Errors are a [*corebot.Failure] with a class: a caller decides on retries by it. An answer that broke off in the middle is
// an error, never a shorter answer. When ctx ends, its cause is returned.
type Model interface {
	Name() string
	Complete(ctx context.Context, r Request, onText func(string)) (corebot.Answer, error)
}

// Tokenizer counts tokens without a network. Exact says whether the count is the model's own or an estimate.
type Tokenizer interface {
	Count(text string) int
	Exact() bool
}
