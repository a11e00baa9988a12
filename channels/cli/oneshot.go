package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// OneShot is the terminal channel for a single message, as `corebot send` needs it: it hands the message to the door and, if
// it is to wait, blocks until the answer has come.
type OneShot struct {
	in      channels.Incoming
	show    Show
	replies writes
	printed recent // replies that were shown; belongs to the write under way
	answer  sync.Once
	shown   chan struct{} // closed when the answer was and Send has said so: Run may end, and nobody shows it again
}

// Show prints a message. own says whether it is the answer to the one that was sent; replies leave in order, so those to earlier
// messages of the chat come first.
type Show func(m corebot.Message, own bool) error

var _ channels.Channel = (*OneShot)(nil)

// NewOneShot makes the channel of one message, whose channel is set. show prints what comes until the answer has come; without
// it nothing is waited for.
func NewOneShot(in channels.Incoming, show Show) *OneShot {
	in.Channel = channelName
	return &OneShot{in: in, show: show, shown: make(chan struct{})}
}

// Name is "cli".
func (o *OneShot) Name() string { return channelName }

// Run hands the message over and waits for its answer, if it is to. What the door refuses is final; so is an answer that did
// not come before ctx ended.
func (o *OneShot) Run(ctx context.Context, door channels.Door) error {
	accepted, err := door.Accept(ctx, o.in)
	switch {
	case err != nil:
		return &channels.Final{Err: err}
	case o.show == nil:
		return nil
	case accepted.Duplicate:
		hint := "`corebot why " + o.in.ID + "` tells what became of it"
		return &channels.Final{Err: corebot.WithHint(fmt.Errorf("message %s was accepted before", o.in.ID), hint)}
	}
	select {
	case <-o.shown:
	case <-ctx.Done():
	}
	return nil
}

// Answered says whether the answer was shown.
func (o *OneShot) Answered() bool {
	select {
	case <-o.shown:
		return true
	default:
		return false
	}
}

// Send shows the replies of the chat up to the answer that Run waits for: a reply counts as sent only when it is on the screen.
// Everything else stays in the queue, for a terminal that is open. When ctx ends before show returns, so does Send; sent again,
// the reply is not shown twice.
func (o *OneShot) Send(ctx context.Context, m corebot.Message) error {
	if o.show == nil || m.Key.Chat != o.in.Chat {
		return notHere(m)
	}
	if err := o.replies.do(ctx, m.ID, func() error { return o.print(m) }); err != nil {
		return err
	}
	if o.own(m) {
		o.answer.Do(func() { close(o.shown) })
	}
	return nil
}

func (o *OneShot) own(m corebot.Message) bool { return slices.Contains(m.Answers(), o.in.ID) }

// print runs for one message at a time.
func (o *OneShot) print(m corebot.Message) error {
	switch {
	case o.printed.has(m.ID):
		return nil
	case o.Answered():
		return notHere(m)
	}
	if err := o.show(m, o.own(m)); err != nil {
		return fmt.Errorf("print the reply: %w", err)
	}
	o.printed.add(m.ID)
	return nil
}
