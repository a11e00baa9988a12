package openai

import (
	"bufio"
	"bytes"
	"io"
)

// eventBody passes on only the data lines of a stream of server-sent events, each followed by an empty line.
//
// go-openai counts every other line toward a limit and keeps it for its error message, so a server that sends a comment a
// second while it thinks would break the stream; and it reads lines of any length, so one without an end would fill the memory.
type eventBody struct {
	in     *bufio.Reader
	closer io.Closer
	wire   int // bytes that the whole stream may still have
	line   int // bytes that one line may have
	ready  []byte
	err    error
}

func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		line, err := b.readLine()
		b.err = err
		line = bytes.TrimRight(line, "\r\n")
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			b.ready = asEvent(bytes.TrimSpace(data))
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// asEvent spells an event so that go-openai hands it over as it is. A chunk that begins with an error, also with a null one, it would
// take out of the stream and, if it cannot read the error, lose; a space hides it.
func asEvent(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	out := append(make([]byte, 0, len(data)+16), "data: "...)
	if bytes.HasPrefix(data, []byte(`{"error":`)) {
		out, data = append(out, "{ "...), data[1:]
	}
	return append(append(out, data...), "\n\n"...)
}

// readLine returns what there is of a last line without an end together with the error: a missing final newline loses nothing.
func (b *eventBody) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		line = append(line, part...)
		if b.wire -= len(part); b.wire < 0 || len(line) > b.line {
			return nil, errTooLong
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		return line, err
	}
}

func (b *eventBody) Close() error { return b.closer.Close() }
