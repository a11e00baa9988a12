package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot/agent/llm"
)

// seen is an HTTP client that keeps the request.
type seen struct{ req *http.Request }

func (s *seen) Do(req *http.Request) (*http.Response, error) {
	s.req = req
	return nil, io.EOF
}

// send has a body written for a request with settings as go-openai encodes them.
func send(t *testing.T, b *body, settings string) *http.Request {
	t.Helper()
	var s seen
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x", bytes.NewBufferString(settings))
	if err != nil {
		t.Fatal(err)
	}
	b.HTTPDoer = &s
	if b.buffers == nil {
		b.buffers = &sync.Pool{}
	}
	if _, err := b.Do(req); err != io.EOF {
		t.Fatal(err)
	}
	return s.req
}

func TestABodyIsWholeAlsoWhenItIsSentAgain(t *testing.T) {
	const want = `{"tools":[1],"model":"m","messages":[{"role":"system"}]}`
	with := &body{tools: []byte(`"tools":[1],`), system: []byte(`{"role":"system"}`)}
	req := send(t, with, `{"model":"m","messages":[]}`)
	first, err := io.ReadAll(req.Body)
	if err != nil || string(first) != want || req.ContentLength != int64(len(want)) {
		t.Errorf("%s of %d bytes, %v", first, req.ContentLength, err)
	}
	again, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := io.ReadAll(again); err != nil || string(second) != want {
		t.Errorf("again: %s, %v", second, err)
	}
}

func TestABufferIsKeptOnlyWhenNobodyCanReadItAnyMore(t *testing.T) {
	for name, c := range map[string]struct {
		once, again bool
		bytes       int
		kept        bool
	}{
		"sent once":          {true, false, 10, true},
		"not sent to an end": {false, false, 10, false},
		"sent again":         {true, true, 10, false},
		"large":              {true, false, maxKeptBody, false},
	} {
		var buffers sync.Pool
		b := &body{buffers: &buffers, messages: []api.ChatCompletionMessage{{
			Role: "user", Content: strings.Repeat("a", c.bytes),
		}}}
		req := send(t, b, `{"messages":[]}`)
		if c.again {
			if _, err := req.GetBody(); err != nil {
				t.Fatal(err)
			}
		}
		puts := 0
		for range 100 { // a pool may drop what it gets
			kept := b.buffer
			b.release(c.once)
			if got, _ := buffers.Get().(*bytes.Buffer); got != nil {
				puts++
			}
			b.buffer = kept
		}
		if (puts > 0) != c.kept {
			t.Errorf("%s: kept %d times", name, puts)
		}
	}
}

// TestMessagesAreEncodedAsGoOpenAIDoes compares the members of each message, and their order in the list.
func TestMessagesAreEncodedAsGoOpenAIDoes(t *testing.T) {
	r := api.ChatCompletionRequest{Model: `a "messages":[ model`, Messages: []api.ChatCompletionMessage{
		{Role: "system", Content: "Be <kind> & \u2028."},
		{Role: "user", Content: `"messages":[`},
		{Role: "assistant", ReasoningContent: "well", ToolCalls: []api.ToolCall{{
			ID: "1", Type: "function", Function: api.FunctionCall{Name: "f", Arguments: `{"a":"<b>"}`},
		}}},
		{Role: "tool", Content: "<data>\xff</data>", ToolCallID: "1"},
		{Role: "user", MultiContent: []api.ChatMessagePart{{Type: "text", Text: "see"}}},
	}}
	decoded := func(raw []byte) (v any) {
		t.Helper()
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		return v
	}
	whole, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	system, rest, err := new(encodingCache).systemOf(r.Messages)
	if err != nil {
		t.Fatal(err)
	}
	b := &body{system: system, messages: rest}
	r.Messages = []api.ChatCompletionMessage{}
	settings, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(send(t, b, string(settings)).Body)
	if err != nil || !reflect.DeepEqual(decoded(got), decoded(whole)) {
		t.Errorf("%s, %v; want %s", got, err, whole)
	}
	if !bytes.Contains(got, []byte("<data>")) {
		t.Errorf("a mark is spelled as for HTML: %s", got)
	}
	b.system, b.messages = nil, rest
	if got, err := io.ReadAll(send(t, b, string(settings)).Body); err != nil || !json.Valid(got) {
		t.Errorf("without a system prompt: %s, %v", got, err)
	}
}

func TestToolsAreEncodedAgainOnlyWhenTheyChange(t *testing.T) {
	var kept encodingCache
	of := func(tools ...llm.Tool) []byte {
		t.Helper()
		out, err := kept.toolsOf(tools)
		if err != nil || len(tools) > 0 && !json.Valid([]byte("{"+string(out.text)+`"model":""}`)) {
			t.Fatalf("%+v, %v", out, err)
		}
		return out.text
	}
	read := llm.Tool{Name: "fs.read", Description: "Reads.", Schema: []byte(`{"type":"object"}`)}
	first := of(read)
	if again := of(read); &again[0] != &first[0] {
		t.Error("the same tools were encoded again")
	}
	for name, changed := range map[string]llm.Tool{
		"name":        {Name: "fs.list", Description: read.Description, Schema: read.Schema},
		"description": {Name: read.Name, Description: "Reads!", Schema: read.Schema},
		"schema":      {Name: read.Name, Description: read.Description, Schema: []byte(`{"type":"array"}`)},
	} {
		if bytes.Equal(of(changed), first) {
			t.Errorf("another %s is sent as before", name)
		}
	}
	if bytes.Equal(of(read, llm.Tool{Name: "x"}), first) || len(of()) != 0 {
		t.Error("another number of tools is sent as before")
	}
	for i := range 2 * maxRecent { // other sets push it out, and are not kept for ever
		if of(read, llm.Tool{Name: fmt.Sprint(i)}); len(*kept.tools.all.Load()) > maxRecent {
			t.Fatalf("%d sets are kept", len(*kept.tools.all.Load()))
		}
	}
	again := of(read)
	if other := of(read, llm.Tool{Name: "x"}); &of(read)[0] != &again[0] ||
		&of(read, llm.Tool{Name: "x"})[0] != &other[0] {
		t.Error("two sets by turns were encoded again")
	}
	if of(); &of(read)[0] != &again[0] {
		t.Error("a request without tools had them encoded again")
	}
	if !bytes.Contains(first, []byte(`"name":"fs_read"`)) {
		t.Errorf("%s", first)
	}
}

func TestTheSystemPromptIsEncodedOnce(t *testing.T) {
	var kept encodingCache
	of := func(system string) []byte {
		t.Helper()
		encoded, rest, err := kept.systemOf([]api.ChatCompletionMessage{
			{Role: "system", Content: system}, {Role: "user", Content: "a"},
		})
		if err != nil || len(rest) != 1 || rest[0].Content != "a" {
			t.Fatalf("%+v, %v", rest, err)
		}
		return encoded
	}
	first := of("Be kind.")
	if again := of("Be kind."); &again[0] != &first[0] {
		t.Error("the same system prompt was encoded again")
	}
	if changed := string(of("Be short.")); changed != `{"role":"system","content":"Be short."}`+"\n" {
		t.Errorf("a changed system prompt is sent as %s", changed)
	}
	user := []api.ChatCompletionMessage{{Role: "user", Content: "x"}}
	if out, rest, err := kept.systemOf(user); out != nil || err != nil || len(rest) != 1 {
		t.Errorf("a user's message was taken for the system prompt: %s, %v", out, err)
	}
}
