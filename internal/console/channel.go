package console

import (
	"context"
	"fmt"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Kind describes the console as a channel.
func Kind() channels.Kind {
	return channels.Kind{
		Name: corebot.ConsoleChannel, Account: corebot.TerminalAccount, Daemon: true, Owner: true, People: true,
		AnyAgent: true,
	}
}

// Channel is the console as a channel. Answers in its chats go into the mailbox, and the pages read them there.
type Channel struct {
	replies  *channels.Replies
	entrance *channels.Entrance

	mu   sync.Mutex
	done chan struct{} // closed when Run ends
	// logins is closed, and made anew, when a session may have ended
	logins chan struct{}
}

var (
	_ channels.Channel = (*Channel)(nil)
	_ channels.Pulled  = (*Channel)(nil)
)

// NewChannel makes the channel on a mailbox.
func NewChannel(box channels.Mailbox) *Channel {
	return &Channel{
		replies: channels.NewReplies(box), entrance: channels.NewEntrance(), done: make(chan struct{}),
		logins: make(chan struct{}),
	}
}

// Run implements [channels.Channel]. It blocks until ctx ends.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	c.mu.Lock()
	c.done = make(chan struct{})
	done := c.done
	c.mu.Unlock()
	defer c.entrance.Open(door)()
	<-ctx.Done()
	close(done)
	return nil
}

// errStarting is [corebot.ErrClosed] in the words of a page.
var errStarting = corebot.WithHint(fmt.Errorf("the console is not ready: %w", corebot.ErrClosed), "send it again")

// running is what ends with the console.
func (c *Channel) running() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// LoggedOut has every open page look at once whether its session is still in force.
func (c *Channel) LoggedOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.logins)
	c.logins = make(chan struct{})
}

// loggedOut is closed when a session may have ended.
func (c *Channel) loggedOut() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logins
}

// Send implements [channels.Channel], for what waited before the mailbox took it.
func (c *Channel) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	return channels.Receipt{}, c.replies.Send(ctx, o)
}

// Pulled implements [channels.Pulled].
func (c *Channel) Pulled() bool { return true }

// Posted implements [channels.Pulled].
func (c *Channel) Posted(k corebot.Key) { c.replies.Posted(k) }

// IdempotentSend implements [channels.Idempotent]: the mailbox knows a message by its id.
func (c *Channel) IdempotentSend() {}
