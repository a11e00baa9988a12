package cli

import (
	"fmt"
	"io"
	"os"
	"sync"

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
