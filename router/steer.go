package router

import (
	"context"

	"github.com/corebot/corebot"
)

// steer accepts a /steer: its text becomes an inbound prompt that the turn which runs takes in at its next step, unless it ends before. With
// nothing running, or for somebody who may not steer the answer to another's message, it is a prompt that waits its turn.
func (r *Router) steer(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if c.Args == "" {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "Say what you want to add: /steer TEXT."))
	}
	life, refused, by, err := r.head(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	s, err := r.ledger.Steer(ctx, asPrompt(m, c.Args), life, by, func(merges bool) *corebot.Message {
		var n corebot.Message
		switch {
		case merges:
			n = controlNotice(m, c, "Steering.")
		case refused:
			n = controlNotice(m, c, "Only who sent the message that is being answered, or an admin, can steer its answer. Yours waits its turn.")
		default:
			return nil // its answer will be heard
		}
		return &n
	})
	return s.Receipt, err
}

// asPrompt is a /steer as the prompt that its text is. Its id stays.
func asPrompt(m corebot.Message, text string) corebot.Message {
	m.Direction, m.Kind, m.Parts = corebot.Inbound, corebot.KindPrompt, corebot.TextPart(text)
	return m
}
