package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
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

func send(t *testing.T, field, message []byte, body string) *http.Request {
	t.Helper()
	var s seen
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (withLasting{&s, field, message}).Do(req); err != io.EOF {
		t.Fatal(err)
	}
	return s.req
}

func TestAFieldIsPutIntoTheBodyAlsoWhenItIsSentAgain(t *testing.T) {
	const want = `{"tools":[1],"model":"m"}`
	req := send(t, []byte(`"tools":[1],`), nil, `{"model":"m"}`)
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
	const bare = `{"model":"m"}`
	if plain, err := io.ReadAll(send(t, nil, nil, bare).Body); err != nil || string(plain) != bare {
		t.Errorf("without a field: %s, %v", plain, err)
	}
}

func TestToolsAreEncodedAgainOnlyWhenTheyChange(t *testing.T) {
	var kept lasting
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

func TestTheSystemPromptIsEncodedOnceAndStandsBeforeTheOtherMessages(t *testing.T) {
	var kept lasting
	ask := func(model, system string) (body string, encoded []byte) {
		t.Helper()
		r := api.ChatCompletionRequest{Model: model, Messages: []api.ChatCompletionMessage{
			{Role: "system", Content: system}, {Role: "user", Content: `"messages":[`},
		}}
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err = kept.takeSystem(&r)
		if err != nil {
			t.Fatal(err)
		}
		rest, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(send(t, []byte(`"tools":[1],`), encoded, string(rest)).Body)
		if err != nil || string(got) != `{"tools":[1],`+string(want[1:]) {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		return string(got), encoded
	}
	_, first := ask(`a "messages":[ model`, "Be <kind>.")
	if _, again := ask("m", "Be <kind>."); &again[0] != &first[0] {
		t.Error("the same system prompt was encoded again")
	}
	if body, _ := ask("m", "Be short."); !strings.Contains(body, "Be short.") || strings.Contains(body, "kind") {
		t.Errorf("a changed system prompt is sent as %s", body)
	}
	alone := api.ChatCompletionRequest{Messages: []api.ChatCompletionMessage{{Role: "system", Content: "x"}}}
	if out, err := kept.takeSystem(&alone); out != nil || err != nil || len(alone.Messages) != 1 {
		t.Errorf("a system prompt alone was taken out: %s, %v", out, err)
	}
}
