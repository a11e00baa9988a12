package discord

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/runes"
)

// pressed reads the press of a button or a slash command: the presser says the command. The words of a button
// count for no more than the same words, typed by the presser.
func (c *Channel) pressed(ctx context.Context, me self, i interaction, next *position) (*said, error) {
	who := i.User
	if i.Member != nil && i.Member.User != nil {
		who = i.Member.User
	}
	if who == nil || !isID(who.ID) || !isID(i.ID) || !isID(i.Where) || i.Guild != "" && !isID(i.Guild) ||
		!interactionToken(i.Token) {
		return nil, fmt.Errorf("interaction %.100q has no ids", i.ID)
	}
	text, kind := i.Data.Command, "press"
	if i.Type == typeCommand {
		text, kind = "/"+i.Data.Name, "command"
		for _, o := range i.Data.Options {
			text += fmt.Sprintf(" %v", o.Value)
		}
	} else if i.Type != typePress {
		return nil, nil
	}
	if !strings.HasPrefix(text, "/") || len(text) < 2 {
		return nil, nil
	}
	if i.Channel != nil && i.Channel.ID == i.Where {
		note(c, &c.places, i.Where, i.Channel.place())
	}
	at, err := c.placeOf(ctx, i.Guild, i.Where)
	if err != nil || !c.listens(i.Guild, i.Where, at) {
		return nil, err
	}
	if i.Guild == "" {
		next.wrote(i.Where)
	}
	in := said{answers: &i, Incoming: channels.Incoming{
		ID: kind + "/" + i.ID, Chat: at.chat, Thread: at.thread, SenderID: who.ID, SenderName: nameOf(who, i.Member),
		Bot: who.Bot, Interactive: !who.Bot, Parts: corebot.TextPart(strings.TrimSpace(text)),
	}}
	in.Own = who.ID == me.id
	in.Envelope.Group, in.Envelope.Mentioned = i.Guild != "", true
	in.Envelope.SentAt = madeAt(i.ID)
	if i.Message != nil && i.Message.wrong == nil {
		in.Envelope.ReplyTo = i.Message.ID
	}
	return &in, nil
}

// maxToken bounds the token of an interaction, in bytes.
const maxToken = 1000

func interactionToken(s string) bool {
	return s != "" && len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

const (
	answerTime    = 2500 * time.Millisecond // the platform waits 3 s
	answersAtOnce = 8

	answerNow      = 4
	answerNothing  = 6 // the message with the button stays as it is
	flagForOneOnly = 1 << 6
)

// acknowledge ends the waiting of people who have pressed a button or given a command. A notice in the chat tells what
// comes of it.
func (c *Channel) acknowledge(ctx context.Context, all []said, taken []channels.BatchResult) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var running sync.WaitGroup
	places := make(chan struct{}, answersAtOnce)
	for n, s := range all {
		if s.answers == nil {
			continue
		}
		answer := map[string]any{"type": answerNothing}
		words := ""
		switch {
		case taken[n].Err != nil:
			words = "This was not accepted."
		case s.answers.Type == typeCommand:
			words = "Got it: " + escape(runes.Head(s.Text(), maxName), false)
		}
		if words != "" {
			answer = map[string]any{"type": answerNow, "data": map[string]any{
				"content": words, "flags": flagForOneOnly, "allowed_mentions": map[string]any{"parse": []string{}},
			}}
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			ask := channels.Post(answer, "interactions", s.answers.ID, s.answers.Token, "callback")
			if _, err := c.client.do(ctx, ask); err != nil {
				c.site.Log.Debug().Err(err).Msg("an interaction was not answered")
			}
		})
	}
	running.Wait()
}

const (
	maxDescription = 100
	optionText     = 3
)

// menu are the chat commands, as the platform's programs offer them to people who type a slash.
func menu() (all []map[string]any) {
	for _, c := range corebot.Commands() {
		command := map[string]any{
			"name": strings.TrimPrefix(c.Name, "/"), "description": runes.Head(c.Summary, maxDescription), "type": 1,
		}
		if c.Args != "" {
			command["options"] = []map[string]any{{
				"type": optionText, "name": "text", "description": runes.Head(c.Args, maxDescription),
				"required": !strings.HasPrefix(c.Args, "["),
			}}
		}
		all = append(all, command)
	}
	return all
}

// register tells the platform the commands, once in a process. Without them people can still type them.
func (c *Channel) register(ctx context.Context, me self) {
	c.mu.Lock()
	done := c.registered
	c.mu.Unlock()
	if done {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	if _, err := c.client.do(ctx, channels.Put(menu(), "applications", me.app, "commands")); err != nil {
		c.site.Log.Warn().Err(err).Msg("the commands were not registered; people can still type them")
		return
	}
	c.mu.Lock()
	c.registered = true
	c.mu.Unlock()
}
