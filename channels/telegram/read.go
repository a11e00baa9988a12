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

// read makes a message of an update. relevant is false for an update that Corebot ignores, such as that somebody joined
// a group.
func (me bot) read(u update) (in channels.Incoming, relevant bool, err error) {
	switch {
	case u.wrong != nil:
		return in, false, u.wrong
	case u.Message != nil:
		in, relevant = me.message(u.Message)
		return in, relevant, nil
	case u.Edited != nil && u.Edited.Location == nil: // a live location is edited every few seconds
		in, relevant = me.message(u.Edited)
		in.EditOf, in.ID = in.ID, fmt.Sprintf("%s/edit/%d", in.ID, u.ID)
		if u.Edited.EditDate > 0 {
			in.Envelope.SentAt = time.Unix(u.Edited.EditDate, 0)
		}
		return in, relevant, nil
	case u.Callback != nil && u.Callback.Message != nil:
		in, relevant = me.press(u.Callback)
		return in, relevant, nil
	}
	return in, false, nil
}

// place begins an incoming message: it sets the chat, the topic, and whether the chat is a group.
func (m *message) place() channels.Incoming {
	in := channels.Incoming{Chat: strconv.FormatInt(m.Chat.ID, 10)}
	if m.InTopic && m.Thread != 0 {
		in.Thread = strconv.FormatInt(m.Thread, 10)
	}
	in.Envelope.Group = m.Chat.Type != "private"
	return in
}

// message reads a new or an edited message.
func (me bot) message(m *message) (in channels.Incoming, relevant bool) {
	in = m.place()
	in.ID = strconv.FormatInt(m.ID, 10)
	me.sender(m, &in)
	if m.Date > 0 {
		in.Envelope.SentAt = time.Unix(m.Date, 0)
	}
	in.Envelope.Forwarded = m.Forward != nil || m.ViaBot != nil
	if r := m.ReplyTo; r != nil && r.TopicMade == nil { // each message of a topic replies to the topic's first
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

// sender sets who speaks. A person can speak as a group or a channel, which hides the person. Then the group or channel
// is the sender. The message is not interactive, so that it approves nothing.
func (me bot) sender(m *message, in *channels.Incoming) {
	if from := m.SenderChat; from != nil {
		in.SenderID = strconv.FormatInt(from.ID, 10)
		in.SenderName = strings.TrimSpace(from.Title + " " + m.Signature)
		in.Bot = m.AutoForward // the platform itself copies a channel's posts into its discussion group
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

// press reads the press of a button as if the presser had typed the command of the button. The presser's program sends
// that command and can forge it, so a press gives no more rights than a typed command.
func (me bot) press(c *callback) (in channels.Incoming, relevant bool) {
	in = c.Message.place()
	in.ID = "press/" + c.ID
	in.SenderID, in.SenderName = strconv.FormatInt(c.From.ID, 10), c.From.name()
	in.Bot, in.Interactive = c.From.IsBot, !c.From.IsBot
	in.Envelope.Mentioned = true
	in.Envelope.ReplyTo = strconv.FormatInt(c.Message.ID, 10)
	in.Parts = corebot.TextPart(c.Data)
	return in, strings.HasPrefix(c.Data, "/")
}

// words is the text of a message as the agent reads it.
type words struct {
	text      string
	mentioned bool // the text names the bot
	forOther  bool // the text is a command for another bot
}

// words reads a text with its entities: "/status@bot" becomes "/status", the bot's name before the first word is left
// out, and the address of a link stands behind the link's text.
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
		if e.Offset < at || e.Length <= 0 || end > len(units) { // mentions, commands and links never overlap
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
	if all := strings.TrimSpace(b.String()); all != "" { // a text that is only the bot's name stays
		said.text = all
	}
	return said
}

func decode(units []uint16) string { return string(utf16.Decode(units)) }

func (me bot) isName(name string) bool {
	return me.Username != "" && strings.EqualFold(name, "@"+me.Username)
}

// Telegram sends startCommand when a person opens the chat with a bot. Corebot reads it as helpCommand.
const (
	startCommand = "/start"
	helpCommand  = "/help"
)

// maxName bounds the name of a file, in bytes.
const maxName = 255

// parts gives the content of a message: its text, and a part for each of its files.
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
	if m.Animation == nil { // an animation has its file in Document, too
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
