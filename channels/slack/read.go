package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/runes"
)

// read makes a message of an envelope. means is false for one that says nothing to Corebot.
func (c *Channel) read(ctx context.Context, me self, e envelope) (in channels.Incoming, means bool) {
	switch e.Type {
	case "events_api":
		var of callback
		var m message
		if json.Unmarshal(e.Payload, &of) != nil || json.Unmarshal(of.Event, &m) != nil || of.Team != me.team {
			return in, false
		}
		if m.Type != "message" && m.Type != "app_mention" {
			return in, false
		}
		return c.message(ctx, me, m.Channel, m)
	case "interactive":
		var p press
		if json.Unmarshal(e.Payload, &p) != nil || p.Type != "block_actions" || len(p.Actions) != 1 {
			return in, false
		}
		return me.press(p)
	case "slash_commands":
		var s slash
		if json.Unmarshal(e.Payload, &s) != nil {
			return in, false
		}
		return me.slash(s)
	}
	return in, false
}

// place is where something was said.
func place(channel, ts, thread string) channels.Incoming {
	in := channels.Incoming{Chat: channel}
	if thread != ts {
		in.Thread = thread
	}
	in.Envelope.Group = !strings.HasPrefix(channel, "D")
	return in
}

// sentAt is the time in the name of a message.
func sentAt(ts string) time.Time {
	whole, _, _ := strings.Cut(ts, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// senderID is the id of somebody. People of other workspaces have ids of those.
func (me self) senderID(user, team string) string {
	if team != "" && team != me.team && isID(team) {
		return team + "/" + user
	}
	return user
}

// spoken are the kinds of messages that say something.
var spoken = []string{"", "file_share", "thread_broadcast", "me_message", "bot_message"}

// message reads what somebody has said, edited or taken back in a channel.
func (c *Channel) message(ctx context.Context, me self, channel string, m message) (in channels.Incoming, means bool) {
	if !isID(channel) {
		return in, false
	}
	switch old := m.Previous; {
	case m.Subtype == "message_changed" && m.Message != nil && m.Message.Edited != nil &&
		isStamp(m.Message.Edited.TS) && (old == nil || old.Text != m.Message.Text):
		in, means = c.said(ctx, me, channel, *m.Message)
		in.EditOf, in.ID = in.ID, in.ID+"/edit/"+m.Message.Edited.TS
		in.Envelope.SentAt = sentAt(m.Message.Edited.TS)
		return in, means
	case m.Subtype == "message_deleted" && old != nil && isStamp(m.Deleted) && isThread(old.Thread):
		in = place(channel, m.Deleted, old.Thread)
		in.ID, in.DeleteOf = m.Deleted+"/deleted", m.Deleted
		in.SenderID, in.Own = me.senderID(old.User, old.Team), me.wrote(*old)
		in.Bot, in.Interactive = old.Bot != "", old.Bot == ""
		return in, isID(old.User) && !in.Bot
	}
	return c.said(ctx, me, channel, m)
}

// isThread says whether a text names a thread, or none.
func isThread(s string) bool { return s == "" || isStamp(s) }

// wrote says whether a message is of the app itself.
func (me self) wrote(m message) bool { return m.User == me.id || m.Bot != "" && m.Bot == me.bot }

// said reads one message.
func (c *Channel) said(ctx context.Context, me self, channel string, m message) (in channels.Incoming, means bool) {
	if !slices.Contains(spoken, m.Subtype) || !isStamp(m.TS) || !isThread(m.Thread) || m.User != "" && !isID(m.User) {
		return in, false
	}
	in = place(channel, m.TS, m.Thread)
	in.ID, in.Envelope.SentAt = m.TS, sentAt(m.TS)
	in.Own, in.Bot = me.wrote(m), m.Bot != "" || m.Subtype == "bot_message" || m.User == ""
	in.Interactive = !in.Bot
	if in.Own {
		return in, false
	}
	if m.User != "" {
		in.SenderID = me.senderID(m.User, m.Team)
	}
	if in.SenderName = runes.Head(m.Name, maxName); !in.Bot {
		in.SenderName = runes.Head(c.nameOf(ctx, m.User), maxName)
	}
	text, mentioned := me.words(m.Text)
	in.Envelope.Mentioned = mentioned || in.Thread != "" && m.Begun == me.id
	if text != "" {
		in.Parts = corebot.TextPart(text)
	}
	for i, f := range m.Files {
		part := corebot.Part{
			Type: corebot.PartFile, Name: runes.Head(f.Name, maxName), MediaType: runes.Head(f.MIME, maxName),
		}
		switch {
		case strings.HasPrefix(f.MIME, "image/"):
			part.Type = corebot.PartImage
		case strings.HasPrefix(f.MIME, "audio/"):
			part.Type = corebot.PartAudio
		}
		in.Parts = append(in.Parts, part)
		if f.URL != "" && f.Mode != "external" {
			in.Files = append(in.Files, channels.Attached{Part: i, Fetch: c.bot.open(f)})
		}
	}
	return in, len(in.Parts) > 0
}

// maxName bounds the name of a person or a file, in bytes.
const maxName = 255

// press reads the press of a button: the presser says the command of the button. It counts for no more than what the
// presser could have typed.
func (me self) press(p press) (in channels.Incoming, means bool) {
	a := p.Actions[0]
	if !isID(p.Channel.ID) || !isID(p.User.ID) || !isStamp(a.At) || !isStamp(p.Message.TS) ||
		!isThread(p.Message.Thread) || !strings.HasPrefix(a.Value, "/") {
		return in, false
	}
	in = place(p.Channel.ID, p.Message.TS, p.Message.Thread)
	in.ID = fmt.Sprintf("press/%s/%s", p.User.ID, a.At)
	in.SenderID, in.SenderName = me.senderID(p.User.ID, p.User.Team), runes.Head(p.User.Name, maxName)
	in.Interactive = true
	in.Envelope.Mentioned, in.Envelope.ReplyTo, in.Envelope.SentAt = true, p.Message.TS, sentAt(a.At)
	in.Parts = corebot.TextPart(a.Value)
	return in, true
}

// slash reads a slash command: what stands behind its name is said, and a command of Corebot without its slash is one.
func (me self) slash(s slash) (in channels.Incoming, means bool) {
	text := strings.TrimSpace(html.UnescapeString(s.Text))
	if word, _, _ := strings.Cut(text, " "); isCommand("/" + word) {
		text = "/" + text
	}
	if text == "" {
		text = "/help"
	}
	in = place(s.Channel, "", "")
	in.ID, in.SenderID, in.SenderName = "slash/"+s.Trigger, me.senderID(s.User, s.Team), runes.Head(s.Name, maxName)
	in.Interactive, in.Envelope.Mentioned = true, true
	in.Parts = corebot.TextPart(text)
	return in, isID(s.Channel) && isID(s.User) && s.Trigger != "" && corebot.CheckName(in.ID) == nil
}

func isCommand(word string) bool {
	return slices.ContainsFunc(corebot.Commands(), func(u corebot.CommandUsage) bool { return u.Name == word })
}

// references are the parts of a text between angle brackets: people, channels, groups and addresses.
var references = lazy.Regexp(`<([^<>]*)>`)

// words reads the text of a message as a person sees it, without the name of the bot before the first word. "!status"
// is "/status": Slack keeps what begins with a slash for itself.
func (me self) words(text string) (said string, mentioned bool) {
	own := "<@" + me.id
	for _, name := range []string{own + ">", own + "|"} {
		mentioned = mentioned || strings.Contains(text, name)
	}
	if rest, is := strings.CutPrefix(strings.TrimSpace(text), own); is {
		_, behind, closed := strings.Cut(rest, ">")
		if closed && (rest[0] == '>' || rest[0] == '|') && strings.TrimSpace(behind) != "" {
			text = cmp.Or(strings.TrimLeft(behind, " :,"), behind) // who says nothing but a colon is heard, too
		}
	}
	text = references().ReplaceAllStringFunc(text, func(found string) string {
		what, label, labelled := strings.Cut(found[1:len(found)-1], "|")
		if what == "@"+me.id {
			return "@" + me.name
		}
		switch {
		case strings.HasPrefix(what, "@"), strings.HasPrefix(what, "#"):
			if labelled && label != "" {
				return what[:1] + label
			}
			return what
		case strings.HasPrefix(what, "!"):
			if labelled && label != "" {
				return label
			}
			return "@" + what[1:]
		case labelled && label != what && strings.TrimPrefix(what, "mailto:") != label:
			return label + " (" + what + ")"
		}
		return strings.TrimPrefix(what, "mailto:")
	})
	text = strings.TrimSpace(html.UnescapeString(text))
	if word, _, _ := strings.Cut(text, " "); strings.HasPrefix(word, "!") && isCommand("/"+word[1:]) {
		text = "/" + text[1:]
	}
	return strings.ToValidUTF8(text, "\ufffd"), mentioned
}
