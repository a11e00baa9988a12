package channels

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// Outbound is one send: a message of Corebot, or a piece of one that is longer than the channel takes.
type Outbound struct {
	ID             string         `json:"id"` // of the message: the same in every attempt, and for all its pieces
	IdempotencyKey string         `json:"-"`  // of this send: it names the message and the bytes of the piece
	Key            corebot.Key    `json:"-"`
	Kind           corebot.Kind   `json:"-"` // [corebot.KindReply] or [corebot.KindNotice]
	Parts          []corebot.Part `json:"parts"`
	InReplyTo      string         `json:"inReplyTo,omitempty"` // the id of the message that it answers
	AlsoAnswers    []string       `json:"alsoAnswers,omitempty"`
	CreatedAt      time.Time      `json:"-"`
}

// Text joins the texts with newlines.
func (o Outbound) Text() string { return corebot.TextOf(o.Parts) }

// Answers lists the ids of all messages that it answers; the first is InReplyTo.
func (o Outbound) Answers() []string {
	if o.InReplyTo == "" {
		return o.AlsoAnswers
	}
	return append([]string{o.InReplyTo}, o.AlsoAnswers...)
}

// OutboundOf makes the send of a whole message. No channel takes attachments yet: a line of text stands for each.
func OutboundOf(m corebot.Message) Outbound {
	o := Outbound{
		ID: m.ID, IdempotencyKey: m.ID, Key: m.Key, Kind: m.Kind, Parts: readable(m.Parts), InReplyTo: m.InReplyTo,
		CreatedAt: m.CreatedAt,
	}
	if others := m.Answers(); len(others) > 0 && m.InReplyTo != "" {
		o.AlsoAnswers = others[1:]
	} else {
		o.AlsoAnswers = others
	}
	return o
}

// readable is content as text alone.
func readable(parts []corebot.Part) []corebot.Part {
	attachments := corebot.Attachments(parts)
	if len(attachments) == 0 {
		return parts
	}
	lines := slices.DeleteFunc([]string{corebot.TextOf(parts)}, func(text string) bool { return text == "" })
	for _, p := range attachments {
		lines = append(lines, fmt.Sprintf("[%s %q (%s) cannot be shown here]", p.Type, p.Name, p.MediaType))
	}
	return corebot.TextPart(strings.Join(lines, "\n"))
}

// piece is the send of the bytes of the text between two places.
func (o Outbound) piece(text string, from, to int) Outbound {
	if whole := o.Text(); from > 0 || to < len(whole) {
		o.IdempotencyKey = pieceKey(o.ID, from, to)
	}
	o.Parts = corebot.TextPart(text)
	return o
}

// pieceKey names the bytes of a piece: a platform that has shown them does not show them again, in whatever run they
// come, and never takes other bytes for them. A whole message has its own id.
func pieceKey(id string, from, to int) string {
	return fmt.Sprintf("%s/1/%s-%s", id, strconv.Itoa(from), strconv.Itoa(to))
}

// Receipt is what a platform says of a send.
type Receipt struct {
	// IDs are the platform's own ids of what it shows now, in order: an edit, a deletion and a reply to it need them.
	// A channel whose platform has none leaves IDs empty.
	IDs []string
	// Reached is how many bytes of the text the platform has shown. Zero means all of them beside a nil error, and none
	// beside another. A channel that cuts texts itself can stop early: the outbox sends the rest.
	Reached int
}

// reached is the place in a piece up to which the platform has shown it.
func (r Receipt) reached(piece string, err error) int {
	inside := r.Reached > 0 && r.Reached < len(piece) && utf8.RuneStart(piece[r.Reached])
	switch {
	case inside:
		return r.Reached
	case err != nil:
		return 0
	}
	return len(piece)
}
