package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

const (
	maxDepth         = 32       // arrays and objects inside one another
	maxMetadata      = 64       // entries
	maxMetadataBytes = 16 << 10 // names and values together
	maxSenderName    = 256      // bytes
	maxQuoted        = 64       // bytes of a caller's field name in an answer
)

// decode reads the body of a POST, all but the fields that are the webhook's own. What is not one JSON document is malformed (400); what
// is one but not the contract's is wrong (422).
//
// encoding/json alone takes names in any case, the last of two fields of one name, and makes all halves of a character one. Each would
// let two different bodies be the same message, or one body be two to two readers, so they are refused.
func decode(raw []byte) (channels.Incoming, *problem) {
	x := &reader{d: json.NewDecoder(bytes.NewReader(raw))}
	x.d.UseNumber()
	if err := wellFormed(raw); err != nil {
		return channels.Incoming{}, refuse(http.StatusBadRequest, "the body is malformed: %v", err)
	}
	if err := x.document(); err != nil {
		return channels.Incoming{}, refuse(http.StatusBadRequest, "the body is malformed: %v", err)
	}
	for _, f := range []struct{ name, value string }{{"id", x.in.ID}, {"chatId", x.in.Chat}, {"content", x.in.Text}} {
		if f.value == "" {
			x.blame("%s is missing or empty", f.name)
		}
	}
	if x.wrong != "" {
		return channels.Incoming{}, refuse(http.StatusUnprocessableEntity, "%s", x.wrong)
	}
	return x.in, nil
}

// wellFormed checks what the decoder is too kind to see.
func wellFormed(raw []byte) error {
	switch {
	case !utf8.Valid(raw):
		return errors.New("it is not valid UTF-8")
	case !json.Valid(raw):
		return errors.New("it is not one JSON document")
	case halfCharacter(raw):
		return errors.New(`it has half a character: a \u escape of a surrogate without its other half`)
	}
	return nil
}

// halfCharacter looks for a surrogate escape without its partner, in a document that is valid otherwise.
func halfCharacter(raw []byte) bool {
	for i := 0; ; {
		next := bytes.IndexByte(raw[i:], '\\')
		if next < 0 {
			return false
		}
		i += next
		first := escaped(raw[i:])
		switch {
		case !utf16.IsSurrogate(first):
			i += 2
		case utf16.DecodeRune(first, escaped(raw[i+6:])) == utf8.RuneError:
			return true
		default:
			i += 12
		}
	}
}

// escaped is the rune of a \u escape at the beginning of b, or zero.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n)
}

// reader reads a document token by token. An error means malformed; what is merely wrong is remembered, because something malformed may
// still follow.
type reader struct {
	d     *json.Decoder
	in    channels.Incoming
	wrong string // the first thing that is
	depth int
	bytes int // of the metadata
}

func (x *reader) blame(format string, args ...any) {
	if x.wrong == "" {
		x.wrong = fmt.Sprintf(format, args...)
	}
}

func (x *reader) document() error {
	return x.object("the body", x.field)
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
		return x.text(name, &x.in.Text)
	case "metadata":
		x.in.Metadata = corebot.Metadata{}
		return x.object(name, x.entry)
	}
	x.blame("there is no field %s; fields are id, chatId, senderId, senderName, content and metadata, spelled so", quoted(name))
	return x.any()
}

// entry reads one entry of the metadata: any JSON value. Numbers stay as they were written, and keys come out sorted.
func (x *reader) entry(name string) error {
	value, err := x.value()
	if err != nil {
		return err
	}
	raw := encode(value)
	if x.bytes += len(name) + len(raw); len(x.in.Metadata) >= maxMetadata || x.bytes > maxMetadataBytes {
		x.blame("metadata is more than %d entries or %d bytes", maxMetadata, maxMetadataBytes)
		return nil
	}
	x.in.Metadata[name] = raw
	return nil
}

// value reads any JSON value. One that is nested too deep is malformed, as everywhere in the body.
func (x *reader) value() (any, error) {
	tok, err := x.d.Token()
	open, nested := tok.(json.Delim)
	if err != nil || !nested {
		return tok, err
	}
	if x.depth++; x.depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	defer func() { x.depth-- }()
	if open == '{' {
		all := map[string]any{}
		return all, x.fields(func(name string) (err error) {
			all[name], err = x.value()
			return err
		})
	}
	all := []any{}
	for x.d.More() {
		one, err := x.value()
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	_, err = x.d.Token()
	return all, err
}

// text reads a value that should be a string.
func (x *reader) text(what string, into *string) error {
	tok, err := x.d.Token()
	if err != nil {
		return err
	}
	s, ok := tok.(string)
	if !ok {
		x.blame("%s must be a string", what)
		return x.rest(tok)
	}
	*into = s
	return nil
}

// object reads a value that should be an object; each reads the value of a field.
func (x *reader) object(what string, each func(name string) error) error {
	tok, err := x.d.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		x.blame("%s must be an object", what)
		return x.rest(tok)
	}
	return x.fields(each)
}

// fields reads what follows an opening brace, up to the closing one.
func (x *reader) fields(each func(name string) error) error {
	seen := map[string]bool{}
	for x.d.More() {
		tok, err := x.d.Token()
		if err != nil {
			return err
		}
		name, _ := tok.(string)
		if seen[name] {
			return fmt.Errorf("the field %s stands there twice", quoted(name))
		}
		seen[name] = true
		if err := each(name); err != nil {
			return err
		}
	}
	_, err := x.d.Token()
	return err
}

// any reads a value that nobody wants.
func (x *reader) any() error {
	tok, err := x.d.Token()
	if err != nil {
		return err
	}
	return x.rest(tok)
}

// rest reads what belongs to a value that began with tok.
func (x *reader) rest(tok json.Token) error {
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	if x.depth++; x.depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	defer func() { x.depth-- }()
	if open == '{' {
		return x.fields(func(string) error { return x.any() })
	}
	for x.d.More() {
		if err := x.any(); err != nil {
			return err
		}
	}
	_, err := x.d.Token()
	return err
}

// quoted shows a name that came from outside, at most so much of it.
func quoted(name string) string {
	if len(name) > maxQuoted {
		return strconv.QuoteToASCII(name[:maxQuoted]) + "…"
	}
	return strconv.QuoteToASCII(name)
}
