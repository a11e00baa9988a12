package isolation

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// Dialer connects to an address, as net.Dialer does.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Serve is the whole life of a worker that does a [Job]. It is behind the walls already; its working directory is what
// it may reach. do is given the job's input and returns its answer. What Serve returns is the exit code.
func Serve(do func(ctx context.Context, input []byte, connect Dialer) []byte) int {
	l, err := newLink(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "corebot: this command is for Corebot itself:", err)
		return 1
	}
	defer l.close()
	f, err := l.receive()
	if err == nil {
		err = l.send(frame{Began: true}, nil)
	}
	if err != nil {
		return 1
	}
	answer := do(context.Background(), f.Input, (&guest{link: l}).dial)
	if len(answer) > maxFrame || l.send(frame{Answer: answer, Final: true}, nil) != nil {
		return 1
	}
	return 0
}

// guest is the worker's side, where it asks for connections.
type guest struct {
	mu   sync.Mutex // one question at a time
	link *link
}

// dial has Corebot make a connection.
func (g *guest) dial(_ context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.link.send(frame{Dial: &dialRequest{network, address}}, nil); err != nil {
		return nil, err
	}
	f, handle, err := g.link.receiveHandle()
	if err != nil {
		return nil, err
	}
	if handle != nil {
		defer handle.Close() //nolint:errcheck // the connection has its own
	}
	switch {
	case f.Dialed == nil:
		return nil, fmt.Errorf("connect to %s: no answer", address)
	case f.Dialed.Refused:
		return nil, &Refused{f.Dialed.Error}
	case f.Dialed.Error != "":
		return nil, fmt.Errorf("%s", f.Dialed.Error)
	case handle == nil:
		return nil, fmt.Errorf("connect to %s: no connection came", address)
	}
	return net.FileConn(handle)
}

// receiveHandle reads a frame and what is handed over with it; nil: nothing is.
func (l *link) receiveHandle() (f frame, handle *os.File, err error) {
	var size [4]byte
	control := make([]byte, handleSpace)
	n, controlled, _, _, err := l.conn.ReadMsgUnix(size[:], control)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil && controlled > 0 {
		handle, err = parseHandle(control[:controlled])
	}
	if err == nil {
		_, err = io.ReadFull(l.conn, size[n:])
	}
	if err == nil {
		f, err = l.body(size)
	}
	if err != nil && handle != nil {
		_ = handle.Close() // the frame that it came with cannot be read
		handle = nil
	}
	return f, handle, err
}
