package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/nearest"
	"github.com/corebot/corebot/internal/runes"
)

// Choices stores which model a session asks for, and how much it thinks.
type Choices interface {
	// ChooseModel stores the command, the model of the chat's session ("" is the configured one) and the notice in one
	// commit. It calls notice with the result: nil, or [corebot.ErrNotFound] in a chat without any message. A command
	// that by denies changes nothing.
	ChooseModel(ctx context.Context, m corebot.Message, model string, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
	// ChooseThinking is ChooseModel for how much models think.
	ChooseThinking(ctx context.Context, m corebot.Message, think corebot.Thinking, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
}

// configuredModel is how a person asks for the configured model, or thinking, again.
const configuredModel = "default"

// model answers a /model: it tells which model answers, or has an admin choose one.
func (r *Router) model(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if c.Args == "" {
		text, err := r.modelNow(ctx, m.Key)
		if err != nil {
			return corebot.Receipt{}, err
		}
		return r.ledger.Answer(ctx, m, controlNotice(m, c, text))
	}
	decision, by, err := r.judge(ctx, m, c, m.Sender)
	if err != nil {
		return corebot.Receipt{}, err
	}
	name, refused := c.Args, ""
	if name == configuredModel {
		name = ""
	}
	switch {
	case !decision.Allow:
		refused = "That is not allowed: " + decision.Reason + "."
	case r.opts.Choices == nil:
		refused = "Models cannot be chosen here."
	default:
		refused = r.unknownModel(m.Key.Agent, name)
	}
	if r.opts.Choices == nil || decision.Allow && refused != "" {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, refused))
	}
	return r.opts.Choices.ChooseModel(ctx, m, name, by, func(err error) corebot.Message {
		text := fmt.Sprintf("From the next answer on: %s, for this conversation. "+
			"/new goes back to the configured model.", corebot.Plainly(name))
		switch {
		case refused != "":
			text = refused
		case errors.Is(err, corebot.ErrNotFound):
			text = "Nothing was said here yet: say something first, then choose the model."
		case name == "":
			text = "From the next answer on, the configured model answers."
		}
		return controlNotice(m, c, text)
	})
}

// modelNow says which model answers in a chat.
func (r *Router) modelNow(ctx context.Context, k corebot.Key) (string, error) {
	text := "Nobody knows here which model answers."
	if r.opts.Describe != nil {
		_, model := r.opts.Describe(k.Agent)
		text = "Model: " + corebot.Plainly(model)
	}
	if r.opts.Chats == nil {
		return text, nil
	}
	s, err := r.opts.Chats.Situation(ctx, k)
	if err != nil {
		return "", fmt.Errorf("read the model of chat %s: %w", k, err)
	}
	if s.Model != "" {
		text = fmt.Sprintf("Model: %s, for this conversation", corebot.Plainly(s.Model))
	}
	return text + "\n/models lists the others.", nil
}

// models are those of an agent.
func (r *Router) models(agent string) []string {
	if r.opts.Models == nil {
		return nil
	}
	return r.opts.Models(agent)
}

// shownModels bounds the list of a notice.
const shownModels = 50

func (r *Router) modelList(agent string) string {
	all := r.models(agent)
	if len(all) == 0 {
		return "No other model can be chosen."
	}
	text := "Models:"
	for _, name := range all[:min(len(all), shownModels)] {
		text += "\n- " + corebot.Plainly(name)
	}
	if more := len(all) - shownModels; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// unknownModel refuses a model that is not configured, with the names nearest to it: the chat would get no answer. The
// configured model, "", is always known.
func (r *Router) unknownModel(agent, name string) string {
	all := r.models(agent)
	if name == "" || slices.Contains(all, name) {
		return ""
	}
	if len(name) > longestEcho {
		name = runes.Head(name, longestEcho) + "…"
	}
	text := fmt.Sprintf("No model is called %q.", corebot.Plainly(name))
	if len(all) == 0 {
		return text
	}
	return text + " The nearest names: " + strings.Join(nearestNames(name, all), ", ") + ". /models lists all."
}

// nearestNames are the three names nearest to a misspelt one, or fewer.
func nearestNames(name string, all []string) (near []string) {
	left := slices.Clone(all)
	for range min(3, len(left)) {
		like, _ := nearest.Name(name, left)
		near = append(near, corebot.Plainly(like))
		left = slices.DeleteFunc(left, func(s string) bool { return s == like })
		if len(left) == 0 {
			break
		}
	}
	return near
}
