package openai_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot/agent/llm/openai"
)

// ports answers by port; a port that is not in it refuses, and one with "stall" never answers.
type ports map[string]string

func (p ports) RoundTrip(r *http.Request) (*http.Response, error) {
	body, ok := p[r.URL.Port()]
	if !ok || r.URL.Path != "/v1/models" || r.URL.Hostname() != "127.0.0.1" {
		return nil, errors.New("connection refused")
	}
	if body == "stall" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	status := http.StatusOK
	if rest, refused := strings.CutPrefix(body, "401 "); refused {
		status, body = http.StatusUnauthorized, rest
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func models(id string) string { return `{"object":"list","data":[{"id":"` + id + `"}]}` }

func TestDiscoverTakesTheFirstServerInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		ports ports
		want  openai.Found
	}{
		"all": {
			ports{"11434": models("a"), "1234": models("b"), "8080": models("c"), "8000": models("d")},
			openai.Found{Server: "Ollama", BaseURL: "http://127.0.0.1:11434/v1", Model: "a"},
		},
		"only the last": {ports{"8000": models("d")}, openai.Found{
			Server:  "vLLM",
			BaseURL: "http://127.0.0.1:8000/v1", Model: "d",
		}},
		"first is stuck": {
			ports{"11434": "stall", "8080": models("c")},
			openai.Found{Server: "llama.cpp", BaseURL: "http://127.0.0.1:8080/v1", Model: "c"},
		},
		"first has none": {
			ports{"11434": `{"object":"list","data":null}`, "1234": models("b")},
			openai.Found{Server: "LM Studio", BaseURL: "http://127.0.0.1:1234/v1", Model: "b"},
		},
		"another program": {ports{
			"8080": "<html>", "8000": `{"data":[{"id":7}]}`, "1234": `[]`,
			"11434": `{"data":[{"id":"user"}]}`,
		}, openai.Found{}},
		"only embeddings": {
			ports{"1234": `{"object":"list","data":[{"id":"text-embedding-nomic"},{"id":"qwen"}]}`},
			openai.Found{Server: "LM Studio", BaseURL: "http://127.0.0.1:1234/v1", Model: "qwen"},
		},
		"wants a key": {ports{"11434": "401 " + models("a")}, openai.Found{}},
		"nobody":      {ports{}, openai.Found{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got, ok := openai.Discover(t.Context(), c.ports)
				if got != c.want || ok != (c.want.Model != "") || time.Since(began) > 300*time.Millisecond {
					t.Errorf("%+v %v after %v", got, ok, time.Since(began))
				}
			})
		})
	}
}
