package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// OneShot is the terminal channel for a single message, as `corebot send` needs it: it hands the message to the door and, if
// it is to wait, blocks until the answer has come.
type OneShot struct {
	in     channels.Incoming
	wait   bool
	answer chan corebot.Message
	once   sync.Once
}

var _ channels.Channel = (*OneShot)(nil)

// NewOneShot makes the channel of one message. The message's channel is set.
func NewOneShot(in channels.Incoming, wait bool) *OneShot {
	in.Channel = channelName
	return &OneShot{in: in, wait: wait, answer: make(chan corebot.Message, 1)}
}

// Name is "cli".
func (o *OneShot) Name() string { return channelName }

// Run hands the message over and waits for its answer, if it is to. What the door refuses is final.
func (o *OneShot) Run(ctx context.Context, door channels.Door) error {
	accepted, err := door.Accept(ctx, o.in)
	if err != nil {
		return &channels.Final{Err: err}
	}
	if !o.wait {
		return nil
	}
	if accepted.Duplicate {
		return &channels.Final{Err: corebot.WithHint(fmt.Errorf("message %s was accepted before", o.in.ID), "`corebot why "+o.in.ID+"` tells what became of it")}
	}
	select {
	case m := <-o.answer:
		o.answer <- m
	case <-ctx.Done():
	}
	return nil
}

// Answer is what came back; ok is false if nothing did.
func (o *OneShot) Answer() (m corebot.Message, ok bool) {
	select {
	case m := <-o.answer:
		return m, true
	default:
		return m, false
	}
}

// Send takes the answer that Run waits for. Everything else stays in the queue, for a terminal that is open.
func (o *OneShot) Send(_ context.Context, m corebot.Message) error {
	took := false
	if o.wait && m.InReplyTo == o.in.ID {
		o.once.Do(func() { o.answer <- m; took = true })
	}
	if !took {
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: time.Minute, Err: fmt.Errorf("no terminal is open for chat %s", m.Key.Chat)}
	}
	return nil
}
