package channeltest

import (
	"bufio"
	"net"
	"sync"
	"testing"
	"time"
)

// Lines is a server of a protocol of lines that says anything. A client hears the first piece, and a further piece
// behind each line that it sends. Behind the last piece the server hangs up.
type Lines struct {
	listener net.Listener
	mu       sync.Mutex
	pieces   []string
}

// NewLines starts the server on this machine.
func NewLines(tb testing.TB) *Lines {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Lines{listener: l}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.talk(c)
		}
	}()
	return s
}

// Addr is where the server listens.
func (s *Lines) Addr() string { return s.listener.Addr().String() }

// Say sets what is said to whoever connects from now on.
func (s *Lines) Say(pieces ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces = pieces
}

func (s *Lines) talk(c net.Conn) {
	defer c.Close() //nolint:errcheck // a test
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	s.mu.Lock()
	pieces := s.pieces
	s.mu.Unlock()
	in := bufio.NewReader(c)
	for i, piece := range pieces {
		if i > 0 {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
		}
		if _, err := c.Write([]byte(piece)); err != nil {
			return
		}
	}
}
