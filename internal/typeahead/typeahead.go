// Package typeahead reads a terminal at which somebody typed before the program read it. The terminal has made a line
// end of each Enter, which to an editor of several lines is a new line of the same message. It was meant as Enter.
// [Silence] hides a line that is about to be typed, and takes nothing of the lines behind it.
//
// Limit: only Linux tells how much was typed. Elsewhere such lines are taken for one message.
package typeahead

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// typedAhead is a terminal on which lines were typed before it was read.
type typedAhead struct {
	*os.File
	pending int // bytes of such lines that were not read yet
}

// Input gives back the Enters of what was typed early. A terminal stays a file, which bubbletea looks for.
func Input(in io.Reader) io.Reader {
	f, is := in.(*os.File)
	if !is {
		return in
	}
	pending := waiting(f)
	if pending == 0 {
		return in
	}
	return &typedAhead{f, pending}
}

// Read makes Enters of the line ends among the bytes that were typed early.
func (t *typedAhead) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	early := p[:min(n, t.pending)]
	copy(early, bytes.ReplaceAll(early, []byte{'\n'}, []byte{'\r'}))
	t.pending -= len(early)
	return n, err
}

// Silence has a terminal show nothing of what is typed, until restore is called. Lines are edited and read as before.
func Silence(f *os.File) (restore func() error, err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err == nil {
		silent := *before
		silent.Lflag &^= unix.ECHO
		err = unix.IoctlSetTermios(int(f.Fd()), setTermios, &silent)
	}
	if err != nil {
		return nil, fmt.Errorf("silence the terminal: %w", err)
	}
	return func() error {
		if err := unix.IoctlSetTermios(int(f.Fd()), setTermios, before); err != nil {
			return errors.Join(errors.New("the terminal shows nothing: type `stty sane`"), err)
		}
		return nil
	}, nil
}
