package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/load"
)

// puppet is a model that does what it is told. It repeats the message, fails at "die", and at "call batch N" makes the
// N-th 64 calls of its plan. It checks what it is shown.
type puppet struct {
	items, addresses []string
	private          string // the address of a listener that must not be asked

	mu      sync.Mutex
	tools   []llmtest.Tool // of an admin
	fields  []field
	batches [][]llmtest.Call
	results map[int]int     // of the calls of a batch, as far as the model was shown them
	offers  map[string]bool // names of the tools that it was ever offered

	leaked atomic.Pointer[string] // what was shown to the model and has the operator's secret
	odd    atomic.Pointer[string] // the same, of what no model may be shown
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
	if p.tools == nil && slices.ContainsFunc(r.Tools,
		func(t llmtest.Tool) bool { return t.Function.Name == "shell_exec" }) {
		p.tools = r.Tools
	}
	p.noticeTools(r.Tools)
	shown, batch := 0, 0
	for _, m := range slices.Backward(r.Messages) {
		text := string(m.Content)
		if m.Role == "tool" {
			if shown++; strings.Contains(text, theSecret) {
				p.leaked.Store(&text)
			}
			if hides(text) || strings.Count(text, "</data>") > 1 || strings.Contains(text, "<|im_start|>") {
				p.odd.Store(&text)
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

// noticeTools looks at what a model is told of tools: their names are such as providers take, no two are the same, and
// nothing in them is hidden.
func (p *puppet) noticeTools(offered []llmtest.Tool) {
	if p.offers == nil {
		p.offers = map[string]bool{}
	}
	seen := map[string]bool{}
	for _, tool := range offered {
		name, schema := tool.Function.Name, string(tool.Function.Parameters)
		p.offers[name] = true
		var shape map[string]any
		if err := json.Unmarshal(tool.Function.Parameters, &shape); err != nil || seen[name] ||
			!providersName.MatchString(name) || hides(tool.Function.Description) || hides(schema) {
			whole := fmt.Sprintf("the tool %q: %q, %s", name, tool.Function.Description, schema)
			p.odd.Store(&whole)
		}
		seen[name] = true
	}
}

var providersName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// hides says whether a text has what a person does not see: controls but white space, tags, zero-width and bidi
// characters.
func hides(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) || r == '\u200b' || r >= '\u202a' &&
			r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r >= '\U000e0000' && r <= '\U000e007f'
	})
}

// done says how many batches from one on the model has results of, and how many results these are.
func (p *puppet) done(from int) (batches, results int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for batch, n := range p.results {
		if batch >= from {
			batches, results = batches+1, results+n
		}
	}
	return batches, results
}

func (p *puppet) batch(n int) []llmtest.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.batches[n]
}

// learn plans calls, and says which batches they are.
func (p *puppet) learn(calls []llmtest.Call) (from, to int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from = len(p.batches)
	p.batches = slices.AppendSeq(p.batches, slices.Chunk(calls, inOneAnswer))
	return from, len(p.batches)
}

// plan makes a call of every item, of the arguments of all tools by turns, and of every address.
func (f *fort) plan(t *testing.T) (calls []llmtest.Call) {
	t.Helper()
	if _, err := f.load.Post(t.Context(), load.Message{
		ID: "what is there", ChatID: "plan", Sender: "root",
		Content: "hello",
	}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience +
		time.Duration(len(f.items))*10*time.Millisecond); !f.offered(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the admin was offered few tools")
		}
	}
	f.puppet.mu.Lock()
	defer f.puppet.mu.Unlock()
	add := func(tool, args string) {
		calls = append(calls, llmtest.Call{ID: fmt.Sprint("c", len(calls)), Name: tool, Args: args})
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
	return calls
}

// offered takes the arguments of the tools apart once the admin's tools are known.
func (f *fort) offered() bool {
	f.puppet.mu.Lock()
	defer f.puppet.mu.Unlock()
	f.fields = nil
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
			f.fields = append(f.fields, field{tool.Function.Name, name, fmt.Sprint(shape.Properties[name].Type), usual})
		}
	}
	return len(f.fields) > 0
}

// with is the arguments with an item in the field's place. An address always leads to the listener that must not be
// asked: nothing of the items is looked up.
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
