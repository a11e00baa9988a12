package corebot

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Checksum tells two bodies apart, and a stored body from a damaged body.
type Checksum [16]byte

// Checksum covers everything that distinguishes two messages with one id: kind, sender, parts, metadata and the message
// that it answers. It leaves out the sender's display name, which a platform can change between two deliveries of one
// message.
func (m Message) Checksum() Checksum { return sum(m.appendEssence(make([]byte, 0, m.bodySize()))) }

// A stored body is a version byte, then the length and the bytes that the checksum covers, then the sender's name and
// the id. The key and the times of a message are columns beside its body. A string is its length and its bytes; a
// length is a uvarint.
//
// Every message is encoded once in the writer's way and decoded once by a worker. JSON took a sixth of all their time
// (docs/performance.md).
//
// A message whose platform says more of it than its content has version 2: there the covered bytes begin with the
// [Envelope]. A message without one is stored, and summed, as it always was.
//
// A message with a [Notice] has version 3: its last string is the notice as JSON. The checksum does not cover the
// notice, because a notice does not distinguish messages.
//
// A message of a trace has its version with the bit bodyTraced, and behind all else its [Trace]. The checksum does not
// cover the trace, because a caller who sends a message again begins another one.
const (
	bodyVersion         = 1
	bodyVersionEnvelope = 2
	bodyVersionNotice   = 3

	bodyTraced = 0x10
)

var errBody = errors.New("the stored body of a message is damaged")

// EncodeBody makes the stored body of a message and its checksum. It first replaces bytes that are not UTF-8, which no
// channel could show. The checksum is of the replaced text.
func (m Message) EncodeBody() ([]byte, Checksum) {
	if !m.validUTF8() {
		m = m.toValidUTF8()
	}
	// room in front for the version and the length, which is only known at the end
	const head = 1 + binary.MaxVarintLen64
	buf := m.appendEssence(make([]byte, head, head+m.bodySize()))
	essence := buf[head:]
	length := binary.AppendUvarint(nil, uint64(len(essence)))
	begin := head - len(length) - 1
	buf[begin] = bodyVersion
	if !m.Envelope.IsZero() {
		buf[begin] = bodyVersionEnvelope
	}
	copy(buf[begin+1:], length)
	buf = appendString(appendString(buf, m.SenderName), m.ID)
	if notice := m.Notice.stored(); notice != "" && m.Envelope.IsZero() { // what has an envelope is from outside
		buf[begin] = bodyVersionNotice
		buf = appendString(buf, notice)
	}
	if !m.Trace.IsZero() {
		buf[begin] |= bodyTraced
		buf = m.Trace.appendTo(buf)
	}
	return buf[begin:], sum(essence)
}

// DecodeBody reads a body into a message whose Kind is set already, and compares it with its checksum. It reads what
// [Message.EncodeBody] wrote, and the JSON that earlier versions of Corebot stored.
func DecodeBody(body []byte, want []byte, m *Message) error {
	if len(body) > 0 && body[0] == '{' {
		return decodeJSON(body, want, m)
	}
	if len(body) == 0 {
		return errBody
	}
	version := body[0] &^ bodyTraced
	if version < bodyVersion || version > bodyVersionNotice {
		return errBody
	}
	if body[0] != version {
		var ok bool
		if body, m.Trace, ok = cutTrace(body); !ok {
			return errBody
		}
	}
	n, size := binary.Uvarint(body[1:])
	if size <= 0 || n > uint64(len(body)-1-size) {
		return errBody
	}
	essence := body[1+size:][:n]
	if got := sum(essence); string(got[:]) != string(want) {
		return fmt.Errorf("%w: it does not match its checksum", errBody)
	}
	tail := reader{rest: string(body[1+size+int(n):])}
	m.SenderName, m.ID = tail.string(), tail.string()
	if version == bodyVersionNotice {
		var err error
		if m.Notice, err = readNotice(tail.string()); err != nil || m.Notice == nil {
			return errBody
		}
	}
	r := reader{rest: string(essence)}
	if version == bodyVersionEnvelope {
		m.Envelope = r.envelope()
	}
	return cmp.Or(m.readEssence(r), tail.end())
}

func (m Message) toValidUTF8() Message {
	valid := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
	m.SenderName, m.Parts = valid(m.SenderName), slices.Clone(m.Parts)
	for i, p := range m.Parts {
		m.Parts[i] = Part{
			Type: PartType(valid(string(p.Type))), Text: valid(p.Text), Hash: valid(p.Hash),
			Name: valid(p.Name), MediaType: valid(p.MediaType),
		}
	}
	m.Metadata, m.Envelope.ReplyTo = m.Metadata.toValidUTF8(), valid(m.Envelope.ReplyTo)
	return m
}

func decodeJSON(body []byte, want []byte, m *Message) error {
	if err := json.Unmarshal(body, m); err != nil {
		return fmt.Errorf("%w: %w", errBody, err)
	}
	if got := m.Checksum(); string(got[:]) != string(want) {
		return fmt.Errorf("%w: it does not match its checksum", errBody)
	}
	return nil
}

func sum(essence []byte) Checksum {
	s := sha256.Sum256(essence)
	return Checksum(s[:16])
}

// bodySize is about the length of the stored body.
func (m Message) bodySize() int {
	return 128 + 16*len(m.Parts) + m.Size() + len(m.ID) + len(m.Sender.ID) + len(m.InReplyTo)
}

func appendString(buf []byte, s string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(s))), s...)
}

// appendEssence writes the bytes that the checksum covers. Their layout never changes, because checksums are stored.
func (m Message) appendEssence(buf []byte) []byte {
	if !m.Envelope.IsZero() {
		buf = m.Envelope.appendTo(buf)
	}
	for _, s := range [...]string{string(m.Kind), m.Sender.Channel, m.Sender.Account, m.Sender.ID, m.InReplyTo} {
		buf = appendString(buf, s)
	}
	buf = binary.AppendUvarint(buf, uint64(len(m.Parts)))
	for _, p := range m.Parts {
		for _, s := range [...]string{string(p.Type), p.Text, p.Hash, p.Name, p.MediaType} {
			buf = appendString(buf, s)
		}
	}
	return m.stored().appendTo(buf)
}

// Bits of the flags of a stored [Envelope].
const (
	envelopeGroup = 1 << iota
	envelopeMentioned
	envelopeSent
	envelopeForwarded
	envelopeDeliverAt // the time follows
)

// appendTo writes the envelope before the rest of an essence. Its layout never changes: checksums are stored.
func (o Envelope) appendTo(buf []byte) []byte {
	flags, sent := uint64(0), int64(0)
	if o.Group {
		flags |= envelopeGroup
	}
	if o.Mentioned {
		flags |= envelopeMentioned
	}
	if o.Forwarded {
		flags |= envelopeForwarded
	}
	if !o.SentAt.IsZero() {
		flags, sent = flags|envelopeSent, o.SentAt.UnixMilli()
	}
	if !o.DeliverAt.IsZero() {
		flags |= envelopeDeliverAt
	}
	buf = binary.AppendUvarint(appendString(buf, o.ReplyTo), flags)
	buf = binary.AppendUvarint(buf, uint64(sent))
	if !o.DeliverAt.IsZero() {
		buf = binary.AppendUvarint(buf, uint64(o.DeliverAt.UnixMilli()))
	}
	return buf
}

// envelope takes an envelope off the front of a stored essence.
func (r *reader) envelope() Envelope {
	o := Envelope{ReplyTo: r.string()}
	flags, sent := r.uvarint(), int64(r.uvarint())
	o.Group, o.Mentioned = flags&envelopeGroup != 0, flags&envelopeMentioned != 0
	o.Forwarded = flags&envelopeForwarded != 0
	if flags&envelopeSent != 0 {
		o.SentAt = time.UnixMilli(sent).UTC()
	}
	if flags&envelopeDeliverAt != 0 {
		o.DeliverAt = time.UnixMilli(int64(r.uvarint())).UTC()
	}
	if o.IsZero() { // then it would not have been written
		r.broken = true
	}
	return o
}

func (m *Message) readEssence(r reader) error {
	kind := Kind(r.string())
	m.Sender = Principal{Channel: r.string(), Account: r.string(), ID: r.string()}
	m.InReplyTo = r.string()
	parts := r.uvarint()
	if kind != m.Kind || parts > uint64(len(r.rest)) { // a part has at least five bytes
		return errBody
	}
	m.Parts = make([]Part, parts)
	for i := range m.Parts {
		m.Parts[i] = Part{
			Type: PartType(r.string()), Text: r.string(), Hash: r.string(), Name: r.string(),
			MediaType: r.string(),
		}
	}
	for r.rest != "" && !r.broken {
		if m.Metadata == nil {
			m.Metadata = Metadata{}
		}
		m.Metadata.read(&r)
	}
	return cmp.Or(r.end(), m.unload())
}

// A message carries things for Corebot itself. They are stored beside the metadata of its sender. Their names are not
// UTF-8: no metadata of a sender has them.
const (
	relayName    = "\xferelay"
	errandName   = "\xfeerrand"
	childName    = "\xfechild"
	detachedName = "\xfedetached"
)

// stored is the metadata of a message, with all that it carries.
func (m Message) stored() Metadata {
	if m.Relay == nil && m.Errand == nil && m.Child == nil && m.Detached == nil {
		return m.Metadata
	}
	all := make(Metadata, len(m.Metadata)+4)
	for name, value := range m.Metadata {
		all[name] = value
	}
	load(all, relayName, m.Relay)
	load(all, errandName, m.Errand)
	load(all, childName, m.Child)
	load(all, detachedName, m.Detached)
	return all
}

// load stores one thing that a message carries, if it is there. All of them have only what JSON can write: strings,
// numbers, and times of years that it knows (see [Schedule]).
func load[T any](all Metadata, name string, thing *T) {
	if thing != nil {
		text, _ := json.Marshal(thing)
		all[name] = textValue(string(text))
	}
}

// unload takes what the message carries out of the metadata that was stored.
func (m *Message) unload() error {
	err := cmp.Or(
		take(m, relayName, "from agent to agent", &m.Relay, func(r *Relay) bool { return len(r.Back) <= MaxHops }),
		take(m, errandName, "of its task", &m.Errand, nil),
		take(m, childName, "of its parent", &m.Child, nil),
		take(m, detachedName, "of its request", &m.Detached, func(d *Detached) bool { return len(d.Calls) > 0 }),
	)
	if m.Child != nil && m.Child.Tools == nil { // nil would mean every tool
		m.Child.Tools = []string{}
	}
	return err
}

// take reads one thing that a message carries into at. Where it is not there, at stays nil. An error says with the
// words of whose the thing is. The function whole, unless nil, refuses a thing that can be decoded and cannot be true.
func take[T any](m *Message, name, of string, at **T, whole func(*T) bool) error {
	text, ok := m.Metadata.Text(name)
	if !ok {
		return nil
	}
	if delete(m.Metadata, name); len(m.Metadata) == 0 {
		m.Metadata = nil
	}
	thing := new(T)
	*at = thing
	if err := json.Unmarshal([]byte(text), thing); err != nil || whole != nil && !whole(thing) {
		return fmt.Errorf("%w: what it carries %s cannot be read", errBody, of)
	}
	return nil
}

// reader takes strings from the front of a stored body. The strings share the body's memory.
type reader struct {
	rest   string
	broken bool
}

func (r *reader) uvarint() (n uint64) {
	for shift := 0; shift < 64 && len(r.rest) > 0; shift += 7 {
		b := r.rest[0]
		r.rest = r.rest[1:]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	r.broken = true
	return 0
}

func (r *reader) string() string {
	n := r.uvarint()
	if r.broken || n > uint64(len(r.rest)) {
		r.broken = true
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// end is an error unless the reader has read everything.
func (r *reader) end() error {
	if r.broken || r.rest != "" {
		return errBody
	}
	return nil
}
