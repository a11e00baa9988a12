package serve

import (
	"bufio"
	"errors"
	"io"
)

// errLongLine says that a line was longer than it may be. It has been read to its end, and not kept.
var errLongLine = errors.New("the line is too long")

// lines reads lines of a client.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, maxLine int) *lines {
	return &lines{bufio.NewReaderSize(r, 16<<10), maxLine}
}

// next is the next line, which is the caller's to keep. What is left before the end of the input counts as a line. A line that is too long is
// errLongLine, and another may follow.
func (l *lines) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if long = long || len(line)+len(part) > l.max; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLongLine
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		}
		return line, err
	}
}
