package webhook

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/signedpost"
)

// callback pushes replies to an address of the operator's.
type callback struct{ target *signedpost.Target }

// newCallback is nil for no address.
func newCallback(address, secret string) (*callback, error) {
	if address == "" && secret == "" {
		return nil, nil
	}
	key, err := signedpost.ParseKey("webhook.callback_secret", secret)
	if err != nil {
		return nil, err
	}
	target, err := signedpost.NewTarget("push the reply to the callback", address, key.Sign)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("webhook.callback_url: %w", err),
			"webhook.callback_url must be an http or https address, and stands together with webhook.callback_secret")
	}
	return &callback{target}, nil
}

// pushed is the body of a push.
type pushed struct {
	ID        string       `json:"id"`
	ChatID    string       `json:"chatId"`
	InReplyTo string       `json:"inReplyTo"`
	Content   string       `json:"content"`
	CreatedAt string       `json:"createdAt"`
	Kind      corebot.Kind `json:"kind"`
	beside
}

// push returns when the other side has the reply. It may get one twice, under one webhook-id. The error is a
// [*corebot.Failure].
func (c *callback) push(ctx context.Context, m channels.Outbound, files []sentFile) error {
	return c.target.Post(ctx, m.IdempotencyKey, encode(pushed{
		m.IdempotencyKey, m.Key.Chat, m.InReplyTo, m.Text(), timestamp(m.CreatedAt), m.Kind,
		besideText(files, m.Notice),
	}))
}
