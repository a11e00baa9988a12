package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/tools"
)

// Tool is a tool as clients see it.
type Tool struct {
	Name        string          `json:"name"` // as MCP clients and the providers behind them take it
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`           // of the arguments
	Output      json.RawMessage `json:"output,omitempty"` // of the structured result
	Hints       Hints           `json:"hints"`
	Offered     bool            `json:"offered"` // the role may use it now

	internal string
	lines    bool
	required []string // arguments
}

// Hints say what a call of a tool means, as the protocol's annotations do.
type Hints struct {
	ReadOnly    bool `json:"readOnly"`
	Destructive bool `json:"destructive"`
	Idempotent  bool `json:"idempotent"`
	OpenWorld   bool `json:"openWorld"`
}

// sheet is what there is to say of a tool beside what the tool says itself.
type sheet struct {
	title  string
	hints  Hints
	output func() (json.RawMessage, error) // nil: what it says has no fixed form
	lines  bool                            // it says one object a line
}

// sheets are of the tools that clients may have. A tool that is not here is none of theirs.
func sheets() map[string]sheet {
	reads := Hints{ReadOnly: true, Idempotent: true}
	return map[string]sheet{
		"chat.list":    {title: "List chats", hints: reads, output: schemaOf[chatPage]},
		"history.read": {title: "Read what was said", hints: reads, output: schemaOf[historyPage]},
		"message.publish": {
			title: "Say something and wait for the reply",
			hints: Hints{Destructive: true, OpenWorld: true}, output: schemaOf[published],
		},
		"message.replies": {title: "Fetch replies", hints: reads, output: schemaOf[replyPage]},
		"status.read":     {title: "Read the status", hints: reads},
		"bus.dead_letter.list": {
			title: "List dead letters", hints: reads, output: schemaOf[itemPage[map[string]any]],
			lines: true,
		},
		"bus.dead_letter.replay": {title: "Replay a dead letter", hints: Hints{OpenWorld: true}},
	}
}

func catalog(r *tools.Registry) ([]Tool, error) {
	var all []Tool
	var err error
	known := sheets()
	for _, t := range r.Offer(func(tools.Tool) bool { return true }) {
		s, ok := known[t.Name]
		if !ok {
			return nil, fmt.Errorf("the tool %s has no description for MCP clients", t.Name)
		}
		entry := Tool{
			Name: llm.EncodeName(t.Name), Title: s.title, Description: t.Description, Schema: t.Schema,
			Hints: s.hints, internal: t.Name, lines: s.lines,
		}
		if entry.required, err = requiredOf(t.Schema); err != nil {
			return nil, fmt.Errorf("read the schema of %s: %w", t.Name, err)
		}
		if s.output != nil {
			if entry.Output, err = s.output(); err != nil {
				return nil, fmt.Errorf("describe the results of %s: %w", t.Name, err)
			}
		}
		all = append(all, entry)
	}
	return all, nil
}

// requiredOf are the arguments that a schema requires.
func requiredOf(schema json.RawMessage) ([]string, error) {
	var s struct {
		Required []string `json:"required"`
	}
	err := json.Unmarshal(schema, &s)
	return s.Required, err
}

// emptyOf is the name of an argument that can be left out, and is an empty text. It comes from a variable that was not
// set, and would mean the default, such as another chat. An empty cursor is that of the first page. No name: there is
// no such argument.
func (t Tool) emptyOf(args json.RawMessage) string {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(args, &given) // the box refuses what is no object
	for _, name := range slices.Sorted(maps.Keys(given)) {
		cursor := name == "after" || name == "before"
		if string(given[name]) == `""` && !cursor && !slices.Contains(t.required, name) {
			return name
		}
	}
	return ""
}

// schemaOf is the schema of a result.
func schemaOf[T any]() (json.RawMessage, error) {
	return json.Marshal(mcp.NewTool("result", mcp.WithOutputSchema[T]()).OutputSchema)
}
