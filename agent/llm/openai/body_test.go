package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/openai"
)

// TestRequestsAtOnceHaveTheirOwnBodies has a server that answers some requests before it has read them. A buffer that
// another request got too early would show in what the server reads, or to the race detector.
func TestRequestsAtOnceHaveTheirOwnBodies(t *testing.T) {
	t.Parallel()
	var asked, whole atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		early := asked.Add(1)%2 == 0
		answer := func() {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`+
				"\n\ndata: [DONE]\n\n")
			w.(http.Flusher).Flush()
		}
		if early {
			_ = http.NewResponseController(w).EnableFullDuplex()
			answer()
			time.Sleep(5 * time.Millisecond) // for the next request of this caller to begin
		}
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			whole.Add(1)
		}
		// also what came of a body whose connection broke
		_, text, _ := strings.Cut(string(raw), `"content":"`)
		own, _, _ := strings.Cut(text, " ")
		left := strings.ReplaceAll(text, own+" ", "")
		if strings.Contains(left, " ") || err == nil && !json.Valid(raw) {
			t.Errorf("a body of %s has words of another", own)
		}
		if !early {
			answer()
		}
	}))
	defer server.Close()
	m, err := openai.New(server.URL, openai.Options{Model: "m", Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, address)
			if err == nil {
				err = c.(*net.TCPConn).SetWriteBuffer(4 << 10) // a body does not fit into the buffers on its way
			}
			return c, err
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var all sync.WaitGroup
	for who := range 8 {
		all.Go(func() {
			for n := range 12 {
				text := strings.Repeat(fmt.Sprintf("%d-%d ", who, n), 60_000)
				// the connection of an answer that came early can break: then there is no answer, as anywhere
				_, _ = m.Complete(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: text}}}, nil)
			}
		})
	}
	all.Wait()
	if whole.Load() < 40 {
		t.Errorf("%d bodies were read to their end", whole.Load())
	}
}
