package discord

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/runes"
)

// maxName bounds the name of a person, a file or its type, in bytes.
const maxName = 255

func shortName(s string) string { return runes.Head(strings.TrimSpace(s), maxName) }

// said is a message on its way in. An interaction wants an answer.
type said struct {
	channels.Incoming
	answers *interaction
}

// read makes messages of an event. An event that cannot be read is left out: it must not hold up the others. An error
// is one of the connection: the same events are read again.
func (c *Channel) read(ctx context.Context, me self, e payload, next *position) (all []said, err error) {
	var in *said
	switch e.Type {
	case "MESSAGE_CREATE", "MESSAGE_UPDATE":
		var m message
		if m, err = decoded[message](e); err == nil {
			err = m.wrong
		}
		if err == nil && e.Type == "MESSAGE_UPDATE" {
			in, err = c.edited(ctx, me, m)
			break
		}
		if err == nil {
			in, err = c.message(ctx, me, m, next)
		}
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		var d deletion
		if d, err = decoded[deletion](e); err == nil {
			return c.deleted(ctx, d)
		}
	case "MESSAGE_REACTION_ADD":
		var r reaction
		if r, err = decoded[reaction](e); err == nil {
			in, err = c.reacted(ctx, me, r)
		}
	case "INTERACTION_CREATE":
		var i interaction
		if i, err = decoded[interaction](e); err == nil {
			in, err = c.pressed(ctx, me, i, next)
		}
	case "THREAD_CREATE", "CHANNEL_CREATE":
		if s, err := decoded[spot](e); err == nil && isID(s.ID) {
			note(c, &c.places, s.ID, s.place())
		}
	}
	if f := (*corebot.Failure)(nil); err != nil && errors.As(err, &f) {
		return nil, err
	}
	if err != nil {
		c.site.Log.Warn().Err(err).Msg("an event cannot be read, and is left out")
	}
	if in != nil {
		all = append(all, *in)
	}
	return all, nil
}

// message is what somebody says; nil: it means nothing to the bot.
func (c *Channel) message(ctx context.Context, me self, m message, next *position) (*said, error) {
	if m.Author == nil {
		return nil, nil
	}
	next.Since = later(next.Since, m.ID)
	if m.Author.ID == me.id {
		if nonce, is := m.Nonce.(string); is && nonce != "" {
			note(c, &c.sent, nonce, m.ID)
		}
		return nil, nil
	}
	in, err := c.place(ctx, m)
	if in == nil || err != nil {
		return nil, err
	}
	if m.Guild == "" {
		next.wrote(m.Channel)
	}
	in.ID = m.ID
	in.Envelope.SentAt = madeAt(m.ID)
	note(c, &c.authors, m.ID, author{in.SenderID, in.SenderName})
	return c.content(me, m, in), nil
}

// reacted is a sign at a message of the bot; nil: it is at one of somebody else, or of a program.
func (c *Channel) reacted(ctx context.Context, me self, r reaction) (*said, error) {
	if !isID(r.User) || !isID(r.Channel) || !isID(r.Message) || r.Guild != "" && !isID(r.Guild) || r.User == me.id ||
		r.Author != me.id || !c.inGuild(r.Guild) {
		return nil, nil
	}
	at, err := c.placeOf(ctx, r.Guild, r.Channel)
	if err != nil || !c.listens(r.Guild, r.Channel, at) {
		return nil, err
	}
	sign, name := r.Emoji.Name, shortName(r.User)
	if isID(r.Emoji.ID) {
		sign = ":" + sign + ":"
	}
	if m := r.Member; m != nil && m.User != nil {
		if m.User.Bot {
			return nil, nil
		}
		name = nameOf(m.User, m)
	}
	in := said{Incoming: channels.Incoming{Chat: at.chat, Thread: at.thread, SenderID: r.User, SenderName: name}}
	in.ID = runes.Head("react/"+r.Message+"/"+r.User+"/"+sign, maxName)
	in.Envelope.Group = r.Guild != ""
	if !in.React(sign, r.Message) {
		return nil, nil
	}
	return &in, nil
}

// place says where a message stands and who wrote it; nil: the bot does not listen there.
func (c *Channel) place(ctx context.Context, m message) (*said, error) {
	if m.Type != typeSaid && m.Type != typeReply || !c.inGuild(m.Guild) {
		return nil, nil
	}
	at, err := c.placeOf(ctx, m.Guild, m.Channel)
	if err != nil || !c.listens(m.Guild, m.Channel, at) {
		return nil, err
	}
	in := said{Incoming: channels.Incoming{Chat: at.chat, Thread: at.thread, SenderID: m.Author.ID}}
	in.SenderName = nameOf(m.Author, m.Member)
	in.Bot = m.Author.Bot || m.Webhook != ""
	in.Interactive = !in.Bot
	in.Envelope.Group = m.Guild != ""
	return &in, nil
}

// nameOf is how others see somebody.
func nameOf(u *user, m *member) string {
	for _, name := range []string{nick(m), u.Global, u.Name} {
		if name = shortName(name); name != "" {
			return name
		}
	}
	return u.ID
}

func nick(m *member) string {
	if m == nil {
		return ""
	}
	return m.Nick
}

// content reads what a message says; nil: nothing.
func (c *Channel) content(me self, m message, in *said) *said {
	text, files := m.Content, m.Attachments
	if r := m.Reference; r != nil && r.Type == refForwarded {
		in.Envelope.Forwarded = true
		for _, s := range m.Snapshots {
			text = strings.TrimSpace(text + "\n" + s.Message.Content)
			files = append(files, s.Message.Attachments...)
		}
	} else if r != nil && m.Type == typeReply && isID(r.Message) {
		in.Envelope.ReplyTo = r.Message
		in.Envelope.Mentioned = m.Referenced != nil && m.Referenced.Author.ID == me.id
	}
	text, named := me.words(text, m.Mentions)
	in.Envelope.Mentioned = in.Envelope.Mentioned || named && !in.Envelope.Forwarded
	for _, s := range m.Stickers {
		text += fmt.Sprintf("\n[sticker %s]", shortName(s.Name))
	}
	if p := m.Poll; p != nil {
		var answers []string
		for _, a := range p.Answers {
			answers = append(answers, strconv.Quote(a.Media.Text))
		}
		text += fmt.Sprintf("\n[poll %q: %s]", p.Question.Text, strings.Join(answers, ", "))
	}
	if text = strings.TrimSpace(text); text != "" {
		in.Parts = corebot.TextPart(text)
	}
	for i, f := range files {
		in.Parts = append(in.Parts, f.part())
		if f.URL != "" {
			in.Files = append(in.Files, channels.Attached{Part: i, Fetch: c.client.open(f.URL)})
		}
	}
	if len(in.Parts) == 0 {
		return nil
	}
	return in
}

func (a attachment) part() corebot.Part {
	p := corebot.Part{
		Type: corebot.PartFile, Name: runes.Head(a.Name, maxName), MediaType: runes.Head(a.Type, maxName),
	}
	switch kind, _, _ := strings.Cut(a.Type, "/"); kind {
	case "image":
		p.Type = corebot.PartImage
	case "audio":
		p.Type = corebot.PartAudio
	}
	return p
}

var (
	mention = lazy.Regexp(`<@!?([0-9]{1,20})>`)
	emoji   = lazy.Regexp(`<a?(:[A-Za-z0-9_]{1,32}:)[0-9]{1,20}>`)
)

// words reads a text: the bot's own name before the first word is not said, people are shown by their names, and emoji
// of the server by theirs.
func (me self) words(text string, mentions []user) (read string, named bool) {
	names := map[string]string{me.id: me.name}
	for _, u := range mentions {
		names[u.ID] = nameOf(&u, nil)
	}
	read = strings.TrimSpace(text)
	if at := mention().FindStringSubmatchIndex(read); at != nil && at[0] == 0 && read[at[2]:at[3]] == me.id {
		if rest := strings.TrimSpace(read[at[1]:]); rest != "" {
			named, read = true, rest
		}
	}
	read = mention().ReplaceAllStringFunc(read, func(m string) string {
		id := mention().FindStringSubmatch(m)[1]
		named = named || id == me.id
		if name := names[id]; name != "" {
			return "@" + name
		}
		return m
	})
	return emoji().ReplaceAllString(read, "$1"), named
}

// edited is a message that has another text now. The platform also tells that it shows the preview of a link: that is
// no edit.
func (c *Channel) edited(ctx context.Context, me self, m message) (*said, error) {
	at, err := time.Parse(time.RFC3339, m.Edited)
	if err != nil || m.Author == nil || m.Author.ID == me.id {
		return nil, nil
	}
	in, err := c.place(ctx, m)
	if in == nil || err != nil {
		return nil, err
	}
	in.EditOf, in.ID = m.ID, fmt.Sprintf("%s/edit/%d", m.ID, at.UnixMilli())
	in.Envelope.SentAt = at
	return c.content(me, m, in), nil
}

// deleted are messages that were taken back. The platform does not say by whom and whose they were: those that Corebot
// does not remember are left alone.
func (c *Channel) deleted(ctx context.Context, d deletion) (all []said, err error) {
	if !isID(d.Channel) || d.Guild != "" && !isID(d.Guild) {
		return nil, nil
	}
	for _, id := range append(d.IDs, d.ID) {
		by, is := look(c, &c.authors, id)
		if !is {
			continue
		}
		at, err := c.placeOf(ctx, d.Guild, d.Channel)
		if err != nil {
			return nil, err
		}
		in := channels.Incoming{
			ID: id + "/delete", DeleteOf: id, Chat: at.chat, Thread: at.thread, SenderID: by.id, SenderName: by.name,
		}
		in.Envelope.Group = d.Guild != ""
		all = append(all, said{Incoming: in})
	}
	return all, nil
}
