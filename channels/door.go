package channels

import (
	"context"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
)

// Publisher is what the door needs of the bus.
type Publisher interface {
	Publish(ctx context.Context, m corebot.Message) (corebot.Receipt, error)
}

// Controller accepts messages that act at once, and ends the turn that a prompt has stopped.
type Controller interface {
	Control(ctx context.Context, m corebot.Message) (corebot.Receipt, error)
	Interrupt(life int64)
}

// Audience says who may talk on a channel: everyone ("*"), or the senders that are named. An empty one means nobody.
type Audience []string

func (a Audience) admits(sender string) bool {
	return slices.Contains(a, "*") || sender != "" && slices.Contains(a, sender)
}

// FrontDoor is the one [Door].
type FrontDoor struct {
	bus      Publisher
	control  Controller
	agent    string
	audience map[string]Audience
	episodes episodes
}

// NewFrontDoor makes the door of an agent. A channel without an audience admits nobody.
func NewFrontDoor(b Publisher, c Controller, agent string, audience map[string]Audience) *FrontDoor {
	return &FrontDoor{bus: b, control: c, agent: agent, audience: audience}
}

// ErrNotAdmitted says that a sender may not talk on a channel. Nothing was stored.
var ErrNotAdmitted = fmt.Errorf("%w: this sender may not talk here", corebot.ErrInvalid)

// Accept implements [Door].
func (d *FrontDoor) Accept(ctx context.Context, in Incoming) (Accepted, error) {
	if !d.audience[in.Channel].admits(in.SenderID) {
		return Accepted{}, fmt.Errorf("%w (channel %s)", ErrNotAdmitted, in.Channel)
	}
	m := corebot.Message{
		ID: in.ID, Direction: corebot.Inbound, Kind: corebot.KindPrompt,
		Key:        corebot.Key{Agent: d.agent, Channel: in.Channel, Account: in.Account, Chat: in.Chat, Thread: in.Thread},
		Sender:     corebot.Principal{Channel: in.Channel, Account: in.Account, ID: in.SenderID},
		SenderName: in.SenderName, Parts: corebot.TextPart(in.Text), Metadata: in.Metadata,
	}
	if _, kind, ok := corebot.ParseCommand(in.Text); ok {
		m.Kind = kind
	}
	accept := d.bus.Publish
	if m.Kind == corebot.KindControl {
		m.Direction = corebot.Control
		accept = d.control.Control
	}
	r, err := accept(ctx, m)
	if err == nil && r.Stops != 0 {
		d.control.Interrupt(r.Stops) // stored already: a crash here only means that the turn is ended by its next claim
	}
	return Accepted{ID: in.ID, Duplicate: r.Duplicate}, d.episodes.busy(m.Key, err)
}
