package anthropic

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

func (m *Model) encode(ctx context.Context, r llm.Request, names *llm.Names) *request {
	out := &request{Model: m.endpoint.Model, MaxTokens: r.MaxOutputTokens, Stream: true}
	if out.MaxTokens <= 0 {
		out.MaxTokens = defaultOutput
	}
	if budget := m.budget(r.Voice.Think); budget > 0 && m.mayThink(r.Messages) {
		out.Thinking = &thinkingBudget{Type: "enabled", Tokens: budget}
		out.MaxTokens += budget // the API counts thinking as output
	} else if r.Voice.Temperature != nil { // which the API does not take together with thinking
		temperature := min(*r.Voice.Temperature, 1) // the API's scale ends there
		out.Temperature = &temperature
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool{
			Name: names.Encode(t.Name), Description: t.Description, InputSchema: llm.SchemaOf(t),
		})
	}
	e := &encoder{
		Model: m, names: names, attach: llm.NewAttacher(m.endpoint.Blobs, m.takes), ids: map[string]string{},
		used: map[string]bool{},
	}
	for _, msg := range r.Messages {
		if msg.Role != llm.System {
			e.addMessage(ctx, out, msg)
		} else if strings.TrimSpace(msg.Text) != "" {
			out.System = append(out.System, textBlock(msg.Text))
		}
	}
	markForCache(out)
	return out
}

// budget is how many tokens a model can think with. The default level has the number of the settings. A model without
// thinking that is asked for a level has 0.
func (m *Model) budget(t corebot.Thinking) int {
	if t != corebot.ThinkDefault && !thinks(m.endpoint.Model) {
		return 0
	}
	switch t {
	case corebot.ThinkOff:
		return 0
	case corebot.ThinkMinimal:
		return minThinking
	case corebot.ThinkLow:
		return 4 * minThinking
	case corebot.ThinkMedium:
		return 12 * minThinking
	case corebot.ThinkHigh:
		return 24 * minThinking
	}
	return m.thinking
}

// thinks says whether a model has thinking at all: the API refuses a budget for the models of the first families. An
// unknown name is taken for a newer model, which has it.
func thinks(model string) bool {
	for _, family := range []string{
		"claude-2", "claude-instant", "claude-3-opus", "claude-3-sonnet", "claude-3-haiku", "claude-3-5",
	} {
		if strings.HasPrefix(model, family) {
			return false
		}
	}
	return true
}

// Thinks implements [llm.Thinker]. It is always sure, because the budget is set by Corebot.
func (m *Model) Thinks(asked corebot.Thinking) (does corebot.Thinking, sure bool) {
	if !thinks(m.endpoint.Model) {
		return corebot.ThinkOff, true
	}
	return asked, true
}

// mayThink says whether thinking can be on for these messages. With thinking on, the API refuses the result of a tool
// whose call comes without the thinking that led to it. Another model can have made such a call in the same turn.
func (m *Model) mayThink(messages []llm.Message) bool {
	for _, msg := range slices.Backward(messages) {
		if msg.Role == llm.User {
			return true
		}
		if len(msg.Calls) > 0 {
			if _, sealed := unseal(m.endpoint.Model, msg); !sealed {
				return false
			}
		}
	}
	return true
}

// encoder makes the messages of one request.
type encoder struct {
	*Model
	names  *llm.Names
	attach *llm.Attacher
	ids    map[string]string // by the id of a call in the history: the id of its newest call as the API is told it
	used   map[string]bool   // the ids that the API is told
}

// addMessage adds the blocks of a message. The API wants the two sides to alternate. So messages of one side in a row
// become one message, with the results of tools first.
func (e *encoder) addMessage(ctx context.Context, out *request, msg llm.Message) {
	role, blocks := roleUser, []block(nil)
	switch msg.Role {
	case llm.Assistant:
		role, blocks = roleAssistant, e.assistantBlocks(msg)
	case llm.ToolRole:
		blocks = []block{resultBlock(e.ids[msg.CallID], orEmpty(msg.Text))}
	default:
		blocks = userBlocks(ctx, msg, e.attach)
	}
	last := len(out.Messages) - 1
	if last < 0 || out.Messages[last].Role != role {
		out.Messages = append(out.Messages, message{Role: role, Content: blocks})
		return
	}
	at := len(out.Messages[last].Content)
	if msg.Role == llm.ToolRole {
		at = slices.IndexFunc(out.Messages[last].Content, func(b block) bool { return b.Type != kindResult })
		if at < 0 {
			at = len(out.Messages[last].Content)
		}
	}
	out.Messages[last].Content = slices.Insert(out.Messages[last].Content, at, blocks...)
}

func (e *encoder) assistantBlocks(msg llm.Message) []block {
	var calls []block
	for _, c := range msg.Calls {
		calls = append(calls, block{
			Type: kindCall, ID: e.callID(c.ID), Name: e.names.Encode(c.Tool), Input: llm.ObjectArgs(c.Args),
		})
	}
	if blocks, sealed := unseal(e.endpoint.Model, msg); sealed {
		return reopen(blocks, calls)
	}
	if msg.Text == "" && len(calls) > 0 {
		return calls
	}
	return append([]block{textBlock(orEmpty(msg.Text))}, calls...)
}

func userBlocks(ctx context.Context, msg llm.Message, attach *llm.Attacher) []block {
	shown, text := attach.Attach(ctx, msg)
	var blocks []block
	for _, a := range shown {
		blocks = append(blocks, attachmentBlock(a))
	}
	if len(blocks) == 0 || text != "" {
		blocks = append(blocks, textBlock(orEmpty(text)))
	}
	return blocks
}

const (
	mediaPDF  = "application/pdf"
	mediaText = "text/plain"
)

// takes says which media types the model takes. Images need a model with vision, and so do PDFs: the API shows a model
// each page as an image. Plain text needs none.
func (m *Model) takes(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp", mediaPDF:
		return m.endpoint.Vision
	case mediaText:
		return true
	}
	return false
}

func attachmentBlock(a llm.Attachment) block {
	if a.MediaType == mediaText {
		text := strings.ToValidUTF8(string(a.Data), "?")
		return block{Type: kindDocument, Source: &source{Type: "text", MediaType: mediaText, Data: text}}
	}
	kind := kindImage
	if a.MediaType == mediaPDF {
		kind = kindDocument
	}
	data := base64.StdEncoding.EncodeToString(a.Data)
	return block{Type: kind, Source: &source{Type: "base64", MediaType: a.MediaType, Data: data}}
}

// orEmpty puts "(empty)" in the place of a blank text, which the API refuses.
func orEmpty(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(empty)"
	}
	return s
}

// callID makes an id of a call that the API takes: of plain characters, and unique in the request. A history can have
// other providers' ids, of which some have other characters or come twice. A result belongs to the newest call with its
// id.
func (e *encoder) callID(id string) string {
	plain := llm.EncodeName(id)
	unique := plain
	for n := 2; e.used[unique]; n++ {
		unique = llm.EncodeName(fmt.Sprintf("%s_%d", plain, n))
	}
	e.used[unique], e.ids[id] = true, unique
	return unique
}

// markForCache marks the places up to which the provider can cache: the end of the system prompt, which comes after the
// tools, or the end of the tools. In a request with tools the end of the conversation is marked too, because a call of
// a tool has the next request follow at once.
func markForCache(out *request) {
	mark := &cacheControl{Type: "ephemeral"}
	switch {
	case len(out.System) > 0:
		out.System[len(out.System)-1].CacheControl = mark
	case len(out.Tools) > 0:
		out.Tools[len(out.Tools)-1].CacheControl = mark
	}
	if len(out.Tools) == 0 || len(out.Messages) == 0 {
		return
	}
	content := out.Messages[len(out.Messages)-1].Content
	if len(content) == 0 {
		return
	}
	if b := &content[len(content)-1]; b.Type == kindText || b.Type == kindResult {
		b.CacheControl = mark
	}
}
