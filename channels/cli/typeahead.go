package cli

import (
	"bytes"
	"io"
	"os"
)

// typedAhead is a terminal on which lines were typed before it was read. The terminal has made a line end of each
// Enter, which to the editor is a new line of the same message. It was meant as Enter.
type typedAhead struct {
	*os.File
	pending int // bytes of such lines that were not read yet
}

// input is the terminal in the shape that bubbletea looks for.
func input(in io.Reader) io.Reader {
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

func (t *typedAhead) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	early := p[:min(n, t.pending)]
	copy(early, bytes.ReplaceAll(early, []byte{'\n'}, []byte{'\r'}))
	t.pending -= len(early)
	return n, err
}
