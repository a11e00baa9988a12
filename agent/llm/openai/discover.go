package openai

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/corebot/corebot/agent/llm/exchange"
)

// Found is a local server that Discover found: what [New] needs to talk to it.
type Found struct {
	Server  string // "Ollama" and so on, by the port: for people
	BaseURL string
	Model   string // the first that it lists
}

const (
	discoverTime  = 300 * time.Millisecond
	maxModelsBody = 1 << 20
)

// Discover looks for a model server on this machine, at the usual ports of Ollama, LM Studio, llama.cpp and vLLM. It
// returns the first of them, in this order, that lists a model. All are asked at once, and it takes 300 ms at most. A
// listener counts as a server only if it answers GET /v1/models as OpenAI does, with at least one model. The transport
// is for tests; nil means the built-in one.
func Discover(ctx context.Context, transport http.RoundTripper) (Found, bool) {
	if transport == nil {
		t := exchange.NewTransport()
		defer t.CloseIdleConnections()
		transport = t
	}
	ctx, cancel := context.WithTimeout(ctx, discoverTime)
	defer cancel()
	candidates := []struct{ server, port string }{
		{"Ollama", "11434"},
		{"LM Studio", "1234"},
		{"llama.cpp", "8080"},
		{"vLLM", "8000"},
	}
	answers := make([]chan Found, len(candidates))
	for i, c := range candidates {
		answers[i] = make(chan Found, 1)
		found := Found{Server: c.server, BaseURL: "http://" + net.JoinHostPort("127.0.0.1", c.port) + "/v1"}
		go func() { // ends with ctx, at the latest; its channel has room
			found.Model = firstModel(ctx, transport, found.BaseURL)
			answers[i] <- found
		}()
	}
	for _, answer := range answers {
		if f := <-answer; f.Model != "" {
			return f, true
		}
	}
	return Found{}, false
}

// firstModel is empty if no OpenAI-compatible server with a model answers. Models that only embed cannot chat and are
// passed over.
func firstModel(ctx context.Context, transport http.RoundTripper, baseURL string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, baseURL+"/models", nil)
	if err != nil {
		return ""
	}
	resp, err := transport.RoundTrip(req) // no client: a redirect is not an answer
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModelsBody))
	if err != nil {
		return ""
	}
	var list struct {
		Object string `json:"object"`
		Data   []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil || list.Object != "list" {
		return ""
	}
	for _, m := range list.Data {
		if m.ID != "" && !strings.Contains(strings.ToLower(m.ID), "embed") {
			return m.ID
		}
	}
	return ""
}
