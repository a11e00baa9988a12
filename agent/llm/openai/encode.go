package openai

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// encode makes the request without its tools: see [toolText].
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
	attach := llm.NewAttacher(m.endpoint.Blobs, func(mediaType string) bool { return m.endpoint.Vision && isImage(mediaType) })
	out.Messages = make([]api.ChatCompletionMessage, 0, len(r.Messages))
	for _, msg := range r.Messages {
		out.Messages = append(out.Messages, m.encodeMessage(ctx, msg, names, attach))
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

// isImage covers what every endpoint that takes images takes.
func isImage(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

func (m *Model) encodeMessage(ctx context.Context, msg llm.Message, names *llm.Names, attach *llm.Attacher) api.ChatCompletionMessage {
	images, text := attach.Attach(ctx, msg)
	out := api.ChatCompletionMessage{Role: string(msg.Role), Content: text, ToolCallID: msg.CallID, ReasoningContent: unseal(m.endpoint.Model, msg.Opaque)}
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
		parts = append(parts, api.ChatMessagePart{Type: api.ChatMessagePartTypeImageURL, ImageURL: &api.ChatMessageImageURL{URL: link}})
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

// asEvent spells an event so that go-openai hands it over as it is. A chunk that begins with an error, also with a null one, it would
// take out of the stream and, if it cannot read the error, lose; a space hides it. It reads lines: the empty one behind an event would only cost
// it time.
func asEvent(data []byte) ([]byte, error) {
	out := append(make([]byte, 0, len(data)+16), "data: "...)
	if bytes.HasPrefix(data, []byte(`{"error":`)) {
		out, data = append(out, "{ "...), data[1:]
	}
	return append(append(out, data...), "\n"...), nil
}
