package channels

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Incoming is a message as a channel got it. The door gives it its key, kind and principal.
type Incoming struct {
	ID         string // the platform's id of the message: the idempotency key
	Channel    string
	Account    string
	Agent      string // whom the sender means; empty: the agent that answers in the chat
	Chat       string
	Thread     string
	SenderID   string         // immutable id of the sender, empty if the platform did not say
	SenderName string         // display only
	Parts      []corebot.Part `json:"-"` // see [corebot.Content]
	Metadata   corebot.Metadata
	Envelope   corebot.Envelope `json:",omitzero"`

	// EditOf and DeleteOf name an earlier message that this one changes or takes back. The door takes neither yet: it
	// answers [ErrNoEdits], and nothing is stored.
	EditOf   string `json:",omitempty"`
	DeleteOf string `json:",omitempty"`

	// Interactive says that a person wrote the message, at a terminal or in a chat. Only such a message can approve a
	// call: a channel of programs, agents or tasks leaves it false.
	Interactive bool
}

// ErrNoEdits says that a message cannot be changed or taken back once it was sent.
var ErrNoEdits = fmt.Errorf("%w: what was sent cannot be edited or deleted here", corebot.ErrInvalid)

// Text joins the texts of the message with newlines. By it the door tells a chat command from a prompt.
func (in Incoming) Text() string { return corebot.TextOf(in.Parts) }

// validate refuses what no message of a platform can be. The size of it all is the bus's business.
func (in *Incoming) validate() error {
	if in.EditOf != "" || in.DeleteOf != "" {
		return ErrNoEdits
	}
	for _, p := range in.Parts {
		if err := p.Validate(); err != nil {
			return err
		}
	}
	if sent := in.Envelope.SentAt; !sent.IsZero() {
		if sent.Year() < 1970 || sent.Year() > 9999 {
			return fmt.Errorf("%w: it was sent in the year %d", corebot.ErrInvalid, sent.Year())
		}
		in.Envelope.SentAt = sent.Truncate(time.Millisecond).UTC()
	}
	return nil
}

// MarshalJSON writes the parts as [corebot.Content]: the terminal's line of another version of Corebot stays readable.
func (in Incoming) MarshalJSON() ([]byte, error) {
	type plain Incoming
	return json.Marshal(struct {
		plain
		corebot.Content
	}{plain(in), corebot.ContentOf(in.Parts)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (in *Incoming) UnmarshalJSON(data []byte) error {
	type plain Incoming
	var sent struct {
		plain
		corebot.Content
	}
	fields := json.NewDecoder(bytes.NewReader(data))
	fields.DisallowUnknownFields()
	if err := fields.Decode(&sent); err != nil {
		return err
	}
	*in = Incoming(sent.plain)
	in.Parts = sent.All()
	return nil
}
