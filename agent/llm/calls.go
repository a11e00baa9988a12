package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/corebot/corebot"
)

// CallIDs gives the tool calls of one answer ids by which their results can be told apart. Models leave ids out, and
// use one twice.
type CallIDs struct {
	messages  int
	inHistory map[string]bool
	inAnswer  map[string]bool
	given     int
}

// NewCallIDs knows the ids that are in the history of r.
func NewCallIDs(r Request) *CallIDs {
	c := &CallIDs{messages: len(r.Messages), inHistory: make(map[string]bool), inAnswer: make(map[string]bool)}
	for _, m := range r.Messages {
		for _, call := range m.Calls {
			c.inHistory[call.ID] = true
		}
	}
	return c
}

// Give is called once for each call of the answer, in their order. It keeps the model's id unless the id is empty or
// was given before in this answer. An id that Give makes differs from all ids of the history, and is the same in every
// attempt.
func (c *CallIDs) Give(own string) string {
	id := own
	for n := c.messages; id == "" || c.inAnswer[id] || id != own && c.inHistory[id]; n++ {
		id = fmt.Sprintf("call_%d_%d", n, c.given)
	}
	c.inAnswer[id] = true
	c.given++
	return id
}

// ObjectArgs always gives a JSON object. Many providers parse the arguments in a history, and answer malformed
// arguments with an error to every later request. ObjectArgs wraps malformed arguments, and the model still sees what
// it wrote.
func ObjectArgs(args json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(args)
	switch {
	case len(trimmed) == 0:
		return json.RawMessage("{}")
	case trimmed[0] == '{' && json.Valid(trimmed):
		return args
	}
	wrapped, err := json.Marshal(map[string]string{"invalid_arguments": string(args)})
	if err != nil {
		return json.RawMessage("{}")
	}
	return wrapped
}

// WrittenArgs are the arguments of a call as its model wrote them; most write nothing for none.
func WrittenArgs(args string) json.RawMessage {
	if len(bytes.TrimSpace([]byte(args))) == 0 {
		return json.RawMessage("{}")
	}
	return json.RawMessage(args)
}

// CutArgs are the arguments of the last call of an answer that its provider cut short. A call that was cut in front of
// its arguments is no call without arguments: the tool must not run with what the model never wrote. So the arguments
// are an object without an end, which every tool refuses, and the model sees why.
func CutArgs(args string) json.RawMessage {
	if len(bytes.TrimSpace([]byte(args))) == 0 {
		return json.RawMessage("{")
	}
	return json.RawMessage(args)
}

// SchemaOf is the tool's schema; a tool without one takes no arguments.
func SchemaOf(t Tool) json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// CompleteUsage counts the tokens that the provider did not report, and marks such usage as estimated. The arguments
// are the answer as far as it came, and the model's thinking. A [Learner] learns from what the provider did report.
func CompleteUsage(u corebot.Usage, t Tokenizer, r Request, a corebot.Answer, thought string) corebot.Usage {
	u.InputTokens, u.OutputTokens = max(0, u.InputTokens), max(0, u.OutputTokens)
	if learner, ok := t.(Learner); ok && u.InputTokens > 0 && !hasParts(r) && learner.Due() {
		learner.Learn(estimateRequest(r), int(u.InputTokens))
	}
	if u.InputTokens == 0 {
		u.InputTokens, u.Estimated = int64(countRequest(t, r)), true
		u.EstimatedTokens += u.InputTokens
	}
	if u.OutputTokens == 0 && (a.Text != "" || len(a.Calls) > 0 || thought != "") {
		u.OutputTokens, u.Estimated = int64(t.Count(a.Text)+countCalls(t, a.Calls)+t.Count(thought)), true
		u.EstimatedTokens += u.OutputTokens
	}
	return u
}

// hasParts says whether a request carries images or pages, whose tokens are not those of a text.
func hasParts(r Request) bool {
	return slices.ContainsFunc(r.Messages, func(m Message) bool { return len(m.Parts) > 0 })
}

// frameTokens is about what the markup around a message, a call or a tool costs.
const frameTokens = 4

func countRequest(t Tokenizer, r Request) int {
	return countMessages(t, r.Messages) + countTools(t, r.Tools)
}

func countMessages(t Tokenizer, messages []Message) int {
	n := 0
	for _, m := range messages {
		n += frameTokens + t.Count(m.About) + t.Count(m.Text) + countCalls(t, m.Calls)
	}
	return n
}

func countTools(t Tokenizer, tools []Tool) int {
	n := 0
	for _, tool := range tools {
		n += frameTokens + t.Count(tool.Name) + t.Count(tool.Description) + t.Count(string(tool.Schema))
	}
	return n
}

// estimatedTools are the tools that were estimated last: most turns offer the same.
var estimatedTools atomic.Pointer[toolsEstimate]

type toolsEstimate struct {
	of     []Tool
	tokens int
}

// estimateRequest is what [Estimate] counts of a request.
func estimateRequest(r Request) int {
	last := estimatedTools.Load()
	if last == nil || !slices.EqualFunc(last.of, r.Tools, Tool.equal) {
		last = &toolsEstimate{slices.Clone(r.Tools), countTools(Estimate{}, r.Tools)}
		estimatedTools.Store(last)
	}
	return countMessages(Estimate{}, r.Messages) + last.tokens
}

// equal says whether two tools are the same for a model. It is fast for the same texts in memory.
func (t Tool) equal(o Tool) bool {
	return t.Name == o.Name && t.Description == o.Description && bytes.Equal(t.Schema, o.Schema)
}

func countCalls(t Tokenizer, calls []corebot.ToolCall) int {
	n := 0
	for _, c := range calls {
		n += frameTokens + t.Count(c.Tool) + t.Count(string(c.Args))
	}
	return n
}

// The subjects of a failure, for errors.Is, where more is known than the class. The first three are about the request:
// another provider would hardly answer the request either. The others are about the provider. Most transient failures
// and rate limits have no subject.
var (
	// ErrContextTooLong: the request does not fit the model's context. The same request fails again; a shorter one need
	// not.
	ErrContextTooLong = errors.New("the request is too long for the model's context")
	// ErrRefused: the provider or its filter will not answer this request.
	ErrRefused = errors.New("the provider refuses to answer this request")
	// ErrBadRequest: the provider cannot make sense of the request.
	ErrBadRequest = errors.New("the provider does not accept this request")

	// ErrUnauthorized: the key is wrong, may not do this, or its account has no credit.
	ErrUnauthorized = errors.New("the provider does not serve this key")
	// ErrNoModel: there is no such model, or nothing at all, at the provider's address.
	ErrNoModel = errors.New("the provider has no such model")
	// ErrUnreachable: the provider was not reached, or fell silent.
	ErrUnreachable = errors.New("the provider does not answer")
)

// FaultOf names what became of a call, in a word for metrics: "ok", "context_too_long", "refused", "bad_request",
// "unauthorized", "no_model", "unreachable", or else the class of the failure. An error that is no failure is
// "cancelled".
func FaultOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, f := range [...]struct {
		err  error
		name string
	}{
		{ErrContextTooLong, "context_too_long"},
		{ErrRefused, "refused"},
		{ErrBadRequest, "bad_request"},
		{ErrUnauthorized, "unauthorized"},
		{ErrNoModel, "no_model"},
		{ErrUnreachable, "unreachable"},
	} {
		if errors.Is(err, f.err) {
			return f.name
		}
	}
	if f := (*corebot.Failure)(nil); errors.As(err, &f) {
		return f.Class.String()
	}
	return corebot.Cancelled.String()
}

// IsOfRequest says whether a failure is the request's own: it would meet the next provider as well.
func IsOfRequest(err error) bool {
	return errors.Is(err, ErrContextTooLong) || errors.Is(err, ErrRefused) || errors.Is(err, ErrBadRequest)
}
