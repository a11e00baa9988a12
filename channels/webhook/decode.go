package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/signedpost"
	"github.com/corebot/corebot/internal/strictjson"
)

const (
	maxDepth         = 32       // arrays and objects inside one another, below the body's own
	maxMetadata      = 64       // entries
	maxMetadataBytes = 16 << 10 // names and values together
	maxSenderName    = 256      // bytes
	maxQuoted        = 64       // bytes of a caller's field name in an answer
)

// decode reads the body of a POST, all but the fields that are the webhook's own. A body that is not one strict JSON
// document is malformed (400). A document that the contract does not allow is wrong (422).
func decode(raw []byte) (channels.Incoming, *problem) { return decodeWith(raw, nil) }

// decodeWith reads a body to which files belong that are not in it.
func decodeWith(raw []byte, files []file) (channels.Incoming, *problem) {
	x := &reader{json: strictjson.NewReader(raw, strictjson.Rules{}), files: files}
	if err := x.document(); err != nil {
		return channels.Incoming{}, refuse(http.StatusBadRequest, "the body is malformed: %v", explain(err))
	}
	for _, f := range []struct{ name, value string }{{"id", x.in.ID}, {"chatId", x.in.Chat}, {"content", x.in.Text()}} {
		if f.value == "" && (f.name != "content" || len(x.files) == 0) {
			x.blame("%s is missing or empty", f.name)
		}
	}
	if x.wrong != "" {
		return channels.Incoming{}, refuse(http.StatusUnprocessableEntity, "%s", x.wrong)
	}
	return withFiles(x.in, x.files), nil
}

// explain leaves out the grammar: a caller writes his bodies with a library.
func explain(err error) error {
	if bad := (*strictjson.Error)(nil); errors.As(err, &bad) {
		switch bad.What {
		case strictjson.Syntax, strictjson.Cut, strictjson.Trailing:
			return errors.New("it is not one JSON document")
		}
	}
	return err
}

// reader reads a body. An error means that the body is malformed. The reader remembers what is merely wrong and reads
// on: something malformed can still follow.
type reader struct {
	json  *strictjson.Reader
	in    channels.Incoming
	wrong string // the first thing that is
	bytes int    // of the metadata
	files []file
}

func (x *reader) blame(format string, args ...any) {
	if x.wrong == "" {
		x.wrong = fmt.Sprintf(format, args...)
	}
}

func (x *reader) document() error {
	if err := x.object("the body", x.field); err != nil {
		return err
	}
	return x.json.End()
}

// field reads the value of one field of the body.
func (x *reader) field(name string) error {
	switch name {
	case "id":
		return x.text(name, &x.in.ID)
	case "chatId":
		return x.text(name, &x.in.Chat)
	case "senderId":
		return x.text(name, &x.in.SenderID)
	case "senderName":
		err := x.text(name, &x.in.SenderName)
		if len(x.in.SenderName) > maxSenderName {
			x.blame("senderName is longer than %d bytes", maxSenderName)
		}
		return err
	case "content":
		var content string
		err := x.text(name, &content)
		x.in.Parts = corebot.WithText(nil, content)
		return err
	case "deliverAt":
		var at string
		err := x.text(name, &at)
		if err == nil && x.wrong == "" {
			x.deliverAt(at)
		}
		return err
	case "metadata":
		x.in.Metadata = corebot.Metadata{}
		return x.object(name, x.entry)
	case fieldFiles:
		return x.attachments()
	}
	x.blame("there is no field %s; fields are id, chatId, senderId, senderName, content, deliverAt, metadata and "+
		"attachments, spelled so", quoted(name))
	return x.skip()
}

// deliverAt reads the time before which nobody answers the message. A time without a zone would mean another moment on
// another machine.
func (x *reader) deliverAt(text string) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		x.blame("deliverAt must be a time with a zone, such as 2026-12-24T18:00:00+01:00 or 2026-12-24T17:00:00Z")
		return
	}
	x.in.Envelope.DeliverAt = at
}

// entry reads one entry of the metadata: any JSON value. Numbers stay as they were written, and keys come out sorted.
func (x *reader) entry(name string) error {
	value, err := x.json.Value(maxDepth)
	if err != nil {
		return err
	}
	raw := sorted(value)
	if x.bytes += len(name) + len(raw); len(x.in.Metadata) >= maxMetadata || x.bytes > maxMetadataBytes {
		x.blame("metadata is more than %d entries or %d bytes", maxMetadata, maxMetadataBytes)
		return nil
	}
	x.in.Metadata[name] = raw
	return nil
}

// sorted is a value as [encode] would have written it.
func sorted(value json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	_ = d.Decode(&v) // it has been read before, by stricter rules
	return encode(v)
}

// text reads a value that should be a string.
func (x *reader) text(what string, into *string) error {
	if x.json.Kind() != '"' {
		x.blame("%s must be a string", what)
		return x.skip()
	}
	tok, err := x.json.Next()
	if err == nil {
		*into = tok.String()
	}
	return err
}

// object reads a value that should be an object; each reads the value of a field.
func (x *reader) object(what string, each func(name string) error) error {
	if x.json.Kind() != '{' {
		x.blame("%s must be an object", what)
		return x.skip()
	}
	return x.json.Members(each)
}

// skip reads a value that nobody wants.
func (x *reader) skip() error {
	_, err := x.json.Value(maxDepth)
	return err
}

// quoted shows a name that came from outside, at most so much of it.
func quoted(name string) string {
	if len(name) > maxQuoted {
		return strconv.QuoteToASCII(name[:maxQuoted]) + "…"
	}
	return strconv.QuoteToASCII(name)
}

// keptBuffer is the largest buffer that is kept for the next body. Most bodies are small, and one large one must not
// make all of them large.
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

// release gives the buffer back. The bytes that it returned must not be used after it.
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
	if b.r.ContentLength > keptBuffer {
		b.buf.Grow(int(b.r.ContentLength) + bytes.MinRead) // once, so that a large body is in memory once
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

// checkMedia refuses a body that is neither plain JSON nor a form: a compressed one could be a thousand times its size.
func checkMedia(h http.Header) *problem {
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") {
			return refuse(http.StatusUnsupportedMediaType,
				"Content-Encoding must be identity: compressed bodies are not read")
		}
	}
	value, _ := signedpost.Only(h, "Content-Type")
	if value == "application/json" {
		return nil
	}
	if _, form := isForm(h); form {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(value); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType,
			"Content-Type must be application/json, or multipart/form-data for files")
	}
	return nil
}
