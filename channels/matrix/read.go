package matrix

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/runes"
)

// maxName bounds the name of a person or a file, in bytes.
const maxName = 255

func shortName(s string) string { return runes.Head(strings.TrimSpace(s), maxName) }

// serverOf is the homeserver of a user.
func serverOf(user string) string {
	_, server, _ := strings.Cut(user, ":")
	return server
}

const (
	tellEncrypted = "This room is encrypted, and I cannot read encrypted messages. Write to me in a room without " +
		"encryption: make a new one with encryption switched off, and invite me. Encryption of a room cannot be " +
		"switched off later."
	tellUpgraded = "This room was replaced by a new one. Invite me there: I do not follow by myself, and " +
		"the new room " +
		"begins with an empty history."
)

// read makes messages of events of a room. names has the display names of those who speak, as far as they are known.
// An error is one of the connection: the same events are read again.
func (c *Channel) read(ctx context.Context, me self, room string, events []event, names map[string]string) ([]said,
	error,
) {
	var all []said
	for _, e := range events {
		if err := e.named(); err != nil {
			c.site.Log.Warn().Err(err).Str("room", room).Msg("an event cannot be read, and is left out")
			continue
		}
		if of, m := e.member(); of != "" {
			c.changed(room)
			names[of] = m.Name
		}
		note(c, &c.rooms.threads, e.ID, contentOf(e.Content).Relates.thread())
		if e.Sender == me.id {
			note(c, &c.rooms.own, e.ID, true)
			c.saidOnce(ctx, room, e)
			continue
		}
		secret := e.Type == typeEncrypted
		e, tell, means, err := c.unseal(ctx, room, e, names[e.Sender])
		if err != nil {
			return nil, err
		}
		if !means {
			continue
		}
		r := reading{c: c, me: me, event: e, content: contentOf(e.Content), tell: tell, secret: secret}
		r.in = channels.Incoming{ID: e.ID, Chat: room, SenderID: e.Sender, SenderName: shortName(names[e.Sender])}
		if r.in.SenderName == "" {
			r.in.SenderName = shortName(e.Sender)
		}
		if at := time.UnixMilli(int64(e.Sent)); e.Sent > 0 && e.Sent < 1e14 && at.Year() < 9999 {
			r.in.Envelope.SentAt = at
		}
		if means, err = r.read(ctx); err != nil {
			return nil, err
		}
		if means {
			all = append(all, said{r.in, e.ID})
		}
	}
	return all, nil
}

// reading is an event that becomes a message.
type reading struct {
	c       *Channel
	me      self
	event   event
	content content
	tell    string // instead of what it says
	secret  bool   // it came encrypted
	in      channels.Incoming
}

// read says whether the event means something to the account.
func (r *reading) read(ctx context.Context) (means bool, err error) {
	e := r.event
	switch {
	case e.Type == typeTombstone && e.StateKey != nil && *e.StateKey == "":
		r.in.Tell = tellUpgraded
		return true, nil
	case e.StateKey != nil:
		return false, nil
	case e.Type == typeRedaction:
		return r.redaction(), nil
	case e.Type == typeReaction:
		return r.reaction(ctx)
	case e.Type != typeEncrypted && e.Type != typeMessage && e.Type != typeSticker:
		return false, nil
	}
	if r.in.Envelope.Group, err = r.c.isGroup(ctx, r.in.Chat); err != nil {
		return false, err
	}
	if e.Type == typeEncrypted || r.tell != "" {
		r.in.Tell = cmp.Or(r.tell, tellEncrypted)
		return true, nil
	}
	r.in.Thread = r.content.Relates.thread()
	if r.content.Relates.Type == relReplace {
		return r.edit(ctx)
	}
	return r.message(ctx)
}

// redaction is a message that somebody took back: its sender, or who keeps order in the room.
func (r *reading) redaction() bool {
	of := r.event.Redacts
	if of == "" {
		of = r.content.Redacts
	}
	if !isEvent(of) {
		return false
	}
	r.in.DeleteOf = of
	r.in.Thread, _ = known(r.c, &r.c.rooms.threads, of) // the homeserver has forgotten the content
	return true
}

// reaction is a sign that somebody puts at an event. One at a message of the account is context.
func (r *reading) reaction(ctx context.Context) (means bool, err error) {
	of := r.content.Relates.Event
	if r.content.Relates.Type != relReact || !isEvent(of) || !r.in.React(r.content.Relates.Key, of) {
		return false, nil
	}
	if own, is := known(r.c, &r.c.rooms.own, of); is && !own || !is && r.c.rooms.looked >= mostSigned {
		return false, nil
	}
	if means, err = r.c.isOwn(ctx, r.me, r.in.Chat, of, r.event.Sender); err != nil || !means {
		return false, err
	}
	if r.in.Thread, err = r.c.threadOf(ctx, r.in.Chat, of, r.event.Sender); err != nil {
		return false, err
	}
	r.in.Envelope.Group, err = r.c.isGroup(ctx, r.in.Chat)
	return err == nil, err
}

// edit is a message that takes the place of another. It stands in the thread of that one, which it does not name.
func (r *reading) edit(ctx context.Context) (means bool, err error) {
	of := r.content.Relates.Event
	if !isEvent(of) || len(r.content.New) == 0 {
		return false, nil
	}
	if r.in.Thread, err = r.c.threadOf(ctx, r.in.Chat, of, r.event.Sender); err != nil {
		return false, err
	}
	r.in.EditOf = of
	changed := contentOf(r.content.New)
	changed.Mentions, changed.Sent = r.content.Mentions, r.content.Sent
	changed.Relates = relation{}
	r.content = changed
	return r.message(ctx)
}

// message is what somebody says.
func (r *reading) message(ctx context.Context) (means bool, err error) {
	c := r.content
	r.in.Bot = c.Kind == "m.notice" || c.Sent != nil // another Corebot marks what it sends
	r.in.Interactive = !r.in.Bot
	r.in.Hourly = &r.c.hourly // a bridge says of nobody that he is a program
	if answered := c.Relates.answers(); answered != "" {
		r.in.Envelope.ReplyTo = answered
		c.Body = withoutQuote(c.Body)
	}
	spoken := r.me.words(c)
	r.in.Envelope.Mentioned = spoken.mentioned
	if answered := r.in.Envelope.ReplyTo; answered != "" && r.in.Envelope.Group && !spoken.mentioned {
		if r.in.Envelope.Mentioned, err = r.c.isOwn(ctx, r.me, r.in.Chat, answered, r.event.Sender); err != nil {
			return false, err
		}
	}
	r.in.Parts = r.parts(c, spoken.text)
	if len(corebot.Attachments(r.in.Parts)) == 1 {
		if r.secret {
			r.in.Files = []channels.Attached{r.c.secretFile(c.File)}
		} else if server, id, ok := mediaOf(c.URL); ok {
			r.in.Files = []channels.Attached{{Fetch: func(ctx context.Context) (io.ReadCloser, error) {
				return r.c.client.open(ctx, server, id)
			}}}
		}
	}
	return len(r.in.Parts) > 0, nil
}

// mediaOf reads the address of a file. The homeserver of the account gets the file from the server that is named, so
// Corebot asks its own homeserver alone.
func mediaOf(address string) (server, id string, ok bool) {
	rest, is := strings.CutPrefix(address, "mxc://")
	server, id, ok = strings.Cut(rest, "/")
	is = is && ok && server != "" && id != "" && len(rest) <= maxName && !strings.ContainsAny(id, "/?#")
	for _, name := range []string{server, id} { // a step in the path of the request
		is = is && name != "." && name != ".."
	}
	return server, id, is
}

// parts are the content of a message: its text, and what stands beside it.
func (r *reading) parts(c content, text string) (parts []corebot.Part) {
	file := corebot.PartType("")
	switch {
	case r.event.Type == typeSticker:
		text = strings.TrimSpace("[sticker " + runes.Head(text, maxName) + "]")
	case c.Kind == "m.emote":
		text = "* " + text
	case c.Kind == "m.location":
		text = fmt.Sprintf("[location %q, %.300q]", runes.Head(text, maxName), c.Geo)
	case c.Kind == "m.image":
		file = corebot.PartImage
	case c.Kind == "m.audio":
		file = corebot.PartAudio
	case c.Kind == "m.file", c.Kind == "m.video":
		file = corebot.PartFile
	}
	name := c.FileName
	if file != "" && (name == "" || name == c.Body) { // without a caption the body is the name
		name, text = c.Body, ""
	}
	if strings.TrimSpace(text) != "" {
		parts = corebot.TextPart(text)
	}
	if file != "" {
		parts = append(parts, corebot.Part{
			Type: file, Name: runes.Head(name, maxName), MediaType: runes.Head(c.Info.Type, maxName),
		})
	}
	return parts
}

// withoutQuote leaves out the words of others that older programs put before a reply.
func withoutQuote(body string) string {
	if !strings.HasPrefix(body, "> <@") && !strings.HasPrefix(body, "> * <@") {
		return body
	}
	rest := body
	for strings.HasPrefix(rest, "> ") || strings.HasPrefix(rest, ">\n") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return strings.TrimPrefix(rest, "\n")
}

// words are the words of a message, as a person means them.
type words struct {
	text      string
	mentioned bool // they name the account
}

// words reads a body, without the name of the account before the first word. "!status" is "/status": many programs keep
// what begins with a slash for themselves. The list of mentions decides who is meant. Only a message without the list,
// of an older program, is searched for the name.
func (me self) words(c content) words {
	text := strings.TrimSpace(c.Body)
	rest, named := me.called(text)
	w := words{text: text}
	if c.Mentions != nil {
		w.mentioned = slices.Contains(c.Mentions.Users, me.id)
	} else {
		w.mentioned = named || strings.Contains(c.Body, me.id) || me.linked(c.HTML)
	}
	if w.mentioned && named && rest != "" {
		w.text = rest
	}
	if word, _, _ := strings.Cut(w.text, " "); strings.HasPrefix(word, "!") {
		for _, command := range corebot.Commands() {
			if strings.EqualFold(command.Name, "/"+word[1:]) {
				w.text = "/" + w.text[1:]
			}
		}
	}
	return w
}

// linked says whether a formatted text has a link to the account, as programs show mentions.
func (me self) linked(html string) bool {
	for _, id := range []string{me.id, strings.ReplaceAll(strings.ReplaceAll(me.id, "@", "%40"), ":", "%3A")} {
		if strings.Contains(html, `https://matrix.to/#/`+id+`"`) {
			return true
		}
	}
	return false
}

// called says whether a text begins with a name of the account, and what comes behind it.
func (me self) called(text string) (rest string, named bool) {
	local, _, _ := strings.Cut(me.id[1:], ":")
	for _, name := range []string{
		"[" + me.name + "](https://matrix.to/#/" + me.id + ")", me.id, "@" + me.name, me.name, "@" + local, local,
	} {
		if strings.Trim(name, "@") == "" || len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
			continue
		}
		rest := text[len(name):]
		if rest == "" || strings.ContainsRune(":, \n", rune(rest[0])) {
			return strings.TrimSpace(strings.TrimLeft(rest, ":,")), true
		}
	}
	return text, false
}
