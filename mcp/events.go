package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// events is a stream of server-sent events, as a server that must not be trusted needs it: events are bounded, a flood is an error, and a stream
// that is the answer to one request ends with that answer, whatever the server has to add. Requests of the server are left out of the others,
// since the library would take one for an answer of the same id.
type events struct {
	body    io.ReadCloser
	lines   *lines
	max     int
	one     bool // the stream is the answer to one request
	unasked flood
	ready   []byte // whole events that were not read yet
	event   []byte // the event that is being read
	data    []byte // its data
	err     error  // what the reader gets once ready is empty
}

func newEvents(body io.ReadCloser, maxMessage int, one bool) *events {
	return &events{body: body, lines: newLines(body, maxMessage), max: maxMessage, one: one}
}

// Read implements [io.Reader].
func (e *events) Read(b []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.line()
	}
	n := copy(b, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// Close implements [io.Closer].
func (e *events) Close() error { return e.body.Close() }

// line takes one more line of the stream.
func (e *events) line() error {
	line, err := e.lines.next()
	if err != nil {
		if errors.Is(err, io.EOF) { // an event without its end is no event
			e.ready = append(e.ready, e.event...)
			e.event = nil
		}
		return err
	}
	if len(e.event)+len(line) > e.max {
		return fmt.Errorf("the server sent an event of more than %d bytes", e.max)
	}
	e.event = append(e.event, line...)
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		e.data = append(e.data, data...)
	}
	if len(bytes.TrimRight(line, "\r\n")) > 0 {
		return nil
	}
	return e.whole()
}

// whole hands on the event that has just ended.
func (e *events) whole() error {
	size := len(e.event)
	var m message
	isMessage := json.Unmarshal(e.data, &m) == nil
	answer := isMessage && m.Method == "" && m.ID != nil
	if request := isMessage && m.Method != "" && m.ID != nil; !request {
		e.ready = append(e.ready, e.event...)
	}
	e.event, e.data = e.event[:0], e.data[:0]
	switch {
	case answer && e.one:
		return io.EOF
	case answer:
		return nil
	}
	return e.unasked.add(time.Now(), size)
}
