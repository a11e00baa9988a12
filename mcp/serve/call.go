package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
)

// Backend carries out what clients ask a [Server] for. Its errors are trouble that is no answer, such as a store that is closed.
type Backend interface {
	// Tools are all tools that there are, each with whether it is offered now.
	Tools(ctx context.Context) ([]Tool, error)
	// Call runs one. When ctx ends a wait ends, and nothing else.
	Call(ctx context.Context, c Call) (Result, error)
}

// Call is a call of a tool.
type Call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"`
	Key  string          `json:"key,omitempty"` // the caller's idempotency key; empty: each call is another
}

// Result is what a client gets.
type Result struct {
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured,omitempty"` // one JSON object, of a tool that has one and did not fail
	Failed     bool            `json:"failed,omitempty"`     // the text says why
}

// maxKey is the longest idempotency key, in bytes.
const maxKey = corebot.MaxKeyField

// Tools implements [Backend].
func (s *Service) Tools(ctx context.Context) ([]Tool, error) {
	offered, err := s.box.Offer(ctx, s.caller(nil))
	if err != nil {
		return nil, fmt.Errorf("read what is offered to %s: %w", s.principal(), err)
	}
	visible := map[string]bool{}
	for _, t := range offered {
		visible[t.Name] = true
	}
	all := make([]Tool, len(s.catalog))
	for i, t := range s.catalog {
		t.Offered = visible[t.internal]
		all[i] = t
	}
	return all, nil
}

// Call implements [Backend].
func (s *Service) Call(ctx context.Context, c Call) (Result, error) {
	if len(c.Key) > maxKey {
		return s.refuse(ctx, c, fmt.Sprintf("the idempotency key has %d bytes, the limit is %d", len(c.Key), maxKey))
	}
	if len(c.Args) == 0 || string(c.Args) == "null" {
		c.Args = json.RawMessage("{}")
	}
	began := time.Now()
	step := s.newStep(c)
	r, err := s.box.Call(ctx, s.caller(c.Args), corebot.ToolCall{Tool: c.Tool, Args: c.Args}, step)
	if err != nil {
		s.metrics.count(c.Tool, "interrupted", time.Since(began))
		return Result{}, err
	}
	s.metrics.count(c.Tool, string(r.Outcome), time.Since(began))
	if r.Outcome != corebot.OutcomeSuccess {
		return Result{Text: r.Content, Failed: true}, nil
	}
	return Result{Text: r.Content, Structured: structured(r.Content, s.lines[c.Tool])}, nil
}

// structured is a result as an object: the one that it is, or the objects that its lines are. Text is none.
func structured(content string, lines bool) json.RawMessage {
	text := bytes.TrimSpace([]byte(outside.Unmarked(content)))
	switch {
	case !lines && isObject(text):
		return text
	case !lines:
		return nil
	}
	items := []json.RawMessage{}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); isObject(line) {
			items = append(items, line)
		}
	}
	object, err := json.Marshal(itemPage[json.RawMessage]{items})
	if err != nil {
		return nil
	}
	return object
}

// itemPage is the result of a tool that says one object a line.
type itemPage[T any] struct {
	Items []T `json:"items"`
}

func isObject(text []byte) bool { return len(text) > 0 && text[0] == '{' && json.Valid(text) }
