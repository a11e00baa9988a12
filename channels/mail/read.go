package mail

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// outcome is what a mail is to Corebot.
type outcome int

const (
	leftOut outcome = iota // it says nothing to Corebot
	ownCopy                // Corebot has sent it
	message
)

// read makes a message of a mail. A mail that breaks the reader is left out.
func (c *Channel) read(got fetched) (in channels.Incoming, is outcome) {
	defer func() {
		if p := recover(); p != nil {
			c.site.Log.Error().Uint32("uid", uint32(got.uid)).Str("panic", fmt.Sprint(p)).
				Msg("a mail cannot be read, and is left out")
			is = leftOut
		}
	}()
	h, body := split(got.text)
	from, name, ok := h.from()
	if !ok {
		return in, c.leave("From names nobody, or several people", got)
	}
	id := c.idOf(h, got)
	why := automatic(h, from)
	if from == c.own {
		if c.ownsMail(id, h) {
			c.noteCome(id)
			c.noteLate(onItsWay(h, got.received))
			return in, ownCopy
		}
		return in, c.leave("it says to be from Corebot itself", got)
	}
	sure := verified(h, c.settings.AuthServID, from)
	if why != "" && !sure {
		return in, c.leave("a program has sent it: "+why, got)
	}
	if !sure && c.settings.Unverified == unverifiedRefuse {
		return in, c.leave("the server has not verified that it is of "+from.String(), got)
	}
	in = c.place(h, id, from, sure)
	in.SenderName = name
	in.Envelope.SentAt = got.received
	c.content(h, body, got, &in)
	if len(in.Parts) == 0 {
		return in, c.leave("it is empty", got)
	}
	in.Bot = why != ""
	in.Interactive = in.Interactive && !in.Bot
	in.Hourly = &c.hourly
	subject := words(h.text("subject"))
	c.remember(id, subject)
	c.remember(conversation(in.Chat, in.Thread), subject)
	return in, message
}

// leave notes in the log that mails are left out: each one at the level debug, and a count once an hour.
func (c *Channel) leave(why string, got fetched) outcome {
	c.site.Log.Debug().Uint32("uid", uint32(got.uid)).Str("reason", why).Msg("a mail is left out")
	if n := c.skipped.note(time.Now()); n > 0 {
		c.site.Log.Warn().Uint32("uid", uint32(got.uid)).Str("reason", why).Int("mails", n).
			Msg("mails are left out; the level debug names each")
	}
	return leftOut
}

// idOf is the Message-ID. The key of a message has the address of its sender too, so nobody can take an id away from
// another. A mail without a usable id is named by its content.
func (c *Channel) idOf(h header, got fetched) string {
	if ids := idsIn(h.text("message-id"), 1); len(ids) == 1 && h.count("message-id") == 1 {
		return ids[0]
	}
	return hashed(got.text)
}

// ownsMail says whether Corebot has sent a mail that says so.
func (c *Channel) ownsMail(id string, h header) bool {
	for _, to := range people(h.text("to")) {
		if a, ok := parseAddress(to.Address); ok && c.names.sentTo(id, a.String()) {
			return true
		}
	}
	return false
}

// strangers begins the chat of a sender whom the server has not verified. No address has a space, so nobody's chat has
// that name, and nothing that is allowed to an address is allowed there.
const strangers = "unverified "

const maxThread = 400 // bytes of the id of a thread

// place is where a mail belongs, and what its header says of it.
func (c *Channel) place(h header, id string, from address, sure bool) channels.Incoming {
	in := channels.Incoming{ID: id, Chat: from.String()}
	if sure {
		in.SenderID, in.Interactive = from.String(), true
	} else {
		in.Chat = strangers + in.Chat
		in.Envelope.Forwarded = true // it commands nothing, and it taints
	}
	refs := idsIn(h.text("references"), 100)
	parents := idsIn(h.text("in-reply-to"), 1)
	in.Thread = slices.Concat(refs, parents, []string{id})[0]
	if len(in.Thread) > maxThread {
		in.Thread = hashed([]byte(in.Thread))
	}
	if len(parents) == 1 {
		in.Envelope.ReplyTo = parents[0]
	}
	copied := c.meant(h.text("cc")) && !c.meant(h.text("to"))
	in.Envelope.Group, in.Envelope.Mentioned = copied, !copied
	about := map[string]string{}
	for _, name := range []string{"subject", "to", "cc"} {
		if value := words(h.text(name)); value != "" {
			about[name] = value
		}
	}
	if len(about) > 0 {
		in.Metadata = corebot.Texts(about)
	}
	return in
}

// meant says whether the account stands in a list of addresses. Names behind a plus are its own.
func (c *Channel) meant(list string) bool {
	return slices.ContainsFunc(people(list), func(p *person) bool {
		a, ok := parseAddress(p.Address)
		a.local, _, _ = strings.Cut(a.local, "+")
		return ok && a == c.own
	})
}

// content reads what the mail says.
func (c *Channel) content(h header, body []byte, got fetched, in *channels.Incoming) {
	said := readBody(h, body, got.whole)
	text := said.text()
	subject := words(h.text("subject"))
	if forwarded().MatchString(text) || strings.HasPrefix(strings.ToLower(subject), "fwd:") ||
		strings.HasPrefix(strings.ToLower(subject), "fw:") {
		in.Envelope.Forwarded = true
	}
	if text == "" && len(said.files) == 0 {
		text = subject
	}
	if !got.whole {
		text += fmt.Sprintf("\n[the mail is longer than %d bytes; the rest was not read]", maxMail)
	}
	if said.left > 0 {
		text += fmt.Sprintf("\n[%d further parts of the mail were not read]", said.left)
	}
	if text = strings.TrimSpace(text); text != "" {
		in.Parts = corebot.TextPart(text)
	}
	in.Parts, in.Files = append(in.Parts, said.files...), said.bytes
}
