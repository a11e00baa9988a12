package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// CallIDs gives the tool calls of one answer ids by which their results can be told apart. Models leave ids out, and use one twice.
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

// Give is called once for each call of the answer, in their order. It keeps the model's own id unless that is empty or was given in this
// answer before; an id of ours is none of the history's, and the same in every attempt.
func (c *CallIDs) Give(own string) string {
	id := own
	for n := c.messages; id == "" || c.inAnswer[id] || id != own && c.inHistory[id]; n++ {
		id = fmt.Sprintf("call_%d_%d", n, c.given)
	}
	c.inAnswer[id] = true
	c.given++
	return id
}

// ObjectArgs always gives a JSON object. Many providers parse the arguments in a history, and answer arguments that a model got wrong
// once with an error to every later request; so those are wrapped, and the model still sees what it wrote.
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

// SchemaOf is the tool's schema; a tool without one takes no arguments.
func SchemaOf(t Tool) json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}
