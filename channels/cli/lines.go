package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/corebot/corebot"
)

// maxLine is the longest line of plain input in bytes, above every limit that a door may have: so that it is the door that
// says what is too large, and memory is bounded all the same.
const maxLine = 16 << 20

// lineReader reads lines of at most limit bytes.
type lineReader struct {
	r     *bufio.Reader
	limit int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, 64<<10), limit}
}

// next returns the next line without its end (\n or \r\n); the last one need not have any. A line over the limit is skipped
// whole and is a [corebot.ErrTooLarge]: reading may go on. Every other error, io.EOF first of all, is the end.
func (l *lineReader) next() (string, error) {
	var line []byte
	size := 0
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		if size <= l.limit+len("\r\n") {
			line = append(line, part...)
		} else {
			line = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (size == 0 || !errors.Is(err, io.EOF)) {
			return "", err
		}
		return l.finish(line, size)
	}
}

func (l *lineReader) finish(line []byte, size int) (string, error) {
	s := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	if size > l.limit+len("\r\n") || len(s) > l.limit {
		return "", fmt.Errorf("%w: a line of %d bytes, the limit is %d", corebot.ErrTooLarge, size, l.limit)
	}
	return s, nil
}
