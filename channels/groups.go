package channels

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/corebot/corebot"
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
// Three kinds are only heard: messages of a group that are not meant for the bot, messages of programs, and old
// messages. The result late says that only its age keeps a message from being answered.
//
// A chat command is no exception. An old /stop would stop something else, and a command in a group can be meant for
// another bot.
func (d *FrontDoor) hears(in Incoming, now time.Time) (heard, late bool) {
	if in.Bot || in.Envelope.Group && d.rules(in).Groups == GroupsMention && !in.Envelope.Mentioned {
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

// tellLate tells a chat that messages came too late to be answered: once, while more of them come. A restart forgets.
func (d *FrontDoor) tellLate(ctx context.Context, m corebot.Message) {
	if !d.late.refused(m.Key, time.Now()) {
		return
	}
	d.tell(ctx, m, corebot.NoticeLate, fmt.Sprintf("This message was sent more than %v ago, while Corebot did not "+
		"receive. It is kept as context, and so are others of that time. What still matters can be sent again.",
		d.opts.MaxAge))
}
