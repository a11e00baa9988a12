package llmtest

import (
	"encoding/json"
	"fmt"
)

// messagesRequest is a request of Anthropic's messages API.
type messagesRequest struct {
	Model     string      `json:"model"`
	MaxTokens int         `json:"max_tokens"`
	Stream    bool        `json:"stream"`
	System    blockList   `json:"system"`
	Messages  []blockTurn `json:"messages"`
	Tools     []blockTool `json:"tools"`
}

type blockTurn struct {
	Role    string    `json:"role"`
	Content blockList `json:"content"`
}

type blockTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// block is a piece of content, of any type.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   blockList       `json:"content"`
}

// blockList is content: blocks, or a string that stands for one of text.
type blockList []block

func (l *blockList) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*l = blockList{{Type: "text", Text: text}}
		return nil
	}
	var blocks []block
	err := json.Unmarshal(data, &blocks)
	*l = blocks
	return err
}

func (l blockList) text() Content {
	var text Content
	for _, b := range l {
		switch b.Type {
		case "text":
			text += Content(b.Text)
		case "image", "document":
			text += Content("[" + b.Type + "]")
		}
	}
	return text
}

// parseMessages translates a request of the messages API; it is as strict about the shape of a conversation as
// Anthropic is.
func parseMessages(body []byte) (Request, error) {
	var m messagesRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return Request{}, fmt.Errorf("the request is not one of the messages API: %w", err)
	}
	switch {
	case len(m.Messages) == 0 || m.Messages[0].Role != "user":
		return Request{}, fmt.Errorf("the request does not begin with a user's message: %.200s", body)
	case m.MaxTokens <= 0:
		return Request{}, fmt.Errorf("the request has no max_tokens")
	case !m.Stream:
		return Request{}, fmt.Errorf("only streams are spoken")
	}
	r := Request{API: Anthropic, Body: body, Model: m.Model, MaxTokens: m.MaxTokens, Stream: true}
	if text := m.System.text(); text != "" {
		r.Messages = append(r.Messages, Message{Role: "system", Content: text})
	}
	open := map[string]bool{} // tool calls of the message before
	for _, turn := range m.Messages {
		var err error
		if open, err = r.addTurn(turn, open); err != nil {
			return Request{}, err
		}
	}
	for _, t := range m.Tools {
		var tool Tool
		tool.Function.Name, tool.Function.Description, tool.Function.Parameters = t.Name, t.Description, t.InputSchema
		r.Tools = append(r.Tools, tool)
	}
	r.nameSenders()
	return r, nil
}

// addTurn adds what one turn says, and returns the calls that the next must answer.
func (r *Request) addTurn(turn blockTurn, open map[string]bool) (map[string]bool, error) {
	said := Message{Role: turn.Role, Content: turn.Content.text()}
	calls := map[string]bool{}
	for _, b := range turn.Content {
		switch b.Type {
		case "tool_result":
			if !open[b.ToolUseID] || !resultsFirst(turn.Content) {
				return nil, fmt.Errorf("the result %q answers no call of the message before, or stands behind "+
					"something else", b.ToolUseID)
			}
			delete(open, b.ToolUseID)
			r.Messages = append(r.Messages, Message{Role: "tool", CallID: b.ToolUseID, Content: b.Content.text()})
		case "tool_use":
			call := ToolCall{ID: b.ID}
			call.Function.Name, call.Function.Arguments = b.Name, string(b.Input)
			said.ToolCalls = append(said.ToolCalls, call)
			calls[b.ID] = true
		case "thinking":
			said.Thinking += b.Thinking
		case "text":
			if b.Text == "" {
				return nil, fmt.Errorf("a text block is empty")
			}
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("%d tool calls have no result", len(open))
	}
	if said.Content != "" || len(said.ToolCalls) > 0 {
		r.Messages = append(r.Messages, said)
	}
	return calls, nil
}

// resultsFirst: the API wants the results of tools in front of everything else that a turn says.
func resultsFirst(blocks blockList) bool {
	other := false
	for _, b := range blocks {
		if b.Type == "tool_result" && other {
			return false
		}
		other = other || b.Type != "tool_result"
	}
	return true
}

// stopReasons are Anthropic's words for why an answer ended.
var stopReasons = map[string]string{
	"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens",
	"content_filter": "refusal",
}

// messageEvents are the events of a message.
func (a Answer) messageEvents(req Request) []string {
	if a.events != nil {
		var events []string
		for _, data := range a.events {
			events = append(events, event(json.RawMessage(data)))
		}
		return events
	}
	b := &messageBuilder{}
	b.add(object{"type": "message_start", "message": object{
		"id": fmt.Sprintf("msg_%d", req.N), "type": "message", "role": "assistant", "model": req.Model,
		"content":     []object{},
		"stop_reason": nil, "usage": a.inputUsage(),
	}})
	b.add(object{"type": "ping"})
	if a.think != "" {
		b.block(object{"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking",
			pieces(a.think, a.piece))
	}
	if a.text != "" {
		b.block(object{"type": "text", "text": ""}, "text_delta", "text", pieces(a.text, a.piece))
	}
	for _, c := range a.namedCalls() {
		b.block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}, "input_json_delta",
			"partial_json", bytePieces(c.Args, a.argsPiece()))
	}
	reason := a.finish
	if theirs, known := stopReasons[reason]; known {
		reason = theirs
	}
	end := object{
		"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil},
		"usage": object{"output_tokens": a.usage.Output},
	}
	if a.bare {
		delete(end, "usage")
	}
	b.add(end)
	b.add(object{"type": "message_stop"})
	return b.events
}

func (a Answer) inputUsage() object {
	if a.bare {
		return object{}
	}
	return object{
		"input_tokens": a.usage.Input, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2,
		"output_tokens": 1,
	}
}

// messageBuilder numbers the blocks.
type messageBuilder struct {
	events []string
	blocks int
}

func (b *messageBuilder) add(o object) { b.events = append(b.events, event(o)) }

func (b *messageBuilder) block(start object, deltaType, field string, pieces []string) {
	b.add(object{"type": "content_block_start", "index": b.blocks, "content_block": start})
	for _, p := range pieces {
		b.add(object{"type": "content_block_delta", "index": b.blocks, "delta": object{"type": deltaType, field: p}})
	}
	if deltaType == "thinking_delta" {
		b.add(object{
			"type": "content_block_delta", "index": b.blocks,
			"delta": object{"type": "signature_delta", "signature": Signature},
		})
	}
	b.add(object{"type": "content_block_stop", "index": b.blocks})
	b.blocks++
}

// Signature signs every block of thinking of the messages API.
const Signature = "c2lnbmF0dXJl"

// event spells one event of the messages API; data that is not JSON has no name.
func event(data any) string {
	text, raw := data.(json.RawMessage)
	if !raw {
		var err error
		if text, err = json.Marshal(data); err != nil {
			panic(err) // strings, numbers and maps of them always marshal
		}
	}
	var named struct{ Type string }
	_ = json.Unmarshal(text, &named)
	return "event: " + named.Type + "\ndata: " + string(text)
}
