package telegram

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/markup"
)

const (
	maxUnits = 4096 // of the text of a message, in UTF-16 units, without markup
	minUnits = 512  // of a message that the platform has called too long

	maxButtons = 8
	maxData    = 64 // bytes of a button's command
)

// MaxButtons implements [channels.Buttons].
func (c *Channel) MaxButtons() int { return maxButtons }

// Send shows one message: the beginning of the text, as much as fits. The receipt says how far that is.
func (c *Channel) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	args, err := addressed(o.Key)
	if err != nil {
		return channels.Receipt{}, &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	if p, is := o.File(); is {
		return c.sendFile(ctx, o, args, p)
	}
	answers(o, args)
	receipt, err := c.showPiece(ctx, "sendMessage", o, args)
	return receipt, channels.Unsure(err)
}

// Edit implements [channels.Editor].
func (c *Channel) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	args, err := shownAs(o.Key, id)
	if err != nil {
		return channels.Receipt{}, &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	receipt, err := c.showPiece(ctx, "editMessageText", o, args)
	for _, words := range []string{"message to edit not found", "message can't be edited", "message_id_invalid"} {
		if refusedFor(err, words) {
			err = fmt.Errorf("%w: %w", channels.ErrGone, err)
		}
	}
	return receipt, channels.Unsure(err)
}

// Erase implements [channels.Editor].
func (c *Channel) Erase(ctx context.Context, k corebot.Key, id string) error {
	args, err := shownAs(k, id)
	if err != nil {
		return err
	}
	if _, err = call[bool](ctx, &c.client, "deleteMessage", args); refusedFor(err, "message to delete not found") {
		return nil
	}
	return err
}

// groupEvery is how rarely a draft is edited in a group. The platform takes 20 messages a minute there.
const groupEvery = 6 * time.Second

// DraftEvery implements [channels.Editor].
func (c *Channel) DraftEvery(k corebot.Key) time.Duration {
	if c.stream > 0 && strings.HasPrefix(k.Chat, "-") {
		return max(c.stream, groupEvery)
	}
	return c.stream
}

// shownAs are the arguments that name a message of the bot.
func shownAs(k corebot.Key, id string) (map[string]any, error) {
	k.Thread = "" // a message is known by its chat
	args, err := addressed(k)
	if err == nil {
		args["message_id"], err = parseID(id)
	}
	return args, err
}

// showPiece shows the beginning of a text by a method.
func (c *Channel) showPiece(ctx context.Context, method string, o channels.Outbound, args map[string]any) (
	channels.Receipt, error,
) {
	args["link_preview_options"] = map[string]any{"is_disabled": true} // nobody but the reader opens its links
	whole := o.Before + o.Text()
	document := markup.Of(o.Kind, whole)
	for limit := maxUnits; ; limit /= 2 {
		spans, to := document.Piece(len(o.Before), limit, units)
		if to == len(whole) {
			if rows := keyboard(o.Buttons); len(rows) > 0 {
				args["reply_markup"] = map[string]any{"inline_keyboard": rows}
			}
		}
		id, err := c.show(ctx, method, args, spans)
		if limit > minUnits && refusedFor(err, "message is too long") {
			delete(args, "reply_markup")
			continue
		}
		if err != nil && !refusedFor(err, "message is not modified") { // which an edit that is made again is not
			return channels.Receipt{}, err
		}
		receipt := channels.Receipt{Reached: to - len(o.Before)}
		if id != 0 {
			receipt.IDs = []string{strconv.FormatInt(id, 10)}
		}
		return receipt, nil
	}
}

// answers has the first piece of a message in a group stand below the message that it answers.
func answers(o channels.Outbound, args map[string]any) {
	if answered, err := parseID(o.InReplyTo); err == nil && o.Before == "" && args["chat_id"].(int64) < 0 {
		args["reply_parameters"] = map[string]any{"message_id": answered, "allow_sending_without_reply": true}
	}
}

// looks are the elements of the platform's HTML.
var looks = markup.HTML{Bold: "b", Italic: "i", Struck: "s"}

// show sends styled text. Text whose markup is refused goes as it is.
func (c *Channel) show(ctx context.Context, method string, args map[string]any, spans []markup.Span) (
	id int64, err error,
) {
	if len(spans) == 0 { // nothing is left but white space
		return 0, nil
	}
	args["text"], args["parse_mode"] = looks.Write(spans), "HTML"
	if id, err = c.post(ctx, method, args); err == nil {
		return id, nil
	}
	if refusedFor(err, "can't parse entities") {
		c.site.Log.Warn().Err(err).Msg("the platform refuses the markup of a piece, which is sent as plain text")
		args["text"] = markup.Text(spans)
		delete(args, "parse_mode")
		return c.post(ctx, method, args)
	}
	return 0, err
}

// post sends or edits a message. A group that was made a supergroup has another id since: the platform says which.
func (c *Channel) post(ctx context.Context, method string, args map[string]any) (int64, error) {
	return c.migrating(args, func() (sent, error) { return call[sent](ctx, &c.client, method, args) })
}

type sent struct {
	ID int64 `json:"message_id"`
}

// migrating makes a send again in the chat that the platform names in the place of its own. There the number of a
// message means another message: no edit is made again, and the send stands below none.
func (c *Channel) migrating(args map[string]any, send func() (sent, error)) (int64, error) {
	m, err := send()
	if refused := (*refusal)(nil); errors.As(err, &refused) && refused.migrateTo != 0 {
		if args["message_id"] != nil {
			return 0, fmt.Errorf("%w: %w", channels.ErrGone, err)
		}
		delete(args, "reply_parameters")
		args["chat_id"] = refused.migrateTo
		m, err = send()
	}
	return m.ID, err
}

// Limits of files that a bot sends, and of their captions.
const (
	maxUpload  = 50_000_000
	maxPhoto   = 10_000_000
	maxCaption = 1024 // UTF-16 units
)

// FilesApart implements [channels.FilesApart].
func (c *Channel) FilesApart() {}

// ShowsFiles implements [channels.Files].
func (c *Channel) ShowsFiles() {}

// looksOf is the method by which a file is shown as what it is, and the name of its field.
func looksOf(p corebot.Part, size int64) (method, field string) {
	switch p.MediaType {
	case "image/png", "image/jpeg", "image/webp":
		if size <= maxPhoto {
			return "sendPhoto", "photo"
		}
	case "audio/ogg":
		return "sendVoice", "voice"
	case "audio/mpeg", "audio/mp4":
		return "sendAudio", "audio"
	}
	return "sendDocument", "document"
}

// sendFile shows a file. One that the platform does not show as a picture or a recording goes as a document.
func (c *Channel) sendFile(ctx context.Context, o channels.Outbound, args map[string]any, p corebot.Part) (
	channels.Receipt, error,
) {
	f, size, err := c.site.Open(ctx, o.Key, p, maxUpload)
	if err != nil {
		return channels.Receipt{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	answers(o, args)
	if p.Text != "" {
		args["caption"] = head(p.Text, maxCaption)
	}
	part := channels.FilePart{Name: cmp.Or(p.Name, "file"), MediaType: p.MediaType, Content: f, Size: size}
	for method, field := looksOf(p, size); ; method, field = "sendDocument", "document" {
		part.Field = field
		id, err := c.migrating(args, func() (sent, error) { return upload[sent](ctx, &c.client, method, args, part) })
		r := (*refusal)(nil)
		if method != "sendDocument" && errors.As(err, &r) && r.code == http.StatusBadRequest {
			continue
		}
		if err != nil {
			return channels.Receipt{}, channels.Unsure(err)
		}
		return channels.Receipt{IDs: []string{strconv.FormatInt(id, 10)}}, nil
	}
}

// head is the beginning of a text, of at most so many units.
func head(s string, limit int) string {
	n := 0
	for i, r := range s {
		if n += max(utf16.RuneLen(r), 1); n > limit {
			return s[:i]
		}
	}
	return s
}

// typingShown is how long the platform shows that somebody types, but for the time that a request takes.
const typingShown = 4500 * time.Millisecond

// Typing implements [channels.Typer].
func (c *Channel) Typing(ctx context.Context, k corebot.Key) (time.Duration, error) {
	args, err := addressed(k)
	if err != nil {
		return 0, err
	}
	args["action"] = "typing"
	_, err = call[bool](ctx, &c.client, "sendChatAction", args)
	return typingShown, err
}

// addressed are the arguments that name a conversation.
func addressed(k corebot.Key) (map[string]any, error) {
	chat, err := parseID(k.Chat)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("%w: chat %w", corebot.ErrInvalid, err),
			"`corebot chats list` shows the chats that have written")
	}
	args := map[string]any{"chat_id": chat}
	if k.Thread != "" {
		if args["message_thread_id"], err = parseID(k.Thread); err != nil {
			return nil, fmt.Errorf("%w: thread %w", corebot.ErrInvalid, err)
		}
	}
	return args, nil
}

type button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// keyboard puts buttons below a message, two in a row. A command that has no room in a button stands in the text.
func keyboard(actions []corebot.Action) (rows [][]button) {
	for _, a := range actions {
		if len(a.Command) > maxData {
			continue
		}
		b := button{a.Label, a.Command}
		if n := len(rows); n > 0 && len(rows[n-1]) == 1 {
			rows[n-1] = append(rows[n-1], b)
		} else {
			rows = append(rows, []button{b})
		}
	}
	return rows
}

// menu registers the chat commands, as the platform's programs show them to people who type a slash.
func menu() map[string]any {
	type entry struct {
		Command     string `json:"command"`
		Description string `json:"description"`
	}
	all := []entry{{strings.TrimPrefix(startCommand, "/"), "what can be said here"}}
	for _, c := range corebot.Commands() {
		all = append(all, entry{strings.TrimPrefix(c.Name, "/"), strings.TrimSpace(c.Args + " " + c.Summary)})
	}
	return map[string]any{"commands": all}
}

// units is the length of a text as the platform counts it.
func units(s string) (n int) {
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}
