package webhook

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
)

// keptBuffer is the largest buffer that is kept for the next body. Most bodies are small, and one large one must not make all of
// them large.
const keptBuffer = 64 << 10

// body is a request's body, read at most once and never further than the cap.
type body struct {
	w       http.ResponseWriter
	r       *http.Request
	max     int64
	buf     *bytes.Buffer
	read    bool
	whole   bool // it was read to its end
	refusal *problem
}

func (w *Webhook) newBody(rw http.ResponseWriter, r *http.Request) *body {
	buf, ok := w.buffers.Get().(*bytes.Buffer)
	if !ok {
		buf = new(bytes.Buffer)
	}
	return &body{w: rw, r: r, max: w.opts.MaxBodyBytes, buf: buf}
}

// release gives the buffer back. What bytes has returned must not be used after it.
func (w *Webhook) release(b *body) {
	if b.buf.Cap() <= keptBuffer {
		b.buf.Reset()
		w.buffers.Put(b.buf)
	}
}

// bytes reads the body, if it has not been read.
func (b *body) bytes() ([]byte, *problem) {
	if !b.read {
		b.read = true
		b.refusal = b.fill()
		b.whole = b.refusal == nil
	}
	return b.buf.Bytes(), b.refusal
}

func (b *body) fill() *problem {
	if b.r.ContentLength > b.max {
		return b.tooLarge()
	}
	_, err := b.buf.ReadFrom(http.MaxBytesReader(b.w, b.r.Body, b.max))
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return b.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "the body did not come within %v", bodyTime)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(http.StatusBadRequest, "the body ends too early")
	}
	return refuse(http.StatusBadRequest, "the body cannot be read")
}

func (b *body) tooLarge() *problem {
	return refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", b.max)
}

// checkMedia refuses a body that is not plain JSON: a compressed one could be a thousand times its size.
func checkMedia(h http.Header) *problem {
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") {
			return refuse(http.StatusUnsupportedMediaType, "Content-Encoding must be identity: compressed bodies are not read")
		}
	}
	value, _ := only(h, "Content-Type")
	if value == "application/json" {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(value); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	return nil
}
