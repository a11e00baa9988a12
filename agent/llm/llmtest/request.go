package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
)

// API is in which provider's words a request came, and goes back.
type API string

const (
	OpenAI    API = "openai"
	Anthropic API = "anthropic"
)

// Request is one request as the model got it: names are the provider's, not the internal ones. One of Anthropic's API
// is translated; what has no counterpart is only in Body.
type Request struct {
	N               int         `json:"-"` // which request this is, from 1
	API             API         `json:"-"`
	Header          http.Header `json:"-"`
	Body            []byte      `json:"-"` // the whole JSON, for what is not below
	Model           string      `json:"model"`
	Messages        []Message   `json:"messages"`
	Tools           []Tool      `json:"tools"`
	Stream          bool        `json:"stream"`
	StreamOptions   *StreamOpts `json:"stream_options"`
	MaxTokens       int         `json:"max_tokens"`
	MaxOutputTokens int         `json:"max_completion_tokens"`
}

// StreamOpts asks for a usage chunk.
type StreamOpts struct {
	IncludeUsage bool `json:"include_usage"`
}

// Message is one entry of the context.
type Message struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
	// of a user's: who speaks in it, as the lines before the texts say; they are not in Content
	Senders   []string   `json:"-"`
	ToolCalls []ToolCall `json:"tool_calls"`
	CallID    string     `json:"tool_call_id"`
	Thinking  string     `json:"reasoning_content"`
}

// Content is the text of a message. Of content in parts it is the text parts, with [image] and the like for the others.
type Content string

// UnmarshalJSON takes a string, null, or a list of parts.
func (c *Content) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		*c = Content(text)
		return nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type == "text" {
			*c += Content(p.Text)
		} else {
			*c += Content("[" + p.Type + "]")
		}
	}
	return nil
}

// ToolCall is a call in the history.
type ToolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Tool is a tool that is offered.
type Tool struct {
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// LastText is the content of the last message.
func (r Request) LastText() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return string(r.Messages[len(r.Messages)-1].Content)
}

// ToolNames are the names of the offered tools, in order.
func (r Request) ToolNames() []string {
	names := make([]string, len(r.Tools))
	for i, t := range r.Tools {
		names[i] = t.Function.Name
	}
	return names
}

func parseRequest(body []byte) (Request, error) {
	r := Request{API: OpenAI}
	if err := json.Unmarshal(body, &r); err != nil {
		return Request{}, fmt.Errorf("the request is not a chat completion: %w", err)
	}
	if len(r.Messages) == 0 {
		return Request{}, fmt.Errorf("the request has no messages: %.200s", body)
	}
	r.Body = body
	r.nameSenders()
	return r, nil
}

// senderLine stands before what a person says: see package agent.
var senderLine = regexp.MustCompile(`<data kind="sender">([^<]*)</data>\n`)

// nameSenders takes the lines that say who speaks out of the contents, so that a test finds what was said as it was
// said.
func (r *Request) nameSenders() {
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role != "user" {
			continue
		}
		for _, found := range senderLine.FindAllStringSubmatch(string(m.Content), -1) {
			m.Senders = append(m.Senders, found[1])
		}
		m.Content = Content(senderLine.ReplaceAllString(string(m.Content), ""))
	}
}
