package httpapi

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

// maxRest is how much a reader that takes nothing can leave untaken before it is cut off. One message more can be
// added.
const maxRest = 256 << 10

var errSlowReader = fmt.Errorf("the client has not taken what it was told in %v, or left more than %d bytes",
	socketWrite, maxRest)

// outlet is a connection whose writes never wait. The kernel takes what it has room for. A goroutine writes the rest,
// and closes the connection if that takes longer than socketWrite.
type outlet struct {
	net.Conn
	raw syscall.RawConn // nil: every write is left to the goroutine

	mu    sync.Mutex
	held  []byte // what was written while the outlet gathers
	hold  bool
	rest  []byte // what the kernel has not taken
	stuck bool   // there is a rest: a goroutine writes it
	last  bool   // the connection closes behind the rest
	err   error
	freed func() // is called when the rest is written
}

func newOutlet(c net.Conn) *outlet {
	o := &outlet{Conn: c}
	inner := c
	for {
		u, wrapped := inner.(interface{ Unwrap() net.Conn })
		if !wrapped {
			break
		}
		inner = u.Unwrap()
	}
	if s, is := inner.(syscall.Conn); is {
		o.raw, _ = s.SyscallConn() // without it, a goroutine writes
	}
	return o
}

// SetWriteDeadline does nothing: the outlet has its own deadlines.
func (o *outlet) SetWriteDeadline(time.Time) error { return nil }

// gather has what is written from now on wait in room until pour, so that it takes one call of the kernel.
func (o *outlet) gather(room []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held, o.hold = room[:0], true
}

// pour writes what was gathered, and gives the room back.
func (o *outlet) pour() (room []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room, o.held, o.hold = o.held, nil, false
	if len(room) > 0 {
		o.put(room)
	}
	return room
}

// Write implements [net.Conn]. It keeps nothing of b.
func (o *outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return 0, o.err
	case o.hold:
		o.held = append(o.held, b...)
	default:
		o.put(b)
	}
	return len(b), o.err
}

// put writes as much as the kernel takes at once, and leaves the rest to a goroutine. The lock is held.
func (o *outlet) put(b []byte) {
	if o.err != nil {
		return
	}
	if o.stuck {
		if len(o.rest) > maxRest {
			o.fail(errSlowReader)
			return
		}
		o.rest = append(o.rest, b...)
		return
	}
	n, err := o.try(b)
	if err != nil {
		o.fail(err)
		return
	}
	if n < len(b) {
		o.rest, o.stuck = slices.Clone(b[n:]), true
		go o.drain()
	}
}

// try writes what the kernel has room for.
func (o *outlet) try(b []byte) (n int, err error) {
	if o.raw == nil {
		return 0, nil
	}
	var failed error
	err = o.raw.Write(func(fd uintptr) bool {
		for n < len(b) {
			var took int
			if took, failed = syscall.Write(int(fd), b[n:]); errors.Is(failed, syscall.EINTR) {
				continue
			}
			if n += max(0, took); failed != nil || took <= 0 {
				break
			}
		}
		return true
	})
	if errors.Is(failed, syscall.EAGAIN) {
		failed = nil
	}
	return n, errors.Join(err, failed)
}

// fail closes the connection. The reader of the socket learns of it, too.
func (o *outlet) fail(err error) {
	o.err, o.rest = err, nil
	_ = o.Close() // of a connection that is given up there is nothing to learn
}

// drain writes the rest, also what comes meanwhile.
func (o *outlet) drain() {
	for {
		o.mu.Lock()
		rest := o.rest
		if o.rest = nil; len(rest) == 0 || o.err != nil {
			o.stuck = false
			if o.last && o.err == nil {
				o.fail(net.ErrClosed)
			}
			freed := o.freed
			o.mu.Unlock()
			if freed != nil {
				freed()
			}
			return
		}
		if !o.last {
			_ = o.Conn.SetWriteDeadline(time.Now().Add(socketWrite)) // a closed one fails at the write
		}
		o.mu.Unlock()
		_, err := o.Conn.Write(rest)
		o.mu.Lock()
		if err == nil && !o.last {
			err = o.Conn.SetWriteDeadline(time.Time{}) // or the next try would fail
		}
		if err != nil && o.err == nil {
			o.fail(errors.Join(errSlowReader, err))
		}
		o.mu.Unlock()
	}
}

// whenFreed has f be called each time that the rest is written.
func (o *outlet) whenFreed(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.freed = f
}

// waits says whether the reader has not taken all that was written.
func (o *outlet) waits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stuck
}

// finish closes the connection behind what was written, within a second.
func (o *outlet) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.stuck {
		o.fail(net.ErrClosed)
		return
	}
	o.last = true
	_ = o.Conn.SetWriteDeadline(time.Now().Add(time.Second)) // a closed one fails at the write
}

// hijacker gives the connection of a request as an outlet.
type hijacker struct {
	http.ResponseWriter
	out *outlet
}

// Hijack implements [http.Hijacker].
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.out = newOutlet(c)
	return h.out, buffers, nil
}
