package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Reply is what the [Endpoint] says to everything.
const Reply = "A short answer, at once."

// Endpoint is an OpenAI-compatible model on a port of loopback. It answers every request at once with [Reply], streamed
// in words, and keeps the time it took: the rest of a turn is Corebot's. It shares the processors with Corebot, so it
// takes as little of them as it can. It skips requests without a server around them, and makes the answer beforehand.
type Endpoint struct {
	listener net.Listener
	answer   []byte
	requests atomic.Int64
	spent    atomic.Int64 // nanoseconds
	serving  sync.WaitGroup
}

// maxPrompt bounds a request to the endpoint, in bytes.
const maxPrompt = 16 << 20

// NewEndpoint listens. It answers while [Endpoint.Run] runs.
func NewEndpoint() (*Endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as a model: %w", err)
	}
	stream := eventStream(Reply)
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n", len(stream))
	return &Endpoint{listener: l, answer: []byte(head + stream)}, nil
}

// BaseURL is what a client of the API is set up with.
func (e *Endpoint) BaseURL() string { return "http://" + e.listener.Addr().String() + "/v1" }

// Spent is the time from the first byte of a request until its answer is ready, of all requests so far together.
func (e *Endpoint) Spent() time.Duration { return time.Duration(e.spent.Load()) }

// Requests is how many were answered.
func (e *Endpoint) Requests() int64 { return e.requests.Load() }

// Run answers until ctx ends, and then cuts what is under way.
func (e *Endpoint) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer e.serving.Wait()
	defer end()
	defer context.AfterFunc(ctx, func() { _ = e.listener.Close() })()
	for {
		c, err := e.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve as a model: %w", err)
		}
		e.serving.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			_ = errors.Join(e.serve(c), c.Close()) // a caller that went away needs no answer
		})
	}
}

// Close frees the port, also of an endpoint that never ran.
func (e *Endpoint) Close() error {
	if err := e.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// requestBytes is room for a usual request, so that it takes one read of the connection and not one for every page.
const requestBytes = 64 << 10

// serve answers one connection until its caller ends it.
func (e *Endpoint) serve(c net.Conn) error {
	in := bufio.NewReaderSize(c, requestBytes)
	for {
		if _, err := in.Peek(1); err != nil {
			return err
		}
		started := time.Now()
		if err := skipRequest(in); err != nil {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			return err
		}
		// Counted before the answer is out: whoever has seen a reply finds its request counted.
		e.spent.Add(int64(time.Since(started)))
		e.requests.Add(1)
		if _, err := c.Write(e.answer); err != nil {
			return err
		}
	}
}

var (
	errNoCompletion = errors.New("this is no request for a completion, or it is too long")

	askedFor      = []byte("/v1/chat/completions HTTP/1.1\r\n")
	contentLength = []byte("content-length:")
)

// skipRequest reads one request to its end. It wants the length of the body in the header, as Corebot sends it.
func skipRequest(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(line, []byte("POST ")) || !bytes.HasSuffix(line, askedFor) {
		return cmp.Or(err, errNoCompletion)
	}
	length := -1
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) <= len("\r\n") {
			break
		}
		if n := len(contentLength); len(line) > n && bytes.EqualFold(line[:n], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[n:]))); err != nil {
				return errNoCompletion
			}
		}
	}
	if length < 0 || length > maxPrompt {
		return errNoCompletion
	}
	_, err = in.Discard(length)
	return err
}

// eventStream is an answer as server-sent events: a chunk for each word, the reason of the end, the usage.
func eventStream(text string) string {
	var b strings.Builder
	chunk := func(choices, usage string) {
		fmt.Fprintf(&b,
			`data: {"id":"bench","object":"chat.completion.chunk","created":1,"model":"bench","choices":[%s],`+
				`"usage":%s}`+"\n\n", choices, usage)
	}
	for _, word := range strings.SplitAfter(text, " ") {
		chunk(fmt.Sprintf(`{"index":0,"delta":{"content":%q},"finish_reason":null}`, word), "null")
	}
	chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, "null")
	chunk("", `{"prompt_tokens":100,"completion_tokens":6,"total_tokens":106}`)
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}
