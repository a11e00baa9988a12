package listen

import (
	"net"
	"sync"
	"time"
)

// turnedAway is what a connection over the cap is told. It is written before anything is read, so that it costs nothing
// to wait for.
const turnedAway = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: " +
	"0\r\n\r\n"

// turnAwayTime bounds that write; a socket that was just opened has room for it at once.
const turnAwayTime = 100 * time.Millisecond

// Capped is a listener with so many connections at once, and no more. Those over the cap are accepted and turned away,
// so that a caller learns of it instead of hanging in the backlog.
type Capped struct {
	net.Listener
	slots   chan struct{}
	refused func() // is told of each connection that was turned away
}

// NewCapped caps a listener at limit connections; refused may be nil.
func NewCapped(l net.Listener, limit int, refused func()) *Capped {
	if refused == nil {
		refused = func() {}
	}
	return &Capped{Listener: l, slots: make(chan struct{}, limit), refused: refused}
}

// Accept implements [net.Listener].
func (l *Capped) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slot{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			l.refused()
			turnAway(c)
		}
	}
}

func turnAway(c net.Conn) {
	defer c.Close() //nolint:errcheck // nobody is left to be told
	if c.SetDeadline(time.Now().Add(turnAwayTime)) == nil {
		_, _ = c.Write([]byte(turnedAway))
	}
}

// slot is a connection that counts until it is closed.
type slot struct {
	net.Conn
	free func()
}

// Unwrap gives the connection itself, of which a Unix socket can tell the peer.
func (s *slot) Unwrap() net.Conn { return s.Conn }

func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}

// CloseWrite is what net/http uses to let a refused caller read the answer before the connection is reset under what it
// still sends.
func (s *slot) CloseWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
