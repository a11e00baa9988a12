package openai

import (
	"bytes"
	"context"
	"encoding/base64"
	"math"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// encode makes the request without its tools: see [lasting].
func (m *Model) encode(ctx context.Context, r llm.Request, names *llm.Names) api.ChatCompletionRequest {
	out := api.ChatCompletionRequest{Model: m.endpoint.Model, Stream: true}
	if !m.noStreamOptions.Load() {
		out.StreamOptions = &api.StreamOptions{IncludeUsage: true}
	}
	// OpenAI's newer models refuse max_tokens; most other servers know nothing else.
	if m.endpoint.BaseURL == DefaultBaseURL || reasons(m.endpoint.Model) {
		out.MaxCompletionTokens = r.MaxOutputTokens
	} else {
		//lint:ignore SA1019 it is deprecated by OpenAI only
		out.MaxTokens = r.MaxOutputTokens
	}
	m.encodeVoice(&out, r.Voice)
	attach := llm.NewAttacher(m.endpoint.Blobs, func(mediaType string) bool {
		return m.endpoint.Vision &&
			isImage(mediaType)
	})
	out.Messages = make([]api.ChatCompletionMessage, 0, len(r.Messages))
	for _, msg := range r.Messages {
		out.Messages = append(out.Messages, m.encodeMessage(ctx, msg, names, attach))
	}
	return out
}

// encodeVoice: OpenAI itself takes an effort from the models that reason and from no other, and a temperature from the
// others only. Most other servers leave out what they do not know.
func (m *Model) encodeVoice(out *api.ChatCompletionRequest, v llm.Voice) {
	strict := reasons(m.endpoint.Model)
	if thinks(m.endpoint.Model) || !strict && m.endpoint.BaseURL != DefaultBaseURL {
		out.ReasoningEffort = m.effort(v.Think)
	}
	if v.Temperature != nil && !strict {
		out.Temperature = max(float32(*v.Temperature), math.SmallestNonzeroFloat32) // go-openai leaves out a zero
	}
}

// effort is how much a model is to think in the words of the API. Of OpenAI's families only gpt-5 knows "minimal", only
// what came after it knows "none", and the others cannot but think.
func (m *Model) effort(t corebot.Thinking) string {
	first := m.endpoint.Model == "gpt-5" || strings.HasPrefix(m.endpoint.Model, "gpt-5-")
	switch {
	case t == corebot.ThinkOff && first, t == corebot.ThinkMinimal && first:
		return "minimal"
	case t == corebot.ThinkOff && reasons(m.endpoint.Model) && !strings.HasPrefix(m.endpoint.Model, "gpt-5"):
		return "low"
	case t == corebot.ThinkOff:
		return "none"
	case t == corebot.ThinkMinimal:
		return "low"
	}
	return string(t)
}

// Thinks implements [llm.Thinker]. Only OpenAI's families are known: what another server has is its own.
func (m *Model) Thinks(asked corebot.Thinking) (does corebot.Thinking, sure bool) {
	known := reasons(m.endpoint.Model)
	switch effort := m.effort(asked); {
	case !thinks(m.endpoint.Model) && (known || m.endpoint.BaseURL == DefaultBaseURL), effort == "none":
		return corebot.ThinkOff, known || m.endpoint.BaseURL == DefaultBaseURL
	default:
		return corebot.Thinking(effort), known
	}
}

// thinks says whether OpenAI's model takes an effort. The chat model of gpt-5 is of a family that does, and does not.
func thinks(model string) bool { return reasons(model) && !strings.HasPrefix(model, "gpt-5-chat") }

// reasons covers the families for which go-openai, like the provider, refuses max_tokens.
func reasons(model string) bool {
	for _, family := range []string{"o1", "o3", "o4", "gpt-5"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

// isImage covers what every endpoint that takes images takes.
func isImage(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

func (m *Model) encodeMessage(ctx context.Context, msg llm.Message, names *llm.Names,
	attach *llm.Attacher,
) api.ChatCompletionMessage {
	images, text := attach.Attach(ctx, msg)
	out := api.ChatCompletionMessage{
		Role: string(msg.Role), Content: text, ToolCallID: msg.CallID,
		ReasoningContent: unseal(m.endpoint.Model, msg.Opaque),
	}
	for _, c := range msg.Calls {
		out.ToolCalls = append(out.ToolCalls, api.ToolCall{
			ID: c.ID, Type: api.ToolTypeFunction,
			Function: api.FunctionCall{Name: names.Encode(c.Tool), Arguments: string(llm.ObjectArgs(c.Args))},
		})
	}
	switch {
	case len(images) > 0:
		out.Content, out.MultiContent = "", contentParts(text, images)
	case text == "" && len(out.ToolCalls) == 0:
		out.Content = "(empty)" // go-openai would leave the field out, which providers refuse
	}
	return out
}

func contentParts(text string, images []llm.Attachment) []api.ChatMessagePart {
	var parts []api.ChatMessagePart
	if text != "" {
		parts = append(parts, api.ChatMessagePart{Type: api.ChatMessagePartTypeText, Text: text})
	}
	for _, image := range images {
		link := "data:" + image.MediaType + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
		parts = append(parts, api.ChatMessagePart{
			Type:     api.ChatMessagePartTypeImageURL,
			ImageURL: &api.ChatMessageImageURL{URL: link},
		})
	}
	return parts
}

// reportedUsage is what the provider says; nil is nothing.
func reportedUsage(u *api.Usage) corebot.Usage {
	if u == nil {
		return corebot.Usage{}
	}
	out := corebot.Usage{InputTokens: int64(u.PromptTokens), OutputTokens: int64(u.CompletionTokens)}
	if d := u.PromptTokensDetails; d != nil {
		out.CacheReadTokens = int64(min(max(0, d.CachedTokens), u.PromptTokens))
	}
	return out
}

// asEvent spells an event so that the SDK, go-openai, hands it over as it is. The SDK takes a chunk that begins with an
// error, also a null error, out of the stream. It loses the chunk if it cannot read the error. A leading space hides
// the chunk from that. The SDK reads lines, and the empty line behind an event would only cost time.
func asEvent(data []byte) ([]byte, error) {
	out := append(make([]byte, 0, len(data)+16), "data: "...)
	if bytes.HasPrefix(data, []byte(`{"error":`)) {
		out, data = append(out, "{ "...), data[1:]
	}
	return append(append(out, data...), "\n"...), nil
}
