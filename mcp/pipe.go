package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// writeTime is how long a server may take to read one message. One that does not read is lost.
const writeTime = 10 * time.Second

// pipe is the library's connection over the input and output of a program that must not be trusted. Lines are bounded.
// A flood ends the connection, and so does a server that does not read.
type pipe struct {
	in     deadlineWriter
	out    *lines
	lost   chan struct{} // closed when nothing more comes
	fail   func(error)   // ends the connection, with a reason
	writes sync.Mutex

	mu      sync.Mutex
	pending map[string]chan<- *transport.JSONRPCResponse // by id, as it is spelt
	notify  func(mcp.JSONRPCNotification)
}

// deadlineWriter is a pipe's end for writing.
type deadlineWriter interface {
	io.Writer
	SetWriteDeadline(t time.Time) error
}

var _ transport.Interface = (*pipe)(nil)

// newPipe makes a connection. fail is called once it cannot go on.
func newPipe(in deadlineWriter, out io.Reader, maxLine int, fail func(error)) *pipe {
	return &pipe{
		in: in, out: newLines(out, maxLine), lost: make(chan struct{}), fail: fail,
		pending: map[string]chan<- *transport.JSONRPCResponse{},
	}
}

// Start begins to read.
func (p *pipe) Start(context.Context) error {
	go func() {
		defer close(p.lost)
		p.fail(p.read())
	}()
	return nil
}

// message is any message of a server.
type message struct {
	ID     json.RawMessage          `json:"id"`
	Method string                   `json:"method"`
	Result json.RawMessage          `json:"result"`
	Error  *mcp.JSONRPCErrorDetails `json:"error"`
}

// read takes messages until the server has no more, or sends what no server should.
func (p *pipe) read() error {
	var unasked flood
	for {
		line, err := p.out.next()
		if errors.Is(err, io.EOF) {
			return errors.New("the server has closed its output")
		}
		if err != nil {
			return err
		}
		asked, err := p.take(line)
		if err == nil && !asked {
			err = unasked.add(time.Now(), len(line))
		}
		if err != nil {
			return err
		}
	}
}

// take hands a message to whoever waits for it. A line that is no message, and an answer that nobody waits for, are
// left out: programs write such things to their output by mistake.
func (p *pipe) take(line []byte) (asked bool, err error) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return false, nil
	}
	switch {
	case m.Method != "" && m.ID == nil:
		var n mcp.JSONRPCNotification
		if json.Unmarshal(line, &n) == nil {
			p.notified(n)
		}
		return false, nil
	case m.Method != "":
		return false, p.refuse(m)
	}
	p.mu.Lock()
	waiting := p.pending[string(m.ID)]
	delete(p.pending, string(m.ID))
	p.mu.Unlock()
	if waiting == nil {
		return false, nil
	}
	// it has room for one
	waiting <- &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, Result: bytes.Clone(m.Result), Error: m.Error}
	return true, nil
}

func (p *pipe) notified(n mcp.JSONRPCNotification) {
	p.mu.Lock()
	notify := p.notify
	p.mu.Unlock()
	if notify != nil {
		notify(n)
	}
}

// maxID is the longest id of a request that is answered, in bytes.
const maxID = 256

// refuse answers a request of the server: we live, and offer nothing else.
func (p *pipe) refuse(m message) error {
	if len(m.ID) > maxID {
		return nil
	}
	reply := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": m.ID}
	if m.Method == string(mcp.MethodPing) {
		reply["result"] = struct{}{}
	} else {
		reply["error"] = map[string]any{"code": mcp.METHOD_NOT_FOUND, "message": "this client offers nothing"}
	}
	return p.write(reply)
}

func (p *pipe) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	p.writes.Lock()
	defer p.writes.Unlock()
	// a pipe that has none is closed, and says so when it is written to
	_ = p.in.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write to the server: %w", err)
	}
	return nil
}

// SendRequest sends a request and waits for its answer, for the end of ctx, or for that of the connection. A message
// that was not taken whole ends the connection.
func (p *pipe) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	id, err := json.Marshal(r.ID)
	if err != nil {
		return nil, fmt.Errorf("encode the id of a request: %w", err)
	}
	answered := make(chan *transport.JSONRPCResponse, 1)
	p.mu.Lock()
	p.pending[string(id)] = answered
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.pending, string(id))
		p.mu.Unlock()
	}()
	if err := p.writeUnlessLost(r); err != nil {
		return nil, err
	}
	select {
	case response := <-answered:
		response.ID = r.ID
		tap(ctx, response)
		return response, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.lost:
	}
	select {
	case response := <-answered: // it was the last that the server said
		response.ID = r.ID
		tap(ctx, response)
		return response, nil
	default:
		return nil, transport.ErrTransportClosed
	}
}

func (p *pipe) writeUnlessLost(v any) error {
	select {
	case <-p.lost:
		return transport.ErrTransportClosed
	default:
	}
	err := p.write(v)
	if err != nil {
		p.fail(err)
	}
	return err
}

// SendNotification sends a notification.
func (p *pipe) SendNotification(_ context.Context, n mcp.JSONRPCNotification) error {
	return p.writeUnlessLost(n)
}

// SetNotificationHandler says who is told of notifications; it must not block.
func (p *pipe) SetNotificationHandler(handler func(mcp.JSONRPCNotification)) {
	p.mu.Lock()
	p.notify = handler
	p.mu.Unlock()
}

// Close does nothing: whoever started the program stops it, and that ends the connection.
func (p *pipe) Close() error { return nil }

// GetSessionId is empty: a program has one session.
func (p *pipe) GetSessionId() string { return "" }

// lines reads lines that are at most so long; a longer one is an error, and is not kept in memory.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, maxLine int) *lines {
	return &lines{bufio.NewReaderSize(r, 16<<10), maxLine}
}

// next is the next line, with its end if it has one. The rest before the end of the input counts as a line. The line is
// valid until the next call.
func (l *lines) next() ([]byte, error) {
	var long []byte // of a line that the reader's buffer has no room for
	for {
		part, err := l.r.ReadSlice('\n')
		if len(long)+len(part) > l.max {
			return nil, fmt.Errorf("the server sent a line of more than %d bytes", l.max)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
			continue
		case long != nil:
			part = append(long, part...)
		}
		if errors.Is(err, io.EOF) && len(part) > 0 {
			err = nil
		}
		return part, err
	}
}

const (
	floodWindow = time.Second
	floodUnits  = 2_000    // in a window
	floodUnit   = 64 << 10 // bytes that count as one message
)

// flood counts what a server sends without having been asked. It is not safe for use by several goroutines.
type flood struct {
	since time.Time
	units int
}

// add is an error once a server sends more than a server that works would: reading it would cost a processor.
func (f *flood) add(now time.Time, size int) error {
	if now.Sub(f.since) > floodWindow {
		f.since, f.units = now, 0
	}
	f.units += 1 + size/floodUnit
	if f.units > floodUnits {
		return fmt.Errorf("the server floods: more than %d messages that nobody asked for within %v", floodUnits,
			floodWindow)
	}
	return nil
}
