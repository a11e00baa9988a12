package trace

import (
	"time"

	"github.com/corebot/corebot"
)

// Names of attributes. Those without "corebot." are semantic conventions of OpenTelemetry.
const (
	messageID    = "messaging.message.id"
	conversation = "messaging.message.conversation_id"
)

// Publish begins the span in which a message is stored, and makes it the cause of the message.
func (t *Tracer) Publish(m *corebot.Message) *Span {
	if t == nil {
		return nil
	}
	s := t.Begin(m.Trace, Producer, "publish", m.Direction.String(), time.Now())
	s.about("publish", "send", *m)
	m.Trace = s.At()
	return s
}

// Claim records how long a delivery waited for its claim. A later attempt shows only the moment of its claim, since
// spans of earlier attempts lie before. A message that came without a trace begins one here.
func (t *Tracer) Claim(d *corebot.Delivery) {
	if t == nil {
		return
	}
	began := d.PublishedAt
	if d.Attempt > 1 || d.Lost > 0 || d.Limited > 0 || d.Run > 1 || len(d.Journal) > 0 {
		began = d.ClaimedAt
	}
	s := t.Begin(d.Message.Trace, Consumer, "claim", d.Message.Direction.String(), began)
	s.about("claim", "receive", d.Message)
	s.attempt(*d)
	s.EndAt(d.ClaimedAt)
	if d.Message.Trace.IsZero() {
		d.Message.Trace = s.At()
	}
}

// Work begins the span of what is done for a delivery: a turn, or a send.
func (t *Tracer) Work(k Kind, name string, d corebot.Delivery) *Span {
	if t == nil {
		return nil
	}
	s := t.Begin(d.Message.Trace, k, name, d.Message.Direction.String(), time.Now())
	s.about(name, "process", d.Message)
	s.attempt(d)
	return s
}

// about says which message a span is about.
func (s *Span) about(operation, kind string, m corebot.Message) {
	if !s.Recorded() {
		return
	}
	s.Text("messaging.system", "corebot")
	s.Text("messaging.operation.name", operation)
	s.Text("messaging.operation.type", kind)
	s.Text("messaging.destination.name", m.Direction.String())
	s.Text(messageID, m.ID)
	s.Text(conversation, m.Key.String())
	s.Text("corebot.channel", m.Key.Channel)
	s.Text("gen_ai.agent.id", m.Key.Agent)
}

func (s *Span) attempt(d corebot.Delivery) {
	s.Number("corebot.run", int64(d.Run))
	s.Number("corebot.attempt", int64(d.Attempt))
}
