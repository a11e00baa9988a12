package observability

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pipes is a listener whose connections are pipes in memory, which know virtual time. Each is with a caller of its own.
type pipes struct {
	calls  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3210} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.calls <- theirs
	return ours
}

// TestACallerHasSoMuchTimeAndNoMore has callers stop in the middle. Each is cut off when its time is up, so that no
// number of them holds the listener for longer.
func TestACallerHasSoMuchTimeAndNoMore(t *testing.T) {
	const request = "GET /status HTTP/1.1\r\nHost: localhost\r\n"
	for name, c := range map[string]struct {
		says  string
		reads bool
		after time.Duration
	}{
		"nothing at all":                   {"", true, 5 * time.Second},
		"headers without an end":           {request, true, 5 * time.Second},
		"a body without an end":            {request + "Content-Length: 9\r\n\r\nx", true, 10 * time.Second},
		"a second request that never came": {request + "\r\n", true, time.Minute},
		"an answer that is not read":       {request + "\r\n", false, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := running(t)
				began, caller := time.Now(), l.dial()
				if _, err := io.WriteString(caller, c.says); err != nil {
					t.Fatal(err)
				}
				if c.reads {
					_, _ = io.ReadAll(caller) // to its end, whatever it is
				} else if time.Sleep(c.after + time.Second); mayWrite(caller) {
					t.Error("the connection is still there")
				}
				if took := time.Since(began); took < c.after || took > c.after+2*time.Second {
					t.Errorf("it took %v, want %v", took, c.after)
				}
				must(t, caller.Close())
			})
		})
	}
}

func TestHugeHeadersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := running(t).dial()
		go func() { // it ends with the connection
			_, _ = io.WriteString(caller, "GET /status HTTP/1.1\r\nHost: localhost\r\nX-More: "+
				strings.Repeat("x", 64<<10)+"\r\n\r\n")
		}()
		if answer, _ := io.ReadAll(caller); !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
			t.Errorf("answered %.60q", answer)
		}
		must(t, caller.Close())
	})
}

// mayWrite says whether the other side of a pipe is still open. It must not read: that would let the answer pass.
func mayWrite(c net.Conn) bool {
	_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
	_, err := io.WriteString(c, "x")
	return !errors.Is(err, io.ErrClosedPipe)
}

// running is a server on pipes with a long status.
func running(t *testing.T) *pipes {
	t.Helper()
	s, err := NewServer(Options{
		Addr: "127.0.0.1:0", Gather: prometheus.NewRegistry(), Ready: func(context.Context) []string { return nil },
		Status: func(context.Context) (any, error) { return strings.Repeat("long ", 20_000), nil },
	})
	must(t, err)
	must(t, s.listener.Close())
	l := &pipes{calls: make(chan net.Conn)}
	l.closed, l.close = context.WithCancel(context.Background())
	s.listener = l
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
