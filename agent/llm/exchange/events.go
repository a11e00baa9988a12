package exchange

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"sync"
	"time"
)

// Spelling writes the data of one server-sent event in the way that an SDK reads it, and keeps nothing of it. Nothing
// means that the event is left out; an error ends the stream.
type Spelling func(data []byte) ([]byte, error)

// eventBody passes on the data lines of a stream of server-sent events, each spelt anew.
//
// The SDKs read lines of any length, or fail at lines that a server may send: hundreds of comments while it thinks.
// Behind eventBody they read short, bounded lines of events, and nothing else.
type eventBody struct {
	in     *bufio.Reader
	closer io.Closer
	spell  Spelling
	wire   int // bytes that the whole stream may still have
	line   int // bytes that one line may have
	ready  []byte
	err    error
}

func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		data, err := b.next()
		if err != nil {
			return 0, err
		}
		if b.ready, err = b.spell(data); err != nil {
			b.err = err
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// next gives the data of the next event, valid until the next call.
func (b *eventBody) next() ([]byte, error) {
	for b.err == nil {
		line, err := b.readLine()
		b.err = err
		line = bytes.TrimRight(line, "\r\n")
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if data = bytes.TrimSpace(data); ok && len(data) > 0 {
			return data, nil
		}
	}
	return nil, b.err
}

// readLine gives a line that is valid until the next call; most lines need no copy. A last line without an end comes
// together with the error: a missing final newline loses nothing.
func (b *eventBody) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		if b.wire -= len(part); b.wire < 0 || len(line)+len(part) > b.line {
			return nil, ErrTooLong
		}
		switch {
		case err == bufio.ErrBufferFull:
			line = append(line, part...)
		case line == nil:
			return part, err
		default:
			return append(line, part...), err
		}
	}
}

func (b *eventBody) Close() error { return b.closer.Close() }

// watchdog cancels when nobody resets it in time. The cause is that of the last reset.
type watchdog struct {
	mu    sync.Mutex
	timer *time.Timer
	cause error
}

func newWatchdog(d time.Duration, cause error, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{cause: cause}
	w.mu.Lock() // the timer must not go off before it is in place
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		cancel(w.cause)
	})
	return w
}

// reset is too late, and does nothing, once the watchdog has barked or was stopped.
func (w *watchdog) reset(d time.Duration, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer.Stop() {
		w.cause = cause
		w.timer.Reset(d)
	}
}

func (w *watchdog) stop() { w.timer.Stop() }
