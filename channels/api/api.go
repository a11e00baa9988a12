// Package api is the channel of programs that send messages over the HTTP API. Package internal/httpapi speaks HTTP to
// them; the channel is what Corebot knows of them.
//
// It promises:
//
//   - A message that was accepted is on disk (G1). Its id makes it safe to send again.
//   - A message comes from the principal of its token, and never from a person: no message can approve a call.
//   - Replies are kept. They lie in the mailbox for its retention time, and reading takes nothing away.
package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Kind describes the channel. Each token says in which chats it may talk, and a caller names the agent.
func Kind() channels.Kind {
	return channels.Kind{Name: corebot.APIChannel, Daemon: true, AnyAgent: true}
}

// Mailbox keeps replies. Answers gives those behind a cursor that answer one message, oldest first.
type Mailbox interface {
	channels.Mailbox
	Answers(ctx context.Context, k corebot.Key, id string, cursor int64, limit int) ([]corebot.Posted, error)
}

// Channel is the channel of programs. It is safe for use by several goroutines.
type Channel struct {
	box      Mailbox
	replies  *channels.Replies
	posted   func(corebot.Key)
	entrance *channels.Entrance
}

var (
	_ channels.Channel    = (*Channel)(nil)
	_ channels.Idempotent = (*Channel)(nil)
	_ channels.Pulled     = (*Channel)(nil)
	_ channels.Files      = (*Channel)(nil)
)

// New makes the channel. posted is told of each conversation that got a reply; it must not block.
func New(box Mailbox, posted func(corebot.Key)) *Channel {
	return &Channel{box: box, replies: channels.NewReplies(box), posted: posted, entrance: channels.NewEntrance()}
}

// Run lets programs send until ctx ends.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	defer c.entrance.Open(door)()
	<-ctx.Done()
	return nil
}

// errAway is [corebot.ErrClosed] in the words of a caller.
var errAway = fmt.Errorf("the channel of the API is starting or stopping: %w", corebot.ErrClosed)

// Say hands a message to the front door. files are the bytes of those parts that are no text, in their order. A
// duplicate was accepted before, and nothing has changed.
func (c *Channel) Say(ctx context.Context, k corebot.Key, id, sender string, parts []corebot.Part, files [][]byte,
) (duplicate bool, err error) {
	door, err := c.entrance.Door(ctx)
	if err != nil {
		return false, errAway
	}
	var attached []channels.Attached
	for i, data := range files {
		attached = append(attached, channels.Attached{Part: i, Data: data})
	}
	// A caller that has sent its whole message may hang up, and have it stored all the same.
	got, err := door.Accept(context.WithoutCancel(ctx), channels.Incoming{
		ID: id, Channel: k.Channel, Account: k.Account, Agent: k.Agent, Chat: k.Chat, SenderID: sender,
		SenderName: sender, Parts: parts, Files: attached,
	})
	if errors.Is(err, channels.ErrNotAdmitted) {
		err = corebot.WithHint(&corebot.Denied{Reason: err.Error()}, corebot.HintOf(err))
	}
	return got.Duplicate, err
}

// Send puts a reply into the mailbox and wakes who waits for it.
func (c *Channel) Send(ctx context.Context, m channels.Outbound) (channels.Receipt, error) {
	err := c.replies.Send(ctx, m)
	if err == nil {
		c.posted(m.Key)
	}
	return channels.Receipt{}, err
}

// Pulled implements [channels.Pulled]: programs fetch all that is said to them.
func (c *Channel) Pulled() bool { return true }

// Posted implements [channels.Pulled].
func (c *Channel) Posted(k corebot.Key) {
	c.replies.Posted(k)
	c.posted(k)
}

// IdempotentSend implements [channels.Idempotent]: the mailbox knows a reply by its id.
func (c *Channel) IdempotentSend() {}

// ShowsFiles implements [channels.Files]: a reply names its attachments.
func (c *Channel) ShowsFiles() {}

// Watch gives a channel that something can be received from once there may be more replies in a conversation.
func (c *Channel) Watch(k corebot.Key) (wake <-chan struct{}, stop func()) { return c.replies.Watch(k) }

// Last is the newest cursor of a conversation, or zero.
func (c *Channel) Last(ctx context.Context, k corebot.Key) (int64, error) { return c.box.Last(ctx, k) }

// Answers gives the replies to one message behind a cursor, oldest first.
func (c *Channel) Answers(ctx context.Context, k corebot.Key, id string, after int64, limit int,
) ([]corebot.Posted, error) {
	return c.box.Answers(ctx, k, id, after, limit)
}
