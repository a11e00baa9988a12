package platform

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Weather is how a network in memory does.
type Weather int

// The ways in which a network fails. A deaf one takes connections and what is written, and nothing comes out of it. One
// that refuses breaks its connections, and refuses new ones. One that hangs is deaf, and no connection begins.
const (
	Fair Weather = iota
	Deaf
	Refuses
	Hangs
)

// dialPatience is how long a connection that begins waits in a network that hangs, as that of net/http does.
const dialPatience = 30 * time.Second

// Memory is a network of this process. Every wait in it is one that testing/synctest sees through, so an hour of its
// weather is over at once.
type Memory struct {
	mu        sync.Mutex
	changed   *sync.Cond
	weather   Weather
	listeners map[string]*memoryListener
	conns     map[*memoryConn]struct{}
	dials     int
	writes    int // of whoever has dialled
}

// memory is the network of the running test; nil: servers have ports of the loopback interface.
var memory *Memory

// InMemory has the servers that begin from now on listen in memory, and this process reach nothing else, until the
// test ends. It is for a test that runs alone.
func InMemory(t *testing.T) *Memory {
	t.Helper()
	m := &Memory{listeners: map[string]*memoryListener{}, conns: map[*memoryConn]struct{}{}}
	m.changed = sync.NewCond(&m.mu)
	transport := http.DefaultTransport.(*http.Transport)
	before := transport.DialContext
	transport.DialContext, memory = m.dial, m
	t.Cleanup(func() {
		transport.DialContext, memory = before, nil
		m.Set(Refuses) // no connection stays
	})
	return m
}

// Listener is where a server listens: at an address of the loopback interface, or of the network in memory.
func Listener(addr string) (net.Listener, error) {
	if memory == nil {
		return net.Listen("tcp", addr) //nolint:noctx // loopback
	}
	return memory.listen(addr), nil
}

// Set has the network do so from now on.
func (m *Memory) Set(w Weather) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.weather = w
	if w == Refuses {
		for c := range m.conns {
			c.end(syscall.ECONNRESET)
		}
		clear(m.conns)
	}
	m.changed.Broadcast()
}

// Count is how many connections were begun so far, and how often something was written to a server.
func (m *Memory) Count() (dials, writes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dials, m.writes
}

type memoryListener struct {
	of      *Memory
	addr    memoryAddr
	waiting []net.Conn
	closed  bool
}

type memoryAddr string

func (memoryAddr) Network() string  { return "tcp" }
func (a memoryAddr) String() string { return string(a) }

func (m *Memory) listen(addr string) net.Listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	if host, port, err := net.SplitHostPort(addr); err == nil && port == "0" {
		addr = net.JoinHostPort(host, fmt.Sprint(len(m.listeners)+1))
	}
	l := &memoryListener{of: m, addr: memoryAddr(addr)}
	m.listeners[addr] = l
	return l
}

func (l *memoryListener) Addr() net.Addr { return l.addr }

func (l *memoryListener) Close() error {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.closed = true
	l.of.changed.Broadcast()
	return nil
}

func (l *memoryListener) Accept() (net.Conn, error) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.of.changed.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	c := l.waiting[0]
	l.waiting = l.waiting[1:]
	return c, nil
}

func refused(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// dial begins a connection.
func (m *Memory) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	m.mu.Lock()
	m.dials++
	hangs := m.weather == Hangs
	m.mu.Unlock()
	if hangs {
		select {
		case <-ctx.Done():
			return nil, refused(ctx.Err())
		case <-time.After(dialPatience):
			return nil, refused(os.ErrDeadlineExceeded)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.listeners[addr]
	if l == nil || l.closed || m.weather == Refuses {
		return nil, refused(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	to, from := &stream{}, &stream{}
	ours := &memoryConn{of: m, out: to, in: from, dialled: true}
	theirs := &memoryConn{of: m, out: from, in: to}
	m.conns[ours], m.conns[theirs] = struct{}{}, struct{}{}
	l.waiting = append(l.waiting, theirs)
	m.changed.Broadcast()
	return ours, nil
}

// stream is one direction of a connection.
type stream struct {
	bytes []byte
	ended error // what a reader gets behind the bytes
}

// memoryConn is one end of a connection.
type memoryConn struct {
	of       *Memory
	in, out  *stream
	dialled  bool
	broken   error // what both directions give
	deadline [2]time.Time
}

func (c *memoryConn) end(err error) {
	c.broken = err
	c.in.bytes = nil
}

func late(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// Read implements [net.Conn].
func (c *memoryConn) Read(b []byte) (int, error) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for {
		switch {
		case c.broken != nil:
			return 0, c.broken
		case late(c.deadline[0]):
			return 0, os.ErrDeadlineExceeded
		case c.of.weather == Deaf, c.of.weather == Hangs:
		case len(c.in.bytes) > 0:
			n := copy(b, c.in.bytes)
			c.in.bytes = c.in.bytes[n:]
			return n, nil
		case c.in.ended != nil:
			return 0, c.in.ended
		}
		c.of.changed.Wait()
	}
}

// Write implements [net.Conn].
func (c *memoryConn) Write(b []byte) (int, error) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	switch {
	case c.broken != nil:
		return 0, c.broken
	case late(c.deadline[1]):
		return 0, os.ErrDeadlineExceeded
	case c.out.ended != nil:
		return 0, io.ErrClosedPipe
	}
	if c.dialled {
		c.of.writes++
	}
	c.out.bytes = append(c.out.bytes, b...)
	c.of.changed.Broadcast()
	return len(b), nil
}

// Close implements [net.Conn].
func (c *memoryConn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.weather != Fair {
		c.out.bytes = nil // nobody sends it again
	}
	c.broken, c.out.ended = net.ErrClosed, io.EOF
	delete(c.of.conns, c)
	c.of.changed.Broadcast()
	return nil
}

// LocalAddr implements [net.Conn].
func (c *memoryConn) LocalAddr() net.Addr { return memoryAddr("127.0.0.1:1") }

// RemoteAddr implements [net.Conn].
func (c *memoryConn) RemoteAddr() net.Addr { return memoryAddr("127.0.0.1:1") }

// SetDeadline implements [net.Conn].
func (c *memoryConn) SetDeadline(t time.Time) error { return c.until(t, 0, 1) }

// SetReadDeadline implements [net.Conn].
func (c *memoryConn) SetReadDeadline(t time.Time) error { return c.until(t, 0) }

// SetWriteDeadline implements [net.Conn].
func (c *memoryConn) SetWriteDeadline(t time.Time) error { return c.until(t, 1) }

func (c *memoryConn) until(t time.Time, directions ...int) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for _, d := range directions {
		c.deadline[d] = t
	}
	if left := time.Until(t); !t.IsZero() && left > 0 {
		time.AfterFunc(left, c.of.changed.Broadcast)
	}
	c.of.changed.Broadcast()
	return nil
}
