package telegram

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/runes"
)

// read makes a message of an update. means is false for an update that says nothing to the bot, such as that somebody
// joined a group.
func (me bot) read(u update) (in channels.Incoming, means bool, err error) {
	switch {
	case u.wrong != nil:
		return in, false, u.wrong
	case u.Message != nil:
		in, means = me.message(u.Message)
		return in, means, nil
	case u.Edited != nil && u.Edited.Location == nil: // a place that is shared live changes every few seconds
		in, means = me.message(u.Edited)
		in.EditOf, in.ID = in.ID, fmt.Sprintf("%s/edit/%d", in.ID, u.ID)
		if u.Edited.EditDate > 0 {
			in.Envelope.SentAt = time.Unix(u.Edited.EditDate, 0)
		}
		return in, means, nil
	case u.Callback != nil && u.Callback.Message != nil:
		in, means = me.press(u.Callback)
		return in, means, nil
	}
	return in, false, nil
}

// place is where a message was said.
func (m *message) place() channels.Incoming {
	in := channels.Incoming{Chat: strconv.FormatInt(m.Chat.ID, 10)}
	if m.InTopic && m.Thread != 0 {
		in.Thread = strconv.FormatInt(m.Thread, 10)
	}
	in.Envelope.Group = m.Chat.Type != "private"
	return in
}

// message reads what somebody says.
func (me bot) message(m *message) (in channels.Incoming, means bool) {
	in = m.place()
	in.ID = strconv.FormatInt(m.ID, 10)
	me.sender(m, &in)
	if m.Date > 0 {
		in.Envelope.SentAt = time.Unix(m.Date, 0)
	}
	in.Envelope.Forwarded = m.Forward != nil || m.ViaBot != nil
	if r := m.ReplyTo; r != nil && r.TopicMade == nil { // what is said in a topic answers its begin, on the wire
		in.Envelope.ReplyTo = strconv.FormatInt(r.ID, 10)
		in.Envelope.Mentioned = r.From != nil && r.From.ID == me.ID
	}
	text, entities := m.Text, m.Entities
	if text == "" {
		text, entities = m.Caption, m.CaptionEntities
	}
	said := me.words(text, entities)
	if said.forOther {
		return in, false
	}
	in.Envelope.Mentioned = in.Envelope.Mentioned || said.mentioned
	var files []*file
	in.Parts, files = m.parts(said.text)
	for i, f := range files {
		if f.ID != "" && me.files != nil {
			in.Files = append(in.Files, channels.Attached{Part: i, Fetch: me.files(f)})
		}
	}
	return in, len(in.Parts) > 0
}

// sender says who speaks. Somebody who speaks as a group or a channel stays unknown: the group or channel is the
// sender, and approves nothing.
func (me bot) sender(m *message, in *channels.Incoming) {
	if from := m.SenderChat; from != nil {
		in.SenderID = strconv.FormatInt(from.ID, 10)
		in.SenderName = strings.TrimSpace(from.Title + " " + m.Signature)
		in.Bot = m.AutoForward // a channel's post in its discussion group is meant for all
		return
	}
	if m.From == nil {
		return
	}
	in.SenderID = strconv.FormatInt(m.From.ID, 10)
	in.SenderName = m.From.name()
	in.Bot, in.Own = m.From.IsBot, m.From.ID == me.ID
	in.Interactive = !m.From.IsBot
}

func (u user) name() string { return strings.TrimSpace(u.FirstName + " " + u.LastName) }

// press reads the press of a button: the presser says the command of the button. The platform lets anybody forge the
// data of a button, so it counts for no more than what the presser could have typed.
func (me bot) press(c *callback) (in channels.Incoming, means bool) {
	in = c.Message.place()
	in.ID = "press/" + c.ID
	in.SenderID, in.SenderName = strconv.FormatInt(c.From.ID, 10), c.From.name()
	in.Bot, in.Interactive = c.From.IsBot, !c.From.IsBot
	in.Envelope.Mentioned = true
	in.Envelope.ReplyTo = strconv.FormatInt(c.Message.ID, 10)
	in.Parts = corebot.TextPart(c.Data)
	return in, strings.HasPrefix(c.Data, "/")
}

// words are the words of a message, as a person means them.
type words struct {
	text      string
	mentioned bool // they name the bot
	forOther  bool // they are a command for another bot
}

// words reads a text with its entities: "/status@bot" is "/status", the name of the bot before the first word is not
// said, and the address behind a link is shown.
func (me bot) words(text string, entities []entity) words {
	said := words{text: text}
	if len(entities) == 0 {
		return said
	}
	units := utf16.Encode([]rune(text))
	var b strings.Builder
	at := 0
	for _, e := range entities {
		end := e.Offset + e.Length
		if e.Offset < at || e.Length <= 0 || end > len(units) { // they do not overlap where one matters
			continue
		}
		part := decode(units[e.Offset:end])
		name, own := part, false
		switch e.Type {
		case "mention":
			own = me.isName(part)
		case "text_mention":
			own = e.User != nil && e.User.ID == me.ID
		case "bot_command":
			command, of, named := strings.Cut(part, "@")
			if own = named && me.isName("@"+of); own {
				name = command
			} else if named && e.Offset == 0 {
				said.forOther = true
			}
		case "text_link":
			if e.URL != part {
				name = part + " (" + e.URL + ")"
			}
		default:
			continue
		}
		said.mentioned = said.mentioned || own
		b.WriteString(decode(units[at:e.Offset]))
		at = end
		if own && e.Type != "bot_command" && strings.TrimSpace(b.String()) == "" {
			name = ""
		}
		b.WriteString(name)
	}
	b.WriteString(decode(units[at:]))
	if all := strings.TrimSpace(b.String()); all != "" { // the name alone is said
		said.text = all
	}
	return said
}

func decode(units []uint16) string { return string(utf16.Decode(units)) }

func (me bot) isName(name string) bool {
	return me.Username != "" && strings.EqualFold(name, "@"+me.Username)
}

// startCommand is what a person's program says when he opens the chat with a bot.
const (
	startCommand = "/start"
	helpCommand  = "/help"
)

// maxName bounds the name of a file, in bytes.
const maxName = 255

// parts are the content of a message: its text, and what stands beside it.
// files has the file of each part that is no text.
func (m *message) parts(text string) (parts []corebot.Part, files []*file) {
	if first, _, _ := strings.Cut(text, " "); first == startCommand && m.Forward == nil {
		text = helpCommand
	}
	lines := []string{text, m.described()}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	if len(lines) > 0 {
		parts = corebot.TextPart(strings.Join(lines, "\n"))
	}
	add := func(kind corebot.PartType, f *file, media string) {
		if f == nil {
			return
		}
		if f.MIME != "" {
			media = f.MIME
		}
		parts = append(parts, corebot.Part{
			Type: kind, Name: runes.Head(f.Name, maxName), MediaType: runes.Head(media, maxName),
		})
		files = append(files, f)
	}
	if n := len(m.Photo); n > 0 { // the sizes of one photo, the largest last
		add(corebot.PartImage, &file{ID: m.Photo[n-1].ID}, "image/jpeg")
	}
	if m.Animation == nil { // which is a document, too
		add(corebot.PartFile, m.Document, "")
	}
	add(corebot.PartAudio, m.Audio, "")
	add(corebot.PartAudio, m.Voice, "audio/ogg")
	add(corebot.PartFile, m.Video, "")
	add(corebot.PartFile, m.VideoNote, "video/mp4")
	add(corebot.PartFile, m.Animation, "")
	return parts, files
}

// described says in words what a message has that is neither text nor a file.
func (m *message) described() string {
	switch {
	case m.Sticker != nil:
		return strings.TrimSpace("[sticker " + m.Sticker.Emoji + "]")
	case m.Venue != nil && m.Location != nil:
		return fmt.Sprintf("[place %q, %q at %.6f, %.6f]", m.Venue.Title, m.Venue.Address, m.Location.Latitude,
			m.Location.Longitude)
	case m.Location != nil:
		return fmt.Sprintf("[location %.6f, %.6f]", m.Location.Latitude, m.Location.Longitude)
	case m.Contact != nil:
		return fmt.Sprintf("[contact %q, %q]", m.Contact.name(), m.Contact.Phone)
	case m.Poll != nil:
		var options []string
		for _, o := range m.Poll.Options {
			options = append(options, strconv.Quote(o.Text))
		}
		return fmt.Sprintf("[poll %q: %s]", m.Poll.Question, strings.Join(options, ", "))
	case m.Dice != nil:
		return fmt.Sprintf("[%s %d]", m.Dice.Emoji, m.Dice.Value)
	}
	return ""
}
