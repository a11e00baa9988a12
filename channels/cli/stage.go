package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

var errLeft = errors.New("the user has left the terminal")

// session is one run of the terminal, plain or interactive.
type session interface {
	// show writes m and returns when that is done, or a *corebot.Failure.
	show(ctx context.Context, m channels.Outbound) error
	// connection tells the user what became of the connection.
	connection(text string, gone bool)
}

// stage is where Send finds the session, which comes and goes with Run. The zero stage is ready: nobody has come yet.
type stage struct {
	mu      sync.Mutex
	now     session
	left    bool
	entered chan struct{} // closed by the next enter; made by the first who waits
}

func (s *stage) enter(now session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.left = now, false
	if s.entered != nil {
		close(s.entered)
		s.entered = nil
	}
}

func (s *stage) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.left = nil, true
}

// wait returns the session, and blocks while there has been none. After the user left it fails at once, so that a
// shutdown does not wait for replies that nobody will read.
func (s *stage) wait(ctx context.Context) (session, error) {
	for {
		now, left, entered := s.look()
		switch {
		case now != nil:
			return now, nil
		case left:
			return nil, &corebot.Failure{Class: corebot.Cancelled, RetryAfter: retryUnseen, Err: errLeft}
		}
		select {
		case <-entered:
		case <-ctx.Done():
			return nil, cancelled(ctx, "wait for the terminal")
		}
	}
}

// session is the one that runs, or nil.
func (s *stage) session() session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stage) look() (now session, left bool, entered <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entered == nil {
		s.entered = make(chan struct{})
	}
	return s.now, s.left, s.entered
}

func cancelled(ctx context.Context, doing string) error {
	return &corebot.Failure{
		Class: corebot.Cancelled, RetryAfter: retryUnseen,
		Err: fmt.Errorf("%s: %w", doing, context.Cause(ctx)),
	}
}

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

// writes writes messages one at a time, each in a goroutine of its own. A pipe whose reader pauses holds up a write
// without limit, and no context can end it. The goroutine may outlive whoever waited for it. The zero writes is ready.
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

// do calls write and returns its error. If the message is being written already, it waits for that instead, so that a
// message whose first do was cut short is not written again. When ctx ends it returns a [*corebot.Failure] and leaves
// the write to itself.
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
