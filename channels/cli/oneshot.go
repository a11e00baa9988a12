package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// OneShot is the terminal channel for a single message, for `corebot send --wait`. It hands the message to the door and
// blocks until the message has ended.
//
// The text of a notice does not say whether the message has ended. A request for an approval comes while the message
// waits; the notice of a dead letter comes after the end. So OneShot asks what became of the message.
type OneShot struct {
	in      channels.Incoming
	opts    OneShotOptions
	replies writes
	printed recent // replies that were shown; belongs to the write under way

	accepted atomic.Bool

	mu    sync.Mutex
	end   corebot.End // of the message, once that was shown
	over  sync.Once
	ended chan struct{} // closed when the end was shown and Send has said so: Run may end, and nobody shows it again
}

// OneShotOptions are how a [OneShot] shows what comes, and how it learns what became of its message.
type OneShotOptions struct {
	Show Show
	Life func(ctx context.Context) (corebot.Life, error) // of the message
	// how long Run waits once the message is accepted; 0: until the message has ended
	Wait time.Duration
}

// ErrNoReply is what Run gives when the message has not ended in time.
var ErrNoReply = errors.New("no reply came in time")

// Show prints a message of the chat. Replies leave in order, so answers to earlier messages come first.
type Show func(m channels.Outbound, as ShowAs) error

// ShowAs says what an outbound message is to the message that was sent.
type ShowAs struct {
	Own bool        // it answers the message, or is about it
	End corebot.End // of the message, where this tells it; empty: the message goes on
}

var _ Terminal = (*OneShot)(nil)

// NewOneShot makes the channel of one message, whose channel is set.
func NewOneShot(in channels.Incoming, o OneShotOptions) *OneShot {
	in.Channel = Channel
	return &OneShot{in: in, opts: o, ended: make(chan struct{})}
}

// checkEvery is how often Run looks whether the message has ended without a word to this terminal.
const checkEvery = 10 * time.Second

// Run hands the message over and waits until it has ended, or until ctx has. A refusal of the door is final.
func (o *OneShot) Run(ctx context.Context, door channels.Accepter) error {
	accepted, err := door.Accept(ctx, o.in)
	switch {
	case err != nil:
		return &channels.Final{Err: err}
	case accepted.Duplicate:
		hint := "`corebot why " + o.in.ID + "` tells what became of it"
		return &channels.Final{Err: corebot.WithHint(fmt.Errorf("message %s was accepted before", o.in.ID), hint)}
	}
	o.accepted.Store(true)
	look := time.NewTicker(checkEvery)
	defer look.Stop()
	var late <-chan time.Time
	if o.opts.Wait > 0 {
		late = time.After(o.opts.Wait)
	}
	for {
		select {
		case <-late:
			return &channels.Final{Err: ErrNoReply}
		case <-o.ended:
			return nil
		case <-ctx.Done():
			return nil
		case <-look.C:
			if err := o.check(ctx); err != nil {
				return &channels.Final{Err: err}
			}
		}
	}
}

// Accepted says whether the message is on disk.
func (o *OneShot) Accepted() bool { return o.accepted.Load() }

// check says when nothing more will come: the message has ended, and so has all that was said about it.
func (o *OneShot) check(ctx context.Context) error {
	life, err := o.opts.Life(ctx)
	if err != nil || life.End == "" || life.End == corebot.EndMerged || o.End() != "" {
		return nil // what cannot be read now is read the next time; a merged message is answered with another
	}
	if slices.ContainsFunc(life.Replies, func(r corebot.Life) bool { // the control socket carries no directions
		return (r.Kind == corebot.KindReply || r.Kind == corebot.KindNotice) && r.End == ""
	}) {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("message %s has ended (%s), and its answer was not shown here", o.in.ID,
		life.End),
		"`corebot why "+o.in.ID+"` tells what became of it")
}

// End says how the message has ended, once that was shown.
func (o *OneShot) End() corebot.End {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end
}

// Attended says that a person opens and closes its chats.
func (*OneShot) Attended() {}

// Send shows what the chat is told up to the end that Run waits for: a message counts as sent only when it is on the
// screen. Later messages stay in the queue, for a terminal that is open. When ctx ends before Show returns, so does
// Send; sent again, the message is not shown twice.
func (o *OneShot) Send(ctx context.Context, m channels.Outbound) (channels.Receipt, error) {
	if m.Key.Chat != o.in.Chat {
		return channels.Receipt{}, notHere(m)
	}
	if err := o.replies.do(ctx, m.ID, func() error { return o.print(ctx, m) }); err != nil {
		return channels.Receipt{}, err
	}
	if o.End() != "" && slices.Contains(m.Answers(), o.in.ID) {
		o.over.Do(func() { close(o.ended) })
	}
	return channels.Receipt{}, nil
}

// print runs for one message at a time.
func (o *OneShot) print(ctx context.Context, m channels.Outbound) error {
	switch {
	case o.printed.has(m.ID):
		return nil
	case o.End() != "":
		return notHere(m)
	}
	as, err := o.meaning(ctx, m)
	if err != nil {
		return err
	}
	if err := o.opts.Show(m, as); err != nil {
		return fmt.Errorf("print the reply: %w", err)
	}
	o.printed.add(m.ID)
	o.mu.Lock()
	o.end = as.End
	o.mu.Unlock()
	return nil
}

// meaning says what m is to the message that was sent. A reply is its answer. A notice tells its end if it has ended
// and the notice was the last that was said about it.
func (o *OneShot) meaning(ctx context.Context, m channels.Outbound) (as ShowAs, err error) {
	if as.Own = slices.Contains(m.Answers(), o.in.ID); !as.Own {
		return as, nil
	}
	if m.Kind == corebot.KindReply {
		as.End = corebot.EndAnswered
		return as, nil
	}
	life, err := o.opts.Life(ctx)
	if err != nil {
		return as, fmt.Errorf("ask what became of message %s: %w", o.in.ID, err)
	}
	if last := len(life.Replies) - 1; last >= 0 && life.Replies[last].MessageID == m.ID {
		as.End = life.End
	}
	if as.End == corebot.EndMerged { // its answer is that of another message
		as.End = ""
	}
	return as, nil
}
