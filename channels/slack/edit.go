package slack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Edit implements [channels.Editor]. The message keeps the mark that it was sent with. So no edit is taken for a send.
func (c *Channel) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	if err := editable(o.Key, id); err != nil {
		return channels.Receipt{}, err
	}
	document, whole := texts(o)
	for limit := maxText; ; limit /= 2 {
		p := c.piece(o, document, whole, limit)
		if len(p.spans) == 0 {
			return channels.Receipt{}, &corebot.Failure{
				Class: corebot.Permanent, Err: errors.New("nothing is left to show"),
			}
		}
		_, err := c.show(ctx, o, p, p.to == len(whole), id)
		switch {
		case limit > minText && refusedFor(err, "msg_too_long", "msg_blocks_too_long"):
			continue
		case refusedFor(err, notFound):
			return channels.Receipt{}, fmt.Errorf("%w: %w", channels.ErrGone, err)
		case err != nil:
			return channels.Receipt{}, err
		}
		return p.receipt(o, id), nil
	}
}

// notFound is the refusal of a request about a message that is not there any more.
const notFound = "message_not_found"

// editable refuses what cannot be a message of Slack.
func editable(k corebot.Key, id string) error {
	err := addressed(k)
	if err == nil && !isStamp(id) {
		err = fmt.Errorf("%w: %q is no message of Slack", corebot.ErrInvalid, id)
	}
	if err != nil {
		return &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	return nil
}

// Erase implements [channels.Editor].
func (c *Channel) Erase(ctx context.Context, k corebot.Key, id string) error {
	if err := editable(k, id); err != nil {
		return err
	}
	err := c.bot.call(ctx, "chat.delete", args{"channel": k.Chat, "ts": id}, nil)
	if refusedFor(err, notFound) {
		return nil
	}
	return err
}

// DraftEvery implements [channels.Editor].
func (c *Channel) DraftEvery(corebot.Key) time.Duration { return c.stream }

// EditsApart implements [channels.EditsTogether]: Slack counts the edits of an app in a workspace.
func (c *Channel) EditsApart() time.Duration { return c.stream }
