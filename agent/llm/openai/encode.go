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

// encode makes the streaming request without its tools. [encodingCache] adds the tools, which stay encoded from call to
// call.
func (m *Model) encode(ctx context.Context, r llm.Request, names *llm.Names) api.ChatCompletionRequest {
	out := api.ChatCompletionRequest{Model: m.endpoint.Model, Stream: true}
	if !m.noStreamOptions.Load() {
		out.StreamOptions = &api.StreamOptions{IncludeUsage: true}
	}
	// OpenAI's newer models refuse max_tokens. Most other servers know max_tokens only.
	if m.endpoint.BaseURL == DefaultBaseURL || isReasoningFamily(m.endpoint.Model) {
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

// encodeVoice sets the temperature and the reasoning effort. OpenAI refuses an effort for a model that takes none. Most
// other servers ignore parameters that they do not know, so a model of another server is sent the effort. The SDK
// refuses a temperature for every model of the reasoning families, gpt-5-chat among them.
func (m *Model) encodeVoice(out *api.ChatCompletionRequest, v llm.Voice) {
	family := isReasoningFamily(m.endpoint.Model)
	if takesEffort(m.endpoint.Model) || !family && m.endpoint.BaseURL != DefaultBaseURL {
		out.ReasoningEffort = m.effort(v.Think)
	}
	if v.Temperature != nil && !family {
		out.Temperature = max(float32(*v.Temperature), math.SmallestNonzeroFloat32) // go-openai leaves out a zero
	}
}

// effort is the API's word for a level of thinking: the nearest that the model takes. Of OpenAI's families only the
// first gpt-5 takes "minimal". The o models, the first gpt-5 and the larger gpt-6 models always think: they do not take
// "none". A model of no known family is sent "none" as it is.
func (m *Model) effort(t corebot.Thinking) string {
	model := m.endpoint.Model
	firstGPT5 := model == "gpt-5" || strings.HasPrefix(model, "gpt-5-")
	switch {
	case t == corebot.ThinkOff && firstGPT5, t == corebot.ThinkMinimal && firstGPT5:
		return "minimal"
	case t == corebot.ThinkOff && isReasoningFamily(model) && !takesNone(model):
		return "low"
	case t == corebot.ThinkOff:
		return "none"
	case t == corebot.ThinkMinimal:
		return "low"
	}
	return string(t)
}

// Thinks implements [llm.Thinker]. A name of OpenAI's families is sure on every server, because gateways serve OpenAI's
// models under these names. At OpenAI itself every name is sure: a model of no reasoning family does not think there.
// Of any other model of another server, only that server knows what it makes of an effort.
func (m *Model) Thinks(asked corebot.Thinking) (does corebot.Thinking, sure bool) {
	sure = isReasoningFamily(m.endpoint.Model) || m.endpoint.BaseURL == DefaultBaseURL
	effort := m.effort(asked)
	if sure && !takesEffort(m.endpoint.Model) || effort == "none" {
		return corebot.ThinkOff, sure
	}
	return corebot.Thinking(effort), sure
}

// takesEffort says whether OpenAI takes a reasoning effort for a model: for all models of the reasoning families but
// gpt-5-chat.
func takesEffort(model string) bool {
	return isReasoningFamily(model) && !strings.HasPrefix(model, "gpt-5-chat")
}

// takesNone says whether a model of the reasoning families can be told not to think.
func takesNone(model string) bool {
	return strings.HasPrefix(model, "gpt-5.") || strings.HasPrefix(model, api.GPT6Sol) ||
		strings.HasPrefix(model, api.GPT6Luna)
}

// isReasoningFamily covers the names for which the SDK, like OpenAI, refuses max_tokens and a temperature.
func isReasoningFamily(model string) bool {
	for _, family := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

// isImage covers the formats that every endpoint with vision reads.
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

// reportedUsage is the provider's count of tokens: zero for nil. The tokens read from the cache are a part of the input
// tokens, so a count above these is cut to them.
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

// asEvent writes one event of the stream for the SDK, go-openai, and never fails. The SDK itself collects the chunks
// that begin with {"error": and loses those whose error it cannot read; a null error counts as one. A space after the
// brace makes every chunk come through, and assembly.next finds the errors. The SDK reads lines, so the empty line
// after an event would only cost time.
func asEvent(data []byte) ([]byte, error) {
	out := append(make([]byte, 0, len(data)+16), "data: "...)
	if bytes.HasPrefix(data, []byte(`{"error":`)) {
		out, data = append(out, "{ "...), data[1:]
	}
	return append(append(out, data...), "\n"...), nil
}
