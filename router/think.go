package router

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
)

// Thinks says how the model of an agent thinks that is asked for a level: the default level is the agent's. An empty
// model is the agent's preferred one.
type Thinks func(agent, model string, asked corebot.Thinking) corebot.Thought

// think answers a /think: it tells how much the model thinks, or has an admin choose that.
func (r *Router) think(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	var s corebot.Situation
	if r.opts.Chats != nil {
		var err error
		if s, err = r.opts.Chats.Situation(ctx, m.Key); err != nil {
			return corebot.Receipt{}, fmt.Errorf("read how much the model of chat %s thinks: %w", m.Key, err)
		}
	}
	if c.Args == "" {
		text := r.thought(m.Key, s.Model, s.Think)
		if s.Think != corebot.ThinkDefault {
			text += " This holds for this conversation; /new goes back to what is configured."
		}
		return r.ledger.Answer(ctx, m, controlNotice(m, c, text))
	}
	decision, by, err := r.judge(ctx, m, c, m.Sender)
	if err != nil {
		return corebot.Receipt{}, err
	}
	asked, refused := corebot.ThinkDefault, ""
	if c.Args != configuredModel {
		asked, err = corebot.ParseThinking(strings.ToLower(c.Args))
	}
	switch {
	case !decision.Allow:
		refused = "That is not allowed: " + decision.Reason + "."
	case r.opts.Choices == nil:
		refused = "This cannot be chosen here."
	case err != nil:
		refused = "A level is one of off, minimal, low, medium and high, or default."
	}
	if r.opts.Choices == nil || decision.Allow && refused != "" {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, refused))
	}
	return r.opts.Choices.ChooseThinking(ctx, m, asked, by, func(err error) corebot.Message {
		text := "From the next answer on: " + r.thought(m.Key, s.Model, asked)
		switch {
		case refused != "":
			text = refused
		case errors.Is(err, corebot.ErrNotFound):
			text = "Nothing was said here yet: say something first, then choose."
		}
		return controlNotice(m, c, text)
	})
}

// thought puts into words how the model of a chat thinks.
func (r *Router) thought(k corebot.Key, model string, asked corebot.Thinking) string {
	if r.opts.Thinks == nil {
		return corebot.Thought{Asked: asked}.String()
	}
	return r.opts.Thinks(k.Agent, model, asked).String()
}
