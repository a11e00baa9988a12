package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

func (m *Model) encode(r llm.Request, names *llm.Names) api.ChatCompletionRequest {
	out := api.ChatCompletionRequest{Model: m.opts.Model, Stream: true}
	if !m.noStreamOptions.Load() {
		out.StreamOptions = &api.StreamOptions{IncludeUsage: true}
	}
	// OpenAI's newer models refuse max_tokens; most other servers know nothing else.
	if m.baseURL == DefaultBaseURL || reasons(m.opts.Model) {
		out.MaxCompletionTokens = r.MaxOutputTokens
	} else {
		//lint:ignore SA1019 it is deprecated by OpenAI only
		out.MaxTokens = r.MaxOutputTokens
	}
	for _, msg := range r.Messages {
		out.Messages = append(out.Messages, encodeMessage(msg, names))
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, api.Tool{Type: api.ToolTypeFunction, Function: &api.FunctionDefinition{
			Name: names.Encode(t.Name), Description: t.Description, Parameters: schemaOf(t),
		}})
	}
	return out
}

// reasons covers the families for which go-openai, like the provider, refuses max_tokens.
func reasons(model string) bool {
	for _, family := range []string{"o1", "o3", "o4", "gpt-5"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

func encodeMessage(msg llm.Message, names *llm.Names) api.ChatCompletionMessage {
	out := api.ChatCompletionMessage{Role: string(msg.Role), Content: msg.Text, ToolCallID: msg.CallID}
	for _, c := range msg.Calls {
		out.ToolCalls = append(out.ToolCalls, api.ToolCall{
			ID: c.ID, Type: api.ToolTypeFunction,
			Function: api.FunctionCall{Name: names.Encode(c.Tool), Arguments: encodeArgs(c.Args)},
		})
	}
	if out.Content == "" && len(out.ToolCalls) == 0 {
		out.Content = "(empty)" // go-openai would leave the field out, which providers refuse
	}
	return out
}

// encodeArgs always gives a JSON object. Many servers parse the arguments in a history, and answer arguments that a model got wrong once
// with an error to every later request; so those are wrapped, and the model still sees what it wrote.
func encodeArgs(args json.RawMessage) string {
	trimmed := bytes.TrimSpace(args)
	switch {
	case len(trimmed) == 0:
		return "{}"
	case trimmed[0] == '{' && json.Valid(trimmed):
		return string(args)
	}
	wrapped, err := json.Marshal(map[string]string{"invalid_arguments": string(args)})
	if err != nil {
		return "{}"
	}
	return string(wrapped)
}

func schemaOf(t llm.Tool) json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// usage is what the provider reported; what it did not is counted here and marked.
func (m *Model) usage(r llm.Request, a corebot.Answer, reported *api.Usage) corebot.Usage {
	var u corebot.Usage
	if reported != nil {
		u.InputTokens, u.OutputTokens = int64(max(0, reported.PromptTokens)), int64(max(0, reported.CompletionTokens))
	}
	if u.InputTokens == 0 {
		u.InputTokens, u.Estimated = int64(m.countRequest(r)), true
	}
	if u.OutputTokens == 0 && (a.Text != "" || len(a.Calls) > 0) {
		u.OutputTokens, u.Estimated = int64(m.opts.Tokenizer.Count(a.Text)+m.countCalls(a.Calls)), true
	}
	return u
}

// frameTokens is about what the markup around a message, a call or a tool costs.
const frameTokens = 4

func (m *Model) countRequest(r llm.Request) int {
	n := 0
	for _, msg := range r.Messages {
		n += frameTokens + m.opts.Tokenizer.Count(msg.Text) + m.countCalls(msg.Calls)
	}
	for _, t := range r.Tools {
		n += frameTokens + m.opts.Tokenizer.Count(t.Name) + m.opts.Tokenizer.Count(t.Description) + m.opts.Tokenizer.Count(string(t.Schema))
	}
	return n
}

func (m *Model) countCalls(calls []corebot.ToolCall) int {
	n := 0
	for _, c := range calls {
		n += frameTokens + m.opts.Tokenizer.Count(c.Tool) + m.opts.Tokenizer.Count(string(c.Args))
	}
	return n
}
