package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/corebot/corebot/agent/llm"
)

// seen is an HTTP client that keeps the request.
type seen struct{ req *http.Request }

func (s *seen) Do(req *http.Request) (*http.Response, error) {
	s.req = req
	return nil, io.EOF
}

func send(t *testing.T, field []byte, body string) *http.Request {
	t.Helper()
	var s seen
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (withField{&s, field}).Do(req); err != io.EOF {
		t.Fatal(err)
	}
	return s.req
}

func TestAFieldIsPutIntoTheBodyAlsoWhenItIsSentAgain(t *testing.T) {
	const want = `{"tools":[1],"model":"m"}`
	req := send(t, []byte(`"tools":[1],`), `{"model":"m"}`)
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
	if plain, err := io.ReadAll(send(t, nil, `{"model":"m"}`).Body); err != nil || string(plain) != `{"model":"m"}` {
		t.Errorf("without a field: %s, %v", plain, err)
	}
}

func TestToolsAreEncodedAgainOnlyWhenTheyChange(t *testing.T) {
	var text toolText
	of := func(tools ...llm.Tool) []byte {
		t.Helper()
		out, err := text.of(tools)
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
	again := of(read)
	if of(); &of(read)[0] != &again[0] {
		t.Error("a request without tools had them encoded again")
	}
	if !bytes.Contains(first, []byte(`"name":"fs_read"`)) {
		t.Errorf("%s", first)
	}
}
