package corebot

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Metadata is what a program says beside the text of a message: names and JSON values of any type. A model is shown it as data.
type Metadata map[string]json.RawMessage

// Empty says that there is none.
func (m Metadata) Empty() bool { return len(m) == 0 }

// String is the metadata as one JSON object, sorted by name.
func (m Metadata) String() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]json.RawMessage(m)); err != nil { // a value is no JSON
		return "{}"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Texts is metadata whose values are all texts.
func Texts(values map[string]string) Metadata {
	m := make(Metadata, len(values))
	for k, v := range values {
		m[k] = textValue(v)
	}
	return m
}

// Text gives a value that is a text; ok says that it is one.
func (m Metadata) Text(name string) (text string, ok bool) {
	value, found := m[name]
	if !found || len(value) == 0 || value[0] != '"' {
		return "", false
	}
	err := json.Unmarshal(value, &text)
	return text, err == nil
}

// textValue is a text as a JSON value, as it would be written by hand.
func textValue(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string is always JSON
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// size is what the limits of the bus count.
func (m Metadata) size() (n int) {
	for k, v := range m {
		n += len(k) + len(v)
	}
	return n
}

func (m Metadata) validUTF8() bool {
	for k, v := range m {
		if !utf8.ValidString(k) || !utf8.Valid(v) {
			return false
		}
	}
	return true
}

func (m Metadata) toValidUTF8() Metadata {
	valid := make(Metadata, len(m))
	for k, v := range m {
		valid[strings.ToValidUTF8(k, "\ufffd")] = bytes.ToValidUTF8(v, []byte("\ufffd"))
	}
	return valid
}

// otherThanText stands before the name of a stored value that is JSON of another type. No name begins with it: it is not UTF-8.
const otherThanText = "\xff"

// appendTo writes the metadata into the essence of a message. Its layout never changes: checksums are stored.
func (m Metadata) appendTo(buf []byte) []byte {
	if len(m) == 0 { // as of most messages; sorting none costs three allocations
		return buf
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if text, ok := m.Text(k); ok {
			buf = appendString(appendString(buf, k), text)
		} else {
			buf = appendString(appendString(buf, otherThanText+k), string(m[k]))
		}
	}
	return buf
}

// read takes one value off the front of a stored essence.
func (m Metadata) read(r *reader) {
	k, v := r.string(), r.string()
	if name, other := strings.CutPrefix(k, otherThanText); other {
		m[name] = json.RawMessage(v)
		return
	}
	m[k] = textValue(v)
}
