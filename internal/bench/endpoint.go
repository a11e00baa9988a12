package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Reply is what the [Endpoint] says to everything.
const Reply = "A short answer, at once."

// Endpoint is an OpenAI-compatible model on a port of loopback that answers every request at once with [Reply], streamed in words,
// and keeps the time it took: what is left of a turn is Corebot's.
type Endpoint struct {
	listener net.Listener
	server   *http.Server
	stream   []byte
	requests atomic.Int64
	spent    atomic.Int64 // nanoseconds
}

// maxPrompt bounds a request to the endpoint, in bytes.
const maxPrompt = 16 << 20

// NewEndpoint listens. It answers while [Endpoint.Run] runs.
func NewEndpoint() (*Endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as a model: %w", err)
	}
	e := &Endpoint{listener: l, stream: []byte(eventStream(Reply))}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", e.complete)
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return e, nil
}

// BaseURL is what a client of the API is set up with.
func (e *Endpoint) BaseURL() string { return "http://" + e.listener.Addr().String() + "/v1" }

// Spent is the time from the head of a request until its answer is written, of all requests so far together.
func (e *Endpoint) Spent() time.Duration { return time.Duration(e.spent.Load()) }

// Requests is how many were answered.
func (e *Endpoint) Requests() int64 { return e.requests.Load() }

// Run answers until ctx ends, and then cuts what is under way.
func (e *Endpoint) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = e.server.Close() })()
	if err := e.server.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve as a model: %w", err)
	}
	return nil
}

// Close frees the port, also of an endpoint that never ran.
func (e *Endpoint) Close() error {
	if err := e.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (e *Endpoint) complete(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxPrompt)); err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if _, err := w.Write(e.stream); err != nil {
		return
	}
	// Counted while the answer is still in the server's buffer: whoever has seen a reply finds its request counted.
	e.spent.Add(int64(time.Since(started)))
	e.requests.Add(1)
	_ = http.NewResponseController(w).Flush() // a caller that went away needs no answer
}

// eventStream is an answer as server-sent events: a chunk for each word, the reason of the end, the usage.
func eventStream(text string) string {
	var b strings.Builder
	chunk := func(choices, usage string) {
		fmt.Fprintf(&b, `data: {"id":"bench","object":"chat.completion.chunk","created":1,"model":"bench","choices":[%s],"usage":%s}`+"\n\n", choices, usage)
	}
	for _, word := range strings.SplitAfter(text, " ") {
		chunk(fmt.Sprintf(`{"index":0,"delta":{"content":%q},"finish_reason":null}`, word), "null")
	}
	chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, "null")
	chunk("", `{"prompt_tokens":100,"completion_tokens":6,"total_tokens":106}`)
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}
