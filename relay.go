package corebot

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// AgentChannel is the channel of conversations between agents. No network is behind it: nobody but an agent writes
// there.
const AgentChannel = "agent"

// MaxHops is how many messages agents can send one another in a row, counted from the message of a person. An answer
// counts, and is sent all the same: what it leads to can ask nobody any more.
const MaxHops = 4

// ErrTooManyHops refuses a question that would be one message more than [MaxHops].
var ErrTooManyHops = fmt.Errorf("%w: agents can send one another %d messages in a row", ErrInvalid, MaxHops)

// ErrAsksItself refuses a question of an agent to itself.
var ErrAsksItself = fmt.Errorf("%w: an agent cannot ask itself", ErrInvalid)

// Relay is what a message between agents carries beside its text. It is stored with the message, so that a replay, an
// edit and a restart keep it. No sender can write one.
type Relay struct {
	Agent  string `json:"agent"`            // who wrote the message
	Answer bool   `json:"answer,omitempty"` // it answers a question of the agent that gets it
	Hops   int    `json:"hops"`             // messages between agents in a row, this one included
	// Back is the way back to the conversation with whoever began: the turn's answer goes to the last of them. It is
	// empty for an answer that has come there.
	Back   []Key       `json:"back,omitempty"`
	Taint  string      `json:"taint,omitempty"`  // [Caller.Taint] of the turn that wrote it
	Others []Principal `json:"others,omitempty"` // [Caller.Others] of that turn
}

// origin is the conversation with whoever began; zero: the one that has the message.
func (r *Relay) origin() (k Key) {
	if len(r.Back) > 0 {
		k = r.Back[0]
	}
	return k
}

// relayed is the kind of the ids of messages between agents: see [OwnID].
const relayed = "agent"

// Question is a message of the delivery's turn to another agent, from the step at a position. It speaks for the caller,
// with his role of each moment, and has the taint of the turn.
func (d Delivery) Question(position int, c Caller, agent, text string) (Message, error) {
	r := Relay{Agent: c.Key.Agent, Hops: 1, Taint: c.Taint, Others: slices.Clone(c.Others)}
	if was := d.Message.Relay; was != nil {
		r.Hops, r.Back = was.Hops+1, slices.Clone(was.Back)
	}
	r.Back = append(r.Back, c.Key)
	switch {
	case agent == c.Key.Agent:
		return Message{}, ErrAsksItself
	case r.Hops > MaxHops:
		return Message{}, WithHint(ErrTooManyHops, "answer with what you have")
	}
	k := Key{Agent: agent, Channel: AgentChannel, Chat: agentChat(c.Key)}
	return r.message(OwnID(relayed, d.Life, d.Run, position), k, c.Principal, text), nil
}

// Answer is the answer of the delivery's turn to the agent that asked. ok is false for a turn that no agent waits for.
func (d Delivery) Answer(c Caller, text string) (m Message, ok bool) {
	was := d.Message.Relay
	if was == nil || len(was.Back) == 0 {
		return m, false
	}
	last := len(was.Back) - 1
	r := Relay{
		Agent: c.Key.Agent, Answer: true, Hops: was.Hops + 1, Back: slices.Clone(was.Back[:last]),
		Taint: c.Taint, Others: slices.Clone(c.Others),
	}
	return r.message(OwnID(relayed, d.Life, d.Run, "answer"), was.Back[last], c.Principal, text), true
}

func (r Relay) message(id string, to Key, by Principal, text string) Message {
	return Message{
		ID: id, Direction: Inbound, Key: to, Kind: KindPrompt, Sender: by, SenderName: "agent " + r.Agent,
		Parts: TextPart(text), Relay: &r,
	}
}

// agentChat names the conversation that another agent has with the agent of a conversation: the same one for all that
// is asked from there.
func agentChat(k Key) string {
	name := k.String()
	if len(name) > MaxKeyField {
		name = fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(name)))
	}
	return name
}

// relayName is the name under which a relay is stored beside the metadata of its message. It is not UTF-8: no metadata
// of a sender has it.
const relayName = "\xferelay"

// stored is the metadata of a message with its relay and its errand.
func (m Message) stored() Metadata {
	if m.Relay == nil && m.Errand == nil {
		return m.Metadata
	}
	all := make(Metadata, len(m.Metadata)+2)
	for name, value := range m.Metadata {
		all[name] = value
	}
	if m.Relay != nil {
		relay, _ := json.Marshal(m.Relay) // strings and numbers: cannot fail
		all[relayName] = textValue(string(relay))
	}
	if m.Errand != nil {
		errand, _ := json.Marshal(m.Errand) // a year that JSON can write: see Schedule
		all[errandName] = textValue(string(errand))
	}
	return all
}

var errRelay = errors.New("what it carries from agent to agent cannot be read")

// readRelay takes the relay out of the metadata that was stored.
func (m *Message) readRelay() error {
	text, ok := m.Metadata.Text(relayName)
	if !ok {
		return nil
	}
	if delete(m.Metadata, relayName); len(m.Metadata) == 0 {
		m.Metadata = nil
	}
	m.Relay = new(Relay)
	if err := json.Unmarshal([]byte(text), m.Relay); err != nil || len(m.Relay.Back) > MaxHops {
		return fmt.Errorf("%w: %w", errBody, errRelay)
	}
	return nil
}
