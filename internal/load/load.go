// Package load plays many callers of the webhook at once and checks the webhook's promises:
//
//   - Every post is acknowledged, and copies of a message change nothing.
//   - Each message gets one reply, and the replies of a chat come in the order of its messages.
//   - A cursor leads past each reply once.
//
// A run goes on while Corebot is killed and started again at the same address. It cannot see a second reply that comes
// after the run, or what became of the messages inside: `corebot why` and `corebot dlq list` tell that.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pollTime is how long one request waits for replies.
const pollTime = 5 * time.Second

// Options of a run. All numbers are at least 1.
type Options struct {
	Messages int           // in all chats together
	Chats    int           // at once; not more than Messages
	Copies   int           // of each message, posted at the same time
	Pause    time.Duration // of a chat after each message, so that a run lasts; zero: none
	Prefix   string        // of every id and chat; runs on one home need different ones
	// Content, if set, is what a message says, by its id; "hello" otherwise.
	Content func(id string) string
	// Accepted, if set, is told how many messages are acknowledged so far, after each. It is called from many
	// goroutines.
	Accepted func(messages int)
}

// Report counts what happened.
type Report struct {
	Messages   int     `json:"messages"`
	Chats      int     `json:"chats"`
	Posts      int     `json:"posts"`      // acknowledged, copies included
	Duplicates int     `json:"duplicates"` // those of them that the webhook had already
	Retries    int     `json:"retries"`    // posts tried again after a broken connection or a 5xx
	Replies    int     `json:"replies"`
	Seconds    float64 `json:"seconds"`   // from the first post to the last reply
	PerSecond  float64 `json:"perSecond"` // messages answered
}

// Run posts the messages, each chat's one after the other and all chats at once. It follows the replies until there is
// one for each message, or the context ends. The error joins the faults of every chat; the report is true in either
// case.
func Run(ctx context.Context, c *Client, o Options) (Report, error) {
	if o.Chats < 1 || o.Copies < 1 || o.Messages < o.Chats {
		return Report{}, fmt.Errorf("%d messages in %d chats, %d copies each: want at least one of each, and a "+
			"message for every chat", o.Messages, o.Chats, o.Copies)
	}
	if o.Content == nil {
		o.Content = func(string) string { return "hello" }
	}
	r := &run{client: c, opts: o}
	chats := make([]*chat, o.Chats)
	for i := range chats {
		chats[i] = &chat{run: r, id: fmt.Sprintf("%schat-%d", o.Prefix, i), messages: o.Messages / o.Chats}
		if i < o.Messages%o.Chats {
			chats[i].messages++
		}
	}
	began := time.Now()
	err := together(chats, func(c *chat) error { return c.converse(ctx) })
	took := time.Since(began).Seconds()
	if err == nil {
		err = together(chats, func(c *chat) error { return c.readAgain(ctx) })
	}
	report := Report{
		Messages: o.Messages, Chats: o.Chats, Posts: int(r.posts.Load()), Duplicates: int(r.duplicates.Load()),
		Retries: int(r.retries.Load()), Seconds: took,
	}
	for _, c := range chats {
		report.Replies += len(c.replies)
	}
	report.PerSecond = float64(report.Replies) / took
	return report, err
}

// together does something for all chats at once, and joins what went wrong.
func together(chats []*chat, do func(*chat) error) error {
	errs := make([]error, len(chats))
	var all sync.WaitGroup
	for i, c := range chats {
		all.Go(func() { errs[i] = do(c) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// run is what the chats share.
type run struct {
	client                               *Client
	opts                                 Options
	posts, duplicates, retries, accepted atomic.Int64
}

// chat is one conversation: a caller that posts, and reads what comes back.
type chat struct {
	*run
	id       string
	messages int
	replies  []Reply
}

func (c *chat) messageID(n int) string { return fmt.Sprintf("%s-message-%d", c.id, n) }

// converse posts the messages in their order and follows the replies to the last.
func (c *chat) converse(ctx context.Context) error {
	for n := range c.messages {
		if err := c.post(ctx, c.messageID(n)); err != nil {
			return err
		}
		select {
		case <-time.After(c.opts.Pause):
		case <-ctx.Done():
			return fmt.Errorf("%s: %d of %d messages are posted: %w", c.id, n+1, c.messages, context.Cause(ctx))
		}
	}
	for after := ""; len(c.replies) < c.messages; {
		page, next, err := c.client.Replies(ctx, c.id, after, pollTime)
		if err != nil {
			return fmt.Errorf("%d of %d messages are answered: %w", len(c.replies), c.messages, err)
		}
		if err := c.take(page); err != nil {
			return err
		}
		after = next
	}
	return nil
}

// post sends all copies of a message at once. The next message is posted when all are acknowledged, so that the order
// is settled.
func (c *chat) post(ctx context.Context, id string) error {
	receipts, errs := make([]Receipt, c.opts.Copies), make([]error, c.opts.Copies)
	var all sync.WaitGroup
	for i := range receipts {
		all.Go(func() {
			receipts[i], errs[i] = c.client.Post(ctx, Message{
				ID: id, ChatID: c.id, Sender: c.id,
				Content: c.opts.Content(id),
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fresh, retries := 0, 0
	for _, r := range receipts {
		retries += r.Tries - 1
		if !r.Duplicate {
			fresh++
		}
	}
	// The acknowledgement of the one that was new may have been lost with its connection, but nothing makes a message
	// new twice.
	if fresh > 1 || fresh == 0 && retries == 0 {
		return fmt.Errorf("%s: %d of %d copies were acknowledged as new, with %d retries", id, fresh, len(receipts),
			retries)
	}
	c.posts.Add(int64(len(receipts)))
	c.duplicates.Add(int64(len(receipts) - fresh))
	c.retries.Add(int64(retries))
	if n := c.accepted.Add(1); c.opts.Accepted != nil {
		c.opts.Accepted(int(n))
	}
	return nil
}

// take checks that each reply answers the message whose turn it is. A reply that is missing, doubled or out of order
// does not.
func (c *chat) take(page []Reply) error {
	for _, r := range page {
		if len(c.replies) == c.messages {
			return fmt.Errorf("%s: all messages are answered, and then comes %+v", c.id, r)
		}
		if want := c.messageID(len(c.replies)); r.InReplyTo != want || r.Content == "" {
			return fmt.Errorf("%s: the next reply should be to %s, and is %+v", c.id, want, r)
		}
		c.replies = append(c.replies, r)
	}
	return nil
}

// readAgain reads the replies from the first once more: the same come, and no other.
func (c *chat) readAgain(ctx context.Context) error {
	var again []Reply
	for after := ""; len(again) <= c.messages; {
		page, next, err := c.client.Replies(ctx, c.id, after, 0)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		again, after = append(again, page...), next
	}
	if !slices.Equal(again, c.replies) {
		return fmt.Errorf("%s: read again, the %d replies are %d others:\n%+v\n%+v", c.id, len(c.replies), len(again),
			c.replies, again)
	}
	return nil
}
