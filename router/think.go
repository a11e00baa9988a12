package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
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

// Skills are what /skills lists and switches.
type Skills interface {
	// Skills are those that are switched on or off in a chat.
	Skills(ctx context.Context, k corebot.Key) (corebot.SkillChoices, error)
	// ChooseSkill stores the command, the switch of a skill in its chat and the notice in one commit. It calls notice
	// with the result: nil, or [corebot.ErrInvalid] if the chat has too many switches. A command that by denies changes
	// nothing.
	ChooseSkill(ctx context.Context, m corebot.Message, skill string, on bool, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
	// Known are the skills that a chat has.
	Known(k corebot.Key) ([]corebot.KnownSkill, error)
}

// skills answers a /skills: it lists the skills, or has an admin switch one.
func (r *Router) skills(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	answer := func(text string) (corebot.Receipt, error) { return r.ledger.Answer(ctx, m, controlNotice(m, c, text)) }
	if r.opts.Skills == nil {
		return answer("There are no skills here.")
	}
	known, err := r.opts.Skills.Known(m.Key)
	if err != nil {
		return corebot.Receipt{}, fmt.Errorf("read the skills: %w", err)
	}
	words := strings.Fields(c.Args)
	if len(words) == 0 {
		choices, err := r.opts.Skills.Skills(ctx, m.Key)
		if err != nil {
			return corebot.Receipt{}, err
		}
		return answer(skillList(known, choices))
	}
	if len(words) != 2 || words[0] != "enable" && words[0] != "disable" {
		return answer("Say " + corebot.UsageOf(c.Name) + ".")
	}
	name, on := words[1], words[0] == "enable"
	decision, by, err := r.judge(ctx, m, c, m.Sender)
	if err != nil {
		return corebot.Receipt{}, err
	}
	i := slices.IndexFunc(known, func(s corebot.KnownSkill) bool { return s.Name == name })
	switch {
	case !decision.Allow:
		return r.ledger.Refuse(ctx, m, by, controlNotice(m, c, "That is not allowed: "+decision.Reason+"."))
	case i < 0:
		return answer(fmt.Sprintf("There is no skill called %q. /skills lists them.",
			corebot.Plainly(runes.Head(name, longestEcho))))
	case on && known[i].Useless != "":
		return answer(fmt.Sprintf("The skill %s cannot be used: %s.", name, corebot.Plainly(known[i].Useless)))
	}
	return r.opts.Skills.ChooseSkill(ctx, m, name, on, by, func(err error) corebot.Message {
		text := fmt.Sprintf("The skill %s is on in this chat from the next message on.", name)
		switch {
		case err != nil:
			text = sentence(strings.TrimPrefix(err.Error(), corebot.ErrInvalid.Error()+": "))
		case !on:
			text = fmt.Sprintf("The skill %s is off in this chat from the next message on.", name)
		}
		return controlNotice(m, c, text)
	})
}

// skillsShown bounds the list of skills, in bytes.
const skillsShown = 6 << 10

func skillList(known []corebot.KnownSkill, choices corebot.SkillChoices) string {
	if len(known) == 0 {
		return "There are no skills here."
	}
	var b strings.Builder
	for i, s := range known {
		how := s.Trigger
		if on, chosen := choices[s.Name]; chosen {
			how = map[bool]string{true: "on in this chat", false: "off in this chat"}[on]
		}
		if s.Useless != "" {
			how = "cannot be used: " + s.Useless
		}
		line := corebot.Plainly(fmt.Sprintf("%s (%s): %s", s.Name, how, runes.Head(s.Description, 200)))
		if b.Len()+len(line) > skillsShown {
			fmt.Fprintf(&b, "and %d more; `corebot skills list` shows all", len(known)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSpace(b.String())
}
