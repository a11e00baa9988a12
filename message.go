package corebot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind says what a message is for. The values are stored; they never change.
type Kind string

const (
	KindPrompt  Kind = "prompt"  // inbound: a turn of the agent answers it
	KindOpening Kind = "opening" // inbound: a prompt that begins a new session: the TEXT of "/new TEXT"
	KindCommand Kind = "command" // inbound: a chat command that keeps its place in the lane, such as /new
	KindControl Kind = "control" // control: a chat command that acts at once, such as /stop
	KindHeard   Kind = "heard"   // inbound: context of the next prompt; nobody answers it
	KindReply   Kind = "reply"   // outbound: what the agent says
	KindNotice  Kind = "notice"  // outbound: what Corebot itself says; a notice never causes a notice
)

// Message is what travels on the bus. Its identity is (direction, key, id).
type Message struct {
	ID         string    `json:"id"`
	Direction  Direction `json:"-"`
	Key        Key       `json:"-"`
	Kind       Kind      `json:"-"`
	Sender     Principal `json:"sender,omitzero"` // of an inbound message; its ID may be empty
	SenderName string    `json:"senderName,omitempty"`
	Parts      []Part    `json:"parts"`
	Metadata   Metadata  `json:"metadata,omitempty"`
	InReplyTo  string    `json:"inReplyTo,omitempty"` // of an outbound message: the id of the message that it answers
	CreatedAt  time.Time `json:"-"`                   // set by publish
	Envelope   Envelope  `json:"envelope,omitzero"`   // of an inbound message
	Notice     *Notice   `json:"notice,omitempty"`    // of a notice; nil in one of an earlier version of Corebot

	// EditOf is the id of an earlier message in the same conversation that this one changes, and DeleteOf of one that
	// it takes back. Only the accept reads them; of an edit, the metadata has the id under [MetaEditOf], too.
	EditOf   string `json:"-"`
	DeleteOf string `json:"-"`

	// Relay is set in a message between agents.
	Relay *Relay `json:"-"`
	// Errand is set in the message of a due task.
	Errand *Errand `json:"-"`
	// Child is set in the message of a child turn.
	Child *Child `json:"-"`
	// Detached is set in the message of a detached request.
	Detached *Detached `json:"-"`

	// Trace is what has caused the message; zero where nobody traces. It distinguishes no messages.
	Trace Trace `json:"-"`

	// Entry says how the message came in. Only the accept reads it; it is not stored.
	Entry Entry `json:"-"`
}

// Text joins the text parts with newlines.
func (m Message) Text() string { return TextOf(m.Parts) }

// Size is what the limits of the bus count: the bytes of all content and metadata.
func (m Message) Size() int {
	n := len(m.SenderName) + len(m.Envelope.ReplyTo)
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.Hash) + len(p.Name) + len(p.MediaType)
	}
	return n + m.Metadata.size()
}

// Validate says what is wrong with a message before it is published; the error is [ErrInvalid] or [ErrTooLarge].
// maxBytes of zero means no limit.
func (m Message) Validate(maxBytes int) error {
	if err := m.Key.Validate(); err != nil {
		return err
	}
	if m.ID == "" {
		return fmt.Errorf("%w: id is empty", ErrInvalid)
	}
	if err := validateName(m.ID); err != nil {
		return fmt.Errorf("%w: id %v", ErrInvalid, err)
	}
	for _, name := range []string{m.Sender.ID, m.Sender.Channel, m.Sender.Account} {
		if err := validateName(name); err != nil {
			return fmt.Errorf("%w: senderId %v", ErrInvalid, err)
		}
	}
	if err := validateName(m.InReplyTo); err != nil {
		return fmt.Errorf("%w: inReplyTo %v", ErrInvalid, err)
	}
	if err := validateName(m.Envelope.ReplyTo); err != nil {
		return fmt.Errorf("%w: replyTo %v", ErrInvalid, err)
	}
	if n := m.Size(); maxBytes > 0 && n > maxBytes {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, n, maxBytes)
	}
	if !m.validUTF8() {
		return fmt.Errorf("%w: the text is not valid UTF-8", ErrInvalid)
	}
	if strings.TrimSpace(m.Text()) == "" && len(Attachments(m.Parts)) == 0 {
		return fmt.Errorf("%w: the message is empty", ErrInvalid)
	}
	return nil
}

// validUTF8 checks all content, because stored content must come back unchanged.
func (m Message) validUTF8() bool {
	ok := utf8.ValidString(m.SenderName) && utf8.ValidString(m.Envelope.ReplyTo)
	for _, p := range m.Parts {
		for _, s := range [...]string{string(p.Type), p.Text, p.Hash, p.Name, p.MediaType} {
			ok = ok && utf8.ValidString(s)
		}
	}
	return ok && m.Metadata.validUTF8()
}

// metaAnswers is a reply's metadata with the ids of further messages that the reply answers, one in each line. The
// first message is in InReplyTo.
const metaAnswers = "answers"

// AddMerged adds the id of a message that the reply's turn merged.
func (m *Message) AddMerged(id string) {
	if m.Metadata == nil {
		m.Metadata = Metadata{}
	}
	if others, _ := m.Metadata.Text(metaAnswers); others != "" {
		id = others + "\n" + id // ids have no control characters: see Validate
	}
	m.Metadata[metaAnswers] = textValue(id)
}

// Answers lists the ids of the messages that an outbound message answers. The first is InReplyTo.
func (m Message) Answers() []string {
	var ids []string
	if m.InReplyTo != "" {
		ids = append(ids, m.InReplyTo)
	}
	if others, _ := m.Metadata.Text(metaAnswers); others != "" {
		ids = append(ids, strings.Split(others, "\n")...)
	}
	return ids
}

// Metadata is what a program adds to the text of a message: names and JSON values of any type. A model sees it as data.
type Metadata map[string]json.RawMessage

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

// MetaEditOf is the name under which a model sees which message another one edits.
const MetaEditOf = "edit_of"

// MaxKeptMetadata is how many bytes of metadata, as JSON, a history entry keeps.
const MaxKeptMetadata = 16 << 10

// leftOut is the name under which [Metadata.Kept] says how many values it left out.
const leftOut = "corebot_left_out"

// Kept is the metadata as the history keeps it: values in the order of their names, for as long as they fit into
// [MaxKeptMetadata]. A value that does not fit is left out and counted.
func (m Metadata) Kept() Metadata {
	if len(m) == 0 || len(m.String()) <= MaxKeptMetadata {
		return m
	}
	kept, room, out := Metadata{}, MaxKeptMetadata-len(`{"`+leftOut+`":1000000}`), 0
	for _, name := range slices.Sorted(maps.Keys(m)) {
		one := len(Metadata{name: m[name]}.String()) // with its braces, which are as much as a comma
		if one > room {
			out++
			continue
		}
		kept[name], room = m[name], room-one
	}
	kept[leftOut] = json.RawMessage(strconv.Itoa(out))
	return kept
}

// Texts makes metadata whose values are all texts.
func Texts(values map[string]string) Metadata {
	m := make(Metadata, len(values))
	for k, v := range values {
		m[k] = textValue(v)
	}
	return m
}

// Text returns a value that is a text; ok is false for any other value.
func (m Metadata) Text(name string) (text string, ok bool) {
	value, found := m[name]
	if !found || len(value) == 0 || value[0] != '"' {
		return "", false
	}
	err := json.Unmarshal(value, &text)
	return text, err == nil
}

// textValue writes a text as a JSON value, without escapes for HTML.
func textValue(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string is always JSON
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

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

// otherThanText stands before the name of a stored value that is JSON of another type. It is not UTF-8, so no name
// begins with it.
const otherThanText = "\xff"

// appendTo writes the metadata into the essence of a message. Its layout never changes, because checksums are stored.
func (m Metadata) appendTo(buf []byte) []byte {
	if len(m) == 0 { // most messages have none; sorting would cost three allocations
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

// read takes one value from the front of a stored essence.
func (m Metadata) read(r *reader) {
	k, v := r.string(), r.string()
	if name, other := strings.CutPrefix(k, otherThanText); other {
		m[name] = json.RawMessage(v)
		return
	}
	m[k] = textValue(v)
}

// PartType is the kind of content of a [Part]. The values are stored; they never change.
type PartType string

const (
	PartText  PartType = "text"
	PartImage PartType = "image"
	PartAudio PartType = "audio"
	PartFile  PartType = "file"
)

// Part is one piece of a message's content. An image, an audio and a file are named by the hash of their content.
// Without a hash, the content is not kept.
type Part struct {
	Type PartType `json:"type"`
	// Text is the text of a text. Of another part it is what Corebot has to say of it, such as why its content is not
	// kept. Of a file of a reply it is the caption.
	Text      string `json:"text,omitempty"`
	Hash      string `json:"hash,omitempty"`
	Name      string `json:"name,omitempty"` // display only
	MediaType string `json:"mediaType,omitempty"`
}

// Validate says what is wrong with a part that comes from outside.
func (p Part) Validate() error {
	switch p.Type {
	case PartText:
		if p.Hash != "" || p.Name != "" || p.MediaType != "" {
			return fmt.Errorf("%w: a text has no hash, no name and no media type", ErrInvalid)
		}
	case PartImage, PartAudio, PartFile:
		if p.Text != "" {
			return fmt.Errorf("%w: a part of type %s has no text", ErrInvalid, p.Type)
		}
	default:
		return fmt.Errorf("%w: there is no part of type %q", ErrInvalid, p.Type)
	}
	return nil
}

// MaxAttached is how many files a reply has at most.
const MaxAttached = 10

// AttachedFile is a reference of a message to a file. The bytes are stored by the hash of their content.
type AttachedFile struct {
	Key       Key
	MessageID string
	Hash      string // SHA-256 of the bytes, in hex
	Name      string // display only
	MediaType string // of the bytes, not as the sender says
	Size      int64
	Fault     string // why the bytes are not kept; empty: they are
	At        time.Time
}

// TextPart is a message's usual content.
func TextPart(text string) []Part { return []Part{{Type: PartText, Text: text}} }

// TextOf joins the texts among parts with newlines.
func TextOf(parts []Part) string {
	if len(parts) == 1 && parts[0].Type == PartText {
		return parts[0].Text
	}
	var texts []string
	for _, p := range parts {
		if p.Type == PartText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// WithText gives parts another text: it stands where their first text stood, or before all of them. An empty text is no
// part.
func WithText(parts []Part, text string) []Part {
	if text == "" {
		return Attachments(parts)
	}
	at := max(slices.IndexFunc(parts, isText), 0)
	others := Attachments(parts)
	return slices.Insert(others, min(at, len(others)), Part{Type: PartText, Text: text})
}

// Attachments are the parts beside the text.
func Attachments(parts []Part) []Part { return slices.DeleteFunc(slices.Clone(parts), isText) }

func isText(p Part) bool { return p.Type == PartText }

// Content is how parts are stored, and written as JSON: their text, and all parts where they are more than one text.
// An earlier version of Corebot had texts only: what it stored reads as their parts.
type Content struct {
	Text  string `json:"text"`
	Parts []Part `json:"parts,omitempty"`
}

// ContentOf makes the stored form of parts.
func ContentOf(parts []Part) Content {
	c := Content{Text: TextOf(parts)}
	if len(parts) > 1 || len(parts) == 1 && !isText(parts[0]) {
		c.Parts = parts
	}
	return c
}

// All are the parts that the content was made of; no text is no part.
func (c Content) All() []Part {
	if len(c.Parts) == 0 && c.Text != "" {
		return TextPart(c.Text)
	}
	return c.Parts
}

// Envelope is what a platform says of a message beside its content. The zero Envelope is of a platform that says
// nothing.
type Envelope struct {
	ReplyTo   string `json:"replyTo,omitempty"`   // the platform's id of the message that it answers
	Group     bool   `json:"group,omitempty"`     // more people than the sender read the chat
	Mentioned bool   `json:"mentioned,omitempty"` // it names Corebot, or answers Corebot
	// Forwarded says that others than the sender wrote the content, and the sender passes it on. It is never a command,
	// and it taints.
	Forwarded bool      `json:"forwarded,omitempty"`
	SentAt    time.Time `json:"sentAt,omitzero"` // by the platform's clock, to the millisecond
	// DeliverAt is the time before which nobody answers the message, to the millisecond. Until then it is [Deferred],
	// for the reason [DeferredToTime].
	DeliverAt time.Time `json:"deliverAt,omitzero"`
}

// MaxDeliverAhead is how far ahead of its acceptance a message can be delivered.
const MaxDeliverAhead = 366 * 24 * time.Hour

// IsZero says that the platform says nothing.
func (o Envelope) IsZero() bool { return o == Envelope{} }

// Text joins the texts of the entry with newlines.
func (e HistoryEntry) Text() string { return TextOf(e.Parts) }

// MarshalJSON writes the parts as [Content].
func (e HistoryEntry) MarshalJSON() ([]byte, error) {
	type plain HistoryEntry
	return json.Marshal(struct {
		plain
		Content
	}{plain(e), ContentOf(e.Parts)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *HistoryEntry) UnmarshalJSON(data []byte) error {
	type plain HistoryEntry
	var stored struct {
		plain
		Content
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*e = HistoryEntry(stored.plain)
	e.Parts = stored.Content.All()
	return nil
}

// Text joins the texts of the message with newlines.
func (m Merged) Text() string { return TextOf(m.Parts) }

// MarshalJSON writes the parts as [Content].
func (m Merged) MarshalJSON() ([]byte, error) {
	type plain Merged
	return json.Marshal(struct {
		plain
		Content
	}{plain(m), ContentOf(m.Parts)})
}

// UnmarshalJSON reads what MarshalJSON wrote, and the JSON that Corebot stored when messages were texts only.
func (m *Merged) UnmarshalJSON(data []byte) error {
	type plain Merged
	var stored struct {
		plain
		Content
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*m = Merged(stored.plain)
	m.Parts = stored.Content.All()
	return nil
}
