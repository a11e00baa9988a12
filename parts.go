package corebot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
	Type      PartType `json:"type"`
	Text      string   `json:"text,omitempty"` // of a text only
	Hash      string   `json:"hash,omitempty"`
	Name      string   `json:"name,omitempty"` // display only
	MediaType string   `json:"mediaType,omitempty"`
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
}

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
