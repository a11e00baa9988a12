package channels

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// GroupRule says which messages of a group are prompts.
type GroupRule string

const (
	GroupsMention GroupRule = "mention" // those that name the bot, or answer it
	GroupsAll     GroupRule = "all"
	GroupsOff     GroupRule = "off" // none: nothing of a group is accepted
)

// ErrOwn says that the account wrote the message itself. It is neither stored nor counted.
var ErrOwn = fmt.Errorf("%w: the account itself wrote it", corebot.ErrInvalid)

// hears decides whether a message is only heard: kept as context for the next prompt of its chat, and not answered.
// Four kinds are only heard: messages of a group that are not meant for the bot, messages of programs, reactions, and
// old messages. The result late says that only its age keeps a message from being answered.
//
// A chat command is no exception. An old /stop would stop something else, and a command in a group can be meant for
// another bot.
func (d *FrontDoor) hears(in Incoming, now time.Time) (heard, late bool) {
	if in.Bot || in.Aside || in.Envelope.Group && d.rules(in).Groups == GroupsMention && !in.Envelope.Mentioned {
		return true, false
	}
	late = d.opts.MaxAge > 0 && !in.Envelope.SentAt.IsZero() && now.Sub(in.Envelope.SentAt) > d.opts.MaxAge
	return late, late
}

// reads says how Corebot understands a message. late says that it would have been answered, had it come in time. An
// edit or a deletion needs no mention: that of the message itself counts.
func (d *FrontDoor) reads(in *Incoming) (spoken corebot.Spoken, late bool) {
	if in.DeleteOf != "" {
		in.Parts = corebot.TextPart("deletes the message " + in.DeleteOf)
		return corebot.Spoken{Kind: corebot.KindControl}, false
	}
	text := in.Text()
	spoken = corebot.Read(text)
	if in.Envelope.Forwarded { // others wrote it: it commands nothing
		spoken = corebot.Spoken{Kind: corebot.KindPrompt, Text: text}
	}
	meant := *in
	meant.Envelope.Mentioned = in.Envelope.Mentioned || in.EditOf != ""
	heard, late := d.hears(meant, time.Now())
	if in.EditOf != "" {
		in.Metadata = maps.Clone(in.Metadata)
		if in.Metadata == nil {
			in.Metadata = corebot.Metadata{}
		}
		maps.Copy(in.Metadata, corebot.Texts(map[string]string{corebot.MetaEditOf: in.EditOf}))
		if spoken.Kind != corebot.KindOpening {
			spoken.Kind = corebot.KindPrompt
		}
		if heard {
			in.EditOf, late = "", false
		}
	}
	if heard {
		spoken = corebot.Spoken{Kind: corebot.KindHeard, Text: text}
	}
	if spoken.Text != text {
		in.Parts = corebot.WithText(in.Parts, spoken.Text)
	}
	return spoken, late
}

// maxSign bounds the sign of a reaction, in bytes: an emoji of several runes, or the name of one.
const maxSign = 64

// React makes a message of the reaction of somebody to what the account has said: context of the next prompt. A sign
// alone commands, asks and approves nothing. is says that there is a sign.
func (in *Incoming) React(sign, to string) (is bool) {
	sign = strings.Join(strings.Fields(strings.Map(ofSign, runes.Head(sign, maxSign))), " ")
	in.Aside, in.Interactive, in.Envelope.ReplyTo = true, false, to
	in.Parts = corebot.TextPart(fmt.Sprintf("[reacts with %s to a message of Corebot]", sign))
	return sign != ""
}

// ofSign leaves out what hides or turns other text. A platform can let people choose any text as a sign: no sign ends
// the brackets that say whose it is.
func ofSign(r rune) rune {
	switch {
	case r == '[':
		return '('
	case r == ']':
		return ')'
	case unicode.IsSpace(r):
		return ' '
	case r == unicode.ReplacementChar, r != '\u200d' && !unicode.IsGraphic(r):
		return -1
	}
	return r
}

// tellLate tells a chat that messages came too late to be answered: once, while more of them come. A restart forgets.
func (d *FrontDoor) tellLate(ctx context.Context, m corebot.Message) {
	if !d.late.refused(m.Key, time.Now()) {
		return
	}
	d.tell(ctx, m, corebot.NoticeLate, fmt.Sprintf("This message was sent more than %v ago, while Corebot did not "+
		"receive. It is kept as context, and so are others of that time. What still matters can be sent again.",
		d.opts.MaxAge))
}

// Hourly counts the messages of each sender that are answered, hour by hour. It ends a loop with a program that hides
// what it is: what such a program says over Most is kept as context. A message counts behind the commit that stores it,
// and once: what comes again does not count. A restart forgets. All messages of an account have the same Hourly.
type Hourly struct {
	Most int

	mu    sync.Mutex
	since time.Time
	said  map[string]int
}

const mostCounted = 10_000 // senders in an hour; those after them have ten times Most together

// counts is the name under which a sender is counted in this hour, and how many messages the name has.
func (h *Hourly) counts(sender string, now time.Time) (name string, most int) {
	if age := now.Sub(h.since); h.said == nil || age >= time.Hour || age < 0 {
		h.since, h.said = now, map[string]int{}
	}
	if _, known := h.said[sender]; !known && len(h.said) >= mostCounted {
		return "", 10 * h.Most
	}
	return sender, h.Most
}

// full says whether a sender has had all his answers of this hour. first is the message that finds it so.
func (h *Hourly) full(sender string, now time.Time) (full, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, most := h.counts(sender, now)
	n := h.said[name]
	if first = n == most; first {
		h.said[name]++
	}
	return n >= most, first
}

// left is how many messages of a sender are still answered in this hour.
func (h *Hourly) left(sender string, now time.Time) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, most := h.counts(sender, now)
	return most - h.said[name]
}

func (h *Hourly) count(sender string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, _ := h.counts(sender, now)
	h.said[name]++
}

// counted is whom a message counts for.
func (in Incoming) counted() string { return cmp.Or(in.By, in.SenderID, in.Chat) }

// bounded reads a message, and keeps it as context if its sender has had his answers. counts says that the message
// counts when it is stored.
func (d *FrontDoor) bounded(in *Incoming) (spoken corebot.Spoken, late, counts bool) {
	was := *in
	spoken, late = d.reads(in)
	if in.Hourly == nil || spoken.Kind == corebot.KindHeard || in.DeleteOf != "" || in.Tell != "" {
		return spoken, late, false
	}
	full, first := in.Hourly.full(in.counted(), time.Now())
	if !full {
		return spoken, late, true
	}
	if first {
		d.opts.Log.Warn().Str("channel", in.Channel).Str("account", in.Account).Str("sender", in.counted()).
			Int("hourly", in.Hourly.Most).
			Msg("a sender has said more in an hour than is answered; the rest is kept as context")
	}
	*in = was
	in.Bot, in.Interactive = true, false
	spoken, late = d.reads(in)
	return spoken, late, false
}
