package router

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// Control accepts a message that acts at once. It returns after the commit that stored the message together with its effect;
// a duplicate changes nothing.
func (r *Router) Control(ctx context.Context, m corebot.Message) (corebot.Receipt, error) {
	c, _, _ := corebot.ParseCommand(m.Text())
	if c.Name != "/stop" {
		return corebot.Receipt{}, fmt.Errorf("%w: %q is not a control message", corebot.ErrInvalid, c.Name)
	}
	life, sender, err := r.ledger.Head(ctx, m.Key)
	if err != nil {
		return corebot.Receipt{}, fmt.Errorf("look for what to stop: %w", err)
	}
	allowed, err := r.mayStop(ctx, m, sender)
	if err != nil {
		return corebot.Receipt{}, err
	}
	refused := life != 0 && !allowed
	if refused {
		life = 0
	}
	s, err := r.ledger.Stop(ctx, m, life, func(found bool) corebot.Message {
		text := "There is nothing to stop."
		switch {
		case found:
			text = "Stopping."
		case refused:
			text = "Only who sent the message, or an admin, can stop its answer."
		}
		return corebot.Message{
			ID: m.ID + "/stop", Direction: corebot.Outbound, Key: m.Key, Kind: corebot.KindNotice,
			Parts: corebot.TextPart(text), InReplyTo: m.ID,
		}
	})
	if err != nil {
		return corebot.Receipt{}, err
	}
	if s.Found {
		r.active.stop(life)
	}
	return corebot.Receipt{Life: s.Life, Duplicate: s.Duplicate}, nil
}

// mayStop asks the policy: the sender of what runs, or an admin.
func (r *Router) mayStop(ctx context.Context, m corebot.Message, sender corebot.Principal) (bool, error) {
	role, err := r.roles.RoleOf(ctx, m.Sender, m.Key)
	if err != nil {
		return false, err
	}
	return r.policy.Authorize(policy.Request{
		Tool: "/stop", Role: role, Principal: m.Sender, Key: m.Key, Target: policy.Target{Sender: sender},
	}).Allow, nil
}
