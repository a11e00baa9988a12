package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// outlet remembers that writing to the terminal failed. bubbletea drops such errors, and a reply that nobody could see
// must not count as sent.
type outlet struct {
	w   io.Writer
	mu  sync.Mutex
	err error // the first
}

func (o *outlet) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// failure is what Send answers after writing: nil while all went well.
func (o *outlet) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return &corebot.Failure{Class: corebot.Transient, Err: fmt.Errorf("write to the terminal: %w", o.err)}
}

// terminal is the outlet in the shape that bubbletea looks for: a file stays a file, so that it finds the terminal.
func (o *outlet) terminal() io.Writer {
	if f, ok := o.w.(*os.File); ok {
		return &fileOutlet{f, o}
	}
	return o
}

// fileOutlet is a terminal whose writes, all of them, pass the outlet.
type fileOutlet struct {
	*os.File
	outlet *outlet
}

func (f *fileOutlet) Write(p []byte) (int, error)       { return f.outlet.Write(p) }
func (f *fileOutlet) WriteString(s string) (int, error) { return f.outlet.Write([]byte(s)) }
func (f *fileOutlet) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(f.outlet, r)
}

// writes writes messages one at a time, each in a goroutine of its own: a pipe whose reader pauses holds a write up for as long as
// it likes, and no context can call it off. The goroutine may outlive whoever waited for it. The zero writes is ready.
type writes struct {
	mu  sync.Mutex
	now *underWay // nil if nothing is being written
}

// underWay is the write of one message.
type underWay struct {
	id   string
	done chan struct{} // closed when err is known
	err  error
}

// do calls write and returns its error. If the message is being written already, it waits for that instead, so that a message
// whose first do was cut short is not written again. When ctx ends it returns a [*corebot.Failure] and leaves the write to itself.
func (w *writes) do(ctx context.Context, id string, write func() error) error {
	for ctx.Err() == nil {
		now := w.join(id, write)
		select {
		case <-now.done:
			if now.id == id {
				return now.err
			}
		case <-ctx.Done():
		}
	}
	return held(ctx)
}

// join returns the write that is under way, and begins this one if there is none.
func (w *writes) join(id string, write func() error) *underWay {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		w.now = &underWay{id: id, done: make(chan struct{})}
		go w.run(w.now, write)
	}
	return w.now
}

func (w *writes) run(u *underWay, write func() error) {
	defer func() {
		if p := recover(); p != nil { // the outbox, which outlives a panic of Send, cannot catch it here
			u.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		w.mu.Lock()
		w.now = nil
		w.mu.Unlock()
		close(u.done)
	}()
	u.err = write()
}

// glance is how soon a message that is still being written is asked about again.
const glance = time.Second

// held is the failure of a Send whose ctx ended before the terminal took the message: nobody's fault, not counted.
func held(ctx context.Context) error {
	err := fmt.Errorf("write to the terminal, which takes nothing at the moment: %w", context.Cause(ctx))
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: glance, Err: err}
}
