package llmtest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
)

// Listener is a network in memory: what is dialled through it is accepted by it. It has no ports and no buffers, and
// every wait in it is a channel operation, which is what testing/synctest can see through.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// NewListener makes a network for one server.
func NewListener() *Listener {
	closed := make(chan struct{})
	return &Listener{conns: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses further dials. Connections stay.
func (l *Listener) Close() error { l.close(); return nil }

// Addr is a name, not a place.
func (l *Listener) Addr() net.Addr { return memoryAddr{} }

// DialContext connects to the server, whatever the address; its shape is that of http.Transport's.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Transport dials through the listener. Its caller closes its idle connections.
func (l *Listener) Transport() *http.Transport {
	return &http.Transport{DialContext: l.DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true}
}

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

// Running is a server that is up.
type Running struct {
	*Server
	URL       string // base URL for a client, ending in /v1
	Transport *http.Transport
}

// Start serves script in memory until the test ends, and leaves no goroutine behind. Inside a synctest bubble call it
// in the bubble, with the bubble's t.
func Start(t testing.TB, script Script) *Running {
	t.Helper()
	r := &Running{Server: New(script), URL: "http://model.test/v1"}
	listener := NewListener()
	r.Transport = listener.Transport()
	server := &http.Server{Handler: r.Server, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // always ErrServerClosed: only Close below ends it
	}()
	t.Cleanup(func() {
		r.Transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	return r
}
