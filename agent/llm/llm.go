// Package llm holds the types that the agent and the model providers share. A provider lives in a package below this
// one and implements [Model]; nothing here does I/O.
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

// FirstConversation is the title of the last section of a system prompt, before the ground rules: what the agent does
// in its first conversation. It is there until the agent has done that.
const FirstConversation = "First conversation"

// Message is one entry of a model's context. An assistant message may carry Calls; each is answered by one later tool
// message with its CallID.
type Message struct {
	Role Role
	// of a user: who said the text and what came with it, marked as data; it stands in lines of its own before the text
	About  string
	Text   string
	Parts  []corebot.Part  // of a user: images and files beside the text, by content hash; see [Blobs]
	Opaque *corebot.Opaque // of an assistant: what came with its answer, for the provider that it came from
	Calls  []corebot.ToolCall
	CallID string
}

// Tool is a tool as it is offered to a model. Name is the internal one, with dots; providers encode it with
// [EncodeName].
type Tool struct {
	Name        string
	Description string
	// JSON Schema of the arguments, an object; shared by all requests, and not to be changed
	Schema json.RawMessage
	// somebody else described it, and the operator has not approved it, nor trusted it on first use: a turn that is
	// offered it has read untrusted text
	Unapproved bool
}

// Request is one call of a model.
type Request struct {
	Messages        []Message
	Tools           []Tool
	MaxOutputTokens int // zero: the provider's default
	Voice           Voice

	// Model asks for one of several models, as "provider/model" or by the model's name alone. Empty means the first.
	// Only package chain, which stands for several models, looks at it.
	Model string

	// OnReset is called when the streamed text is not part of the answer after all. Its stream broke off, and another
	// model answers from the beginning. Without OnReset such an answer is not streamed but comes back whole, so that no
	// reader sees two beginnings of one text.
	OnReset func()
}

// Model answers requests. Complete streams text to onText as it arrives. The function onText may be nil, and is called
// from one goroutine at a time. Complete returns the whole answer, with tool names decoded. A model's thinking is
// neither streamed nor part of the text.
//
// An error is a [*corebot.Failure] with a class, by which a caller decides on retries. Its chain has the subject of the
// failure, such as [ErrContextTooLong]. An answer that broke off in the middle is an error, never a shorter answer.
// When ctx ends, its cause is returned.
//
// Beside an error the answer has only the model and the usage of the call. The usage is what the provider reported of a
// request that it had begun. Without a report it is an estimate, since such a request is paid for all the same. A
// request that was refused, or that nobody took, used nothing.
type Model interface {
	Name() string
	Complete(ctx context.Context, r Request, onText func(string)) (corebot.Answer, error)
}

// Tokenizer counts about how many tokens a text has, without a network. It returns at most the text's bytes.
type Tokenizer interface {
	Count(text string) int
}

// Learner is a [Tokenizer] that learns from the provider's own counts of requests. Due says whether the next one is to
// be learned from: to estimate a request costs a good part of what a short turn does. Lesson is a number for what was
// learned so far: while it is the same, so is each count.
type Learner interface {
	Due() bool
	Learn(estimated, reported int)
	Lesson() uint64
}
