// Package platform is what the tests' servers of chat networks with an HTTP API have in common. They have a port of the
// loopback interface, take orders of a test, and remember requests.
package platform

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

// Platform is a part of a server. Call describes a request of the bot, and Fault what becomes of one; the zero Fault is
// none.
type Platform[Call, Fault any] struct {
	HTTP  *httptest.Server // set by [Platform.Listen]
	Files Files            // of people

	mu         sync.Mutex // its holder takes no other
	silence    chan struct{}
	faults     func(Call) Fault
	calls      []Call
	complaints []string
}

// Listen has the server answer requests on a port of its own.
func (p *Platform[C, F]) Listen(serve http.HandlerFunc) {
	p.HTTP = httptest.NewUnstartedServer(serve)
	if memory != nil {
		_ = p.HTTP.Listener.Close() // nobody has heard of its port
		p.HTTP.Listener = memory.listen("127.0.0.1:0")
	}
	p.HTTP.Start()
}

// Cut breaks every connection.
func (p *Platform[C, F]) Cut() { p.HTTP.CloseClientConnections() }

// Silence has the server answer nothing, or answer again.
func (p *Platform[C, F]) Silence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case silent && p.silence == nil:
		p.silence = make(chan struct{})
	case !silent && p.silence != nil:
		close(p.silence)
		p.silence = nil
	}
}

// Silent says whether the server answers nothing.
func (p *Platform[C, F]) Silent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silence != nil
}

// Wait waits until the server answers. It says whether ctx goes on, as it does until whoever asked is gone. The context
// of a request whose body was not read outlasts its connection. So such a request is carried out late, behind the
// questions for it, as platforms with queues do.
func (p *Platform[C, F]) Wait(ctx context.Context) bool {
	p.mu.Lock()
	silence := p.silence
	p.mu.Unlock()
	if silence == nil {
		return true
	}
	select {
	case <-silence:
		return true
	case <-ctx.Done():
		return false
	}
}

// Faults orders what becomes of requests from now on; nil: nothing special. One request is asked about at a time.
func (p *Platform[C, F]) Faults(of func(C) F) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = of
}

// Take remembers a request, and says what becomes of it.
func (p *Platform[C, F]) Take(c C) (f F) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
	if p.faults != nil {
		f = p.faults(c)
	}
	return f
}

// Taken are the requests so far that are wanted.
func (p *Platform[C, F]) Taken(wanted func(C) bool) (found []C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if wanted(c) {
			found = append(found, c)
		}
	}
	return found
}

// Complain remembers a request that a bot must not make, also where a real server would let it pass.
func (p *Platform[C, F]) Complain(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = append(p.complaints, fmt.Sprintf(format, args...))
}

// Complaints are what [Platform.Complain] has remembered.
func (p *Platform[C, F]) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.complaints)
}

// HangUp closes the connection of a request without an answer.
func HangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
