package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// hangUpTime is how long calls may still go on after a client has closed its input, so that one that asks and hangs
	// up is answered.
	hangUpTime = 3 * time.Second
	// leaveTime is how long answers may take to be read once the client is to be left.
	leaveTime = time.Second
)

// ServeStdio serves the one client that writes to in and reads out, until ctx ends, in ends, or out is closed. It
// returns nil for the first two.
//
// A line is one message. One that is too long or no message is answered with an error, and the next one is read.
// Requests over [ServerOptions.MaxRequests] at once are refused. A client that does not read its answers holds up
// itself: nothing more is read from it than the requests that may be under way. A read of in that is blocked when ctx
// ends is left behind.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	client := newSession()
	c := &conversation{
		Server: s, client: client, out: out, leave: leave, slots: make(chan struct{}, s.opts.MaxRequests),
		writing: make(chan struct{}, 1),
		ctx:     s.mcp.WithContext(ctx, client), lines: newLines(in, s.opts.MaxLine),
	}
	go c.passNotes()
	ended := make(chan error, 1)
	go func() { ended <- c.read() }()
	select {
	case err := <-ended:
		if err != nil {
			leave(err)
			break
		}
		settled := time.AfterFunc(hangUpTime, func() { leave(nil) })
		defer settled.Stop()
	case <-ctx.Done():
	}
	c.finish()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// conversation is a client on standard input and output.
type conversation struct {
	*Server
	client *session
	ctx    context.Context
	leave  context.CancelCauseFunc
	lines  *lines
	slots  chan struct{} // of requests under way
	calls  sync.WaitGroup

	writing chan struct{} // who may write
	out     io.Writer
}

// read takes in lines until the input ends.
func (c *conversation) read() error {
	for c.ctx.Err() == nil {
		line, err := c.lines.next()
		switch {
		case errors.Is(err, errLongLine):
			c.write(refusal(nil, mcp.PARSE_ERROR, fmt.Sprintf("a message has more than %d bytes", c.opts.MaxLine)))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		default:
			if line = bytes.TrimSpace(line); len(line) > 0 {
				c.take(line)
			}
		}
	}
	return nil
}

// busyCode is that of a request that was refused for want of room, one of those that JSON-RPC leaves to servers.
const busyCode = -32000

// take handles one message. A request gets a goroutine, so that a call that waits holds up none behind it; the others
// are quick.
func (c *conversation) take(line []byte) {
	head, ok := headOf(line)
	switch {
	case head.strange():
		c.write(refusal(nil, mcp.INVALID_REQUEST, strangeText))
		return
	case !ok || head.ID == nil || head.Method == string(mcp.MethodInitialize):
		c.answer(line, head.ID)
		return
	}
	select {
	case c.slots <- struct{}{}:
	default:
		c.write(refusal(head.ID, busyCode, fmt.Sprintf("more than %d requests at once: wait for an answer",
			c.opts.MaxRequests)))
		return
	}
	c.calls.Go(func() {
		defer func() { <-c.slots }()
		c.answer(line, head.ID)
	})
}

func (c *conversation) answer(line []byte, id any) {
	response := c.handle(line, id)
	if response == nil {
		return
	}
	for range len(c.client.notes) { // what was told of a call comes before its answer
		select {
		case n := <-c.client.notes:
			c.write(n)
		default:
		}
	}
	c.write(response)
}

// handle gives a message to the library. A panic in it ends the request, not the process.
func (c *conversation) handle(line []byte, id any) (response mcp.JSONRPCMessage) {
	defer func() {
		if p := recover(); p != nil {
			c.opts.Log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("a request of an MCP client")
			response = refusal(id, mcp.INTERNAL_ERROR, "an error of Corebot; its log says more")
		}
	}()
	return c.mcp.HandleMessage(c.ctx, line)
}

func refusal(id any, code int, text string) mcp.JSONRPCMessage {
	return mcp.NewJSONRPCError(mcp.NewRequestId(id), code, text, nil)
}

// write sends one message as a line. A client that reads no more is left.
func (c *conversation) write(message mcp.JSONRPCMessage) {
	line, err := json.Marshal(message)
	if err != nil {
		c.opts.Log.Error().Err(err).Msg("encode a message for an MCP client")
		return
	}
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	if _, err := c.out.Write(append(line, '\n')); err != nil {
		c.leave(fmt.Errorf("write to standard output: %w", err))
	}
}

// passNotes sends notifications as they come.
func (c *conversation) passNotes() {
	for {
		select {
		case n := <-c.client.notes:
			c.write(n)
		case <-c.ctx.Done():
			return
		}
	}
}

// finish waits for the calls that are under way, and once the client is to be left no longer than it takes to tell it.
func (c *conversation) finish() {
	done := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-c.ctx.Done():
	}
	late := time.NewTimer(leaveTime)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C: // it does not read
	}
}

// errLongLine says that a line was longer than it may be. It has been read to its end, and not kept.
var errLongLine = errors.New("the line is too long")

// lines reads lines of a client.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, maxLine int) *lines {
	return &lines{bufio.NewReaderSize(r, 16<<10), maxLine}
}

// next is the next line, which is the caller's to keep. The rest before the end of the input counts as a line. A line
// that is too long is errLongLine, and another may follow.
func (l *lines) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if long = long || len(line)+len(part) > l.max; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLongLine
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		}
		return line, err
	}
}
