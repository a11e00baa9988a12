package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/load"
)

// puppet is a model that does what it is told: it says what was said to it, fails at "die", and at "call batch N" makes the N-th 64 calls of its
// plan.
type puppet struct {
	items, addresses []string
	private          string // the address of a listener that must not be asked

	mu     sync.Mutex
	tools  []llmtest.Tool
	fields []field
	calls  []llmtest.Call

	results map[int]int // of the calls of a batch, as far as the model was shown them
	leaked  atomic.Pointer[string]
}

// field is one argument of a tool, with all arguments of it that do no harm.
type field struct {
	tool, name, kind string
	usual            map[string]any
}

func (p *puppet) answer(r llmtest.Request) llmtest.Answer {
	p.notice(r)
	said := lastUser(r)
	var batch int
	switch _, err := fmt.Sscanf(said, "call batch %d", &batch); {
	case strings.HasPrefix(said, "die "):
		return llmtest.Fail(http.StatusBadRequest, "this cannot be answered")
	case err != nil:
		return llmtest.Text("you said: " + said[:min(len(said), 500)])
	case toolResults(r) > 0:
		return llmtest.Text("done")
	}
	return llmtest.ToolCalls(p.batch(batch)...)
}

func (p *puppet) notice(r llmtest.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tools == nil {
		p.tools = r.Tools
	}
	shown, batch := 0, 0
	for _, m := range slices.Backward(r.Messages) {
		text := string(m.Content)
		if m.Role == "tool" {
			if shown++; strings.Contains(text, theSecret) {
				p.leaked.Store(&text)
			}
		} else if _, err := fmt.Sscanf(text, "call batch %d", &batch); err == nil && m.Role == "user" {
			break
		}
	}
	if p.results == nil {
		p.results = map[int]int{}
	}
	if shown > 0 {
		p.results[batch] = shown
	}
}

// done says how many batches the model has results of, and how many results these are.
func (p *puppet) done() (batches, results int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.results {
		results += n
	}
	return len(p.results), results
}

func (p *puppet) batch(n int) []llmtest.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[n*inOneAnswer : min(len(p.calls), (n+1)*inOneAnswer)]
}

// plan makes a call of every item, of the arguments of all tools by turns, and of every address; it says how many batches they are.
func (f *fort) plan(t *testing.T) int {
	t.Helper()
	if _, err := f.load.Post(t.Context(), load.Message{ID: "what is there", ChatID: "plan", Sender: "root", Content: "hello"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !f.offered(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the admin was offered few tools")
		}
	}
	f.puppet.mu.Lock()
	defer f.puppet.mu.Unlock()
	add := func(tool, args string) {
		f.calls = append(f.calls, llmtest.Call{ID: fmt.Sprint("c", len(f.calls)), Name: tool, Args: args})
	}
	for i, item := range f.items {
		at := f.fields[i%len(f.fields)]
		if i%7 == 6 {
			add(at.tool, item)
			continue
		}
		add(at.tool, at.with(item, f.private))
	}
	for _, address := range f.addresses {
		add("web_fetch", mustJSON(map[string]any{"url": address}))
	}
	return (len(f.calls) + inOneAnswer - 1) / inOneAnswer
}

// offered takes the arguments of the tools apart once the admin's tools are known.
func (f *fort) offered() bool {
	f.puppet.mu.Lock()
	defer f.puppet.mu.Unlock()
	var fields []field
	admins := false
	for _, tool := range f.tools {
		var shape struct{ Properties map[string]struct{ Type any } }
		if err := json.Unmarshal(tool.Function.Parameters, &shape); err != nil {
			panic(err) // a schema that was offered is JSON
		}
		usual := map[string]any{}
		for name := range shape.Properties {
			if value, has := usualArguments()[name]; has {
				usual[name] = value
			}
		}
		for _, name := range slices.Sorted(maps.Keys(shape.Properties)) {
			fields = append(fields, field{tool.Function.Name, name, fmt.Sprint(shape.Properties[name].Type), usual})
		}
		admins = admins || tool.Function.Name == "shell_exec"
	}
	if f.fields = fields; !admins {
		f.tools = nil // they were somebody else's
	}
	return admins
}

// with is the arguments with an item in the field's place. An address always leads to the listener that must not be asked: nothing of the items is
// looked up.
func (at field) with(item, private string) string {
	args := maps.Clone(at.usual)
	switch {
	case at.name == "url" && strings.Contains(item, "//"):
		args[at.name] = private + "/?" + item
	case at.name == "url":
		args[at.name] = private + item
	case at.name == "argv":
		args[at.name] = []string{"echo", item}
		if len(item)%2 == 0 {
			args[at.name] = []string{item}
		}
	default:
		args[at.name] = item
	}
	return mustJSON(args)
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and maps of them always marshal
	}
	return string(text)
}
