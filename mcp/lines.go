package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// lines reads lines that are at most so long; a longer one is an error, and is not kept in memory.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, maxLine int) *lines {
	return &lines{bufio.NewReaderSize(r, 16<<10), maxLine}
}

// next is the next line, with its end if it has one. What is left before the end of the input counts as a line. The line is valid until the next
// call.
func (l *lines) next() ([]byte, error) {
	var long []byte // of a line that the reader's buffer has no room for
	for {
		part, err := l.r.ReadSlice('\n')
		if len(long)+len(part) > l.max {
			return nil, fmt.Errorf("the server sent a line of more than %d bytes", l.max)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
			continue
		case long != nil:
			part = append(long, part...)
		}
		if errors.Is(err, io.EOF) && len(part) > 0 {
			err = nil
		}
		return part, err
	}
}
