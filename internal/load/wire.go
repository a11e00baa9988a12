package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// wire makes one request after another on connections that it keeps. It does only what the callers of this package need
// of HTTP, because they share the processors with the service that they load. An [http.Transport] takes half as much
// time as the service that answers it.
type wire struct {
	address string        // host and port
	head    string        // headers of every request
	slots   chan struct{} // one for each connection that may be at work

	mu   sync.Mutex
	idle []*connection // the one used last is taken first
}

type connection struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

func newWire(address, token string) *wire {
	head := "Host: " + address + "\r\nAuthorization: Bearer " + token + "\r\n"
	return &wire{address: address, head: head, slots: make(chan struct{}, maxConnections)}
}

// answer is what came back for a request.
type answer struct {
	status int
	body   []byte
	wait   time.Duration // after which the service wants to be asked again
}

// exchange makes a request and reads its whole answer. The end of ctx breaks the connection.
func (w *wire) exchange(ctx context.Context, method, path string, body []byte) (answer, error) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	defer func() { <-w.slots }()
	c, err := w.take(ctx)
	if err != nil {
		return answer{}, err
	}
	unwatch := context.AfterFunc(ctx, func() { _ = c.Close() })
	got, again, err := w.on(c, method, path, body)
	if !unwatch() && ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	if err != nil || !again {
		return got, errors.Join(err, c.Close())
	}
	w.keep(c)
	return got, nil
}

// on makes a request on a connection, and says whether that may be used again.
func (w *wire) on(c *connection, method, path string, body []byte) (got answer, again bool, err error) {
	if err := c.SetDeadline(time.Now().Add(requestTime)); err != nil {
		return got, false, err
	}
	// an error of any of them comes with the flush
	_, _ = fmt.Fprintf(c.out, "%s %s HTTP/1.1\r\n%s", method, path, w.head)
	if body != nil {
		_, _ = fmt.Fprintf(c.out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	_, _ = c.out.WriteString("\r\n")
	_, _ = c.out.Write(body)
	if err := c.out.Flush(); err != nil {
		return got, false, err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return got, false, err
	}
	if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil {
		got.wait = min(time.Duration(max(seconds, 0)), maxRetryAfter/time.Second) * time.Second
	}
	got.status = r.StatusCode
	got.body, err = io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	return got, !r.Close && len(got.body) < maxAnswer, err
}

func (w *wire) take(ctx context.Context) (*connection, error) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		c := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		return c, nil
	}
	w.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", w.address)
	if err != nil {
		return nil, err
	}
	return &connection{c, bufio.NewReader(c), bufio.NewWriter(c)}, nil
}

func (w *wire) keep(c *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, c)
}

// Close ends the connections that are kept for later.
func (w *wire) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.idle {
		_ = c.Close() // nothing is under way on it
	}
	w.idle = nil
}
