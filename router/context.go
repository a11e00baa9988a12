package router

import (
	"context"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

// Contexts says what the next request to the model would carry if a principal wrote in a chat.
type Contexts interface {
	Context(ctx context.Context, k corebot.Key, p corebot.Principal) (corebot.ContextUse, error)
}

// contextUse answers a /context. It asks no model, so it also works while an answer is made.
func (r *Router) contextUse(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	text := "Nobody knows here what a request carries."
	if r.opts.Contexts != nil {
		switch use, err := r.opts.Contexts.Context(ctx, m.Key, m.Sender); {
		case errors.Is(err, corebot.ErrNotFound):
			text = "The agent of this chat runs in another process, or not at all."
		case err != nil:
			return corebot.Receipt{}, fmt.Errorf("weigh the next request of chat %s: %w", m.Key, err)
		default:
			text = use.Describe(r.opts.Spending.Accounting)
		}
	}
	return r.ledger.Answer(ctx, m, controlNotice(m, c, text))
}
