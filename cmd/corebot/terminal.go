package main

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// notOpenPause is when a reply of a chat that no terminal has open is looked at again.
const notOpenPause = 5 * time.Second

// terminal is a channel on this process's terminal, with one chat open. The replies of other chats stay in the queue until a
// terminal opens theirs: nothing has failed, so it is not counted as an attempt.
type terminal struct {
	channels.Channel
	chat string
	err  error // of Run, once it has ended
}

// Run runs the channel once, since input that has ended does not come back, and keeps its error for the command: whoever sits
// here reads it once and without the names of services.
func (t *terminal) Run(ctx context.Context, door channels.Door) error {
	t.err = t.Channel.Run(ctx, door)
	return nil
}

// Send shows the replies of the open chat.
func (t *terminal) Send(ctx context.Context, m corebot.Message) error {
	if m.Key.Chat != t.chat {
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: notOpenPause, Err: fmt.Errorf("no terminal has chat %s open", m.Key.Chat)}
	}
	return t.Channel.Send(ctx, m)
}

// asker is the terminal of one question. Replies leave in order, so those to earlier messages of the chat come first: they
// are shown too, apart from the answer.
type asker struct {
	*terminal
	id      string // of the question
	earlier func(corebot.Message) error
}

// Send shows a reply of the open chat, as the answer or as an earlier one.
func (a *asker) Send(ctx context.Context, m corebot.Message) error {
	if m.Key.Chat == a.chat && m.InReplyTo != a.id {
		return a.earlier(m)
	}
	return a.terminal.Send(ctx, m)
}
