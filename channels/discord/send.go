package discord

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/markup"
	"github.com/corebot/corebot/internal/runes"
)

const (
	maxUnits = 2000 // of a message, with its marks
	minUnits = 256  // of the text of a piece
	maxNonce = 25

	maxButtons   = 10
	buttonsInRow = 5
	maxCommand   = 100 // bytes of the command of a button
	maxLabel     = 80

	typeRow, typeButton, buttonPlain = 1, 2, 2
	flagNoPreview                    = 1 << 2 // nobody but the reader opens the links of an answer
)

// MaxButtons implements [channels.Buttons].
func (c *Channel) MaxButtons() int { return maxButtons }

// piece is a message as the platform gets it.
type piece struct {
	content string
	nonce   string // names the very text
	to      int    // the place in the whole text where it ends
	blank   bool   // nothing is left but white space
	last    bool
}

// texts are the text of a message, whole, and with its looks.
func texts(o channels.Outbound) (markup.Document, string) {
	whole := o.Before + o.Text()
	return markup.Of(o.Kind, whole), whole
}

// piece makes the next message of a text, as much as fits with its marks.
func (c *Channel) piece(o channels.Outbound) piece {
	document, whole := texts(o)
	for limit := maxUnits; ; {
		spans, to := document.Piece(len(o.Before), limit, units)
		p := piece{content: write(spans), to: to, blank: len(spans) == 0, last: to == len(whole)}
		need := units(p.content)
		if need > maxUnits && limit > minUnits {
			limit = max(min(limit*maxUnits/need, limit-1), minUnits)
			continue
		}
		if need > maxUnits { // such as addresses that are longer than a message
			p.content = unmarked(spans)
		}
		sum := sha256.Sum256([]byte(strings.Join([]string{
			c.site.Account.String(), o.Key.String(), o.IdempotencyKey, fmt.Sprint(len(o.Before), to, len(whole)),
		}, "\n")))
		p.nonce = strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:maxNonce-1]
		return p
	}
}

// unmarked is text without looks.
func unmarked(spans []markup.Span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return escape(b.String(), true)
}

// Send shows one message: the beginning of the text, as much as fits. The receipt says how far that is. The platform
// shows no second message with the same nonce for some minutes, and gives the first.
func (c *Channel) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	channel, err := addressed(o.Key)
	if err != nil {
		return channels.Receipt{}, &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	p := c.piece(o)
	file, isFile := o.File()
	if p.blank && !isFile {
		return channels.Receipt{Reached: p.to - len(o.Before)}, nil
	}
	body := p.body(o)
	body["nonce"], body["enforce_nonce"] = p.nonce, true
	if of := answered(o); of != "" {
		body["message_reference"] = map[string]any{"message_id": of, "fail_if_not_exists": false}
	}
	ask := channels.Post(body, "channels", channel, "messages")
	if isFile {
		f, size, err := c.site.Open(ctx, o.Key, file, maxUpload)
		if err != nil {
			return channels.Receipt{}, err
		}
		defer f.Close() //nolint:errcheck // only read
		name := cmp.Or(file.Name, "file")
		body["content"], body["attachments"] = head(file.Text), []any{map[string]any{"id": 0, "filename": name}}
		ask.Field, ask.File = "payload_json", &channels.FilePart{
			Field: "files[0]", Name: name, MediaType: file.MediaType, Content: f, Size: size,
		}
	}
	m, err := call[struct {
		ID string `json:"id"`
	}](ctx, &c.client, ask)
	if err != nil {
		return channels.Receipt{}, channels.Unsure(err)
	}
	if isID(m.ID) {
		note(c, &c.sent, p.nonce, m.ID)
	}
	return p.receipt(o, m.ID), nil
}

// body is what a message shows, new or edited.
func (p piece) body(o channels.Outbound) map[string]any {
	body := map[string]any{
		"content": p.content, "flags": flagNoPreview,
		"allowed_mentions": map[string]any{"parse": []string{}}, // no word of a model notifies anybody
	}
	if rows := components(o.Buttons); p.last && len(rows) > 0 {
		body["components"] = rows
	}
	return body
}

// Edit implements [channels.Editor]. The client keeps the budget of edits, which the platform tells with each.
func (c *Channel) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	channel, err := addressed(o.Key)
	p := c.piece(o)
	switch {
	case err == nil && !isID(id):
		err = fmt.Errorf("%w: %q is no message of Discord", corebot.ErrInvalid, id)
	case err == nil && p.blank:
		err = errors.New("nothing is left to show")
	}
	if err != nil {
		return channels.Receipt{}, &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	if _, err = c.client.do(ctx, channels.Patch(p.body(o), "channels", channel, "messages", id)); err != nil {
		if refusedBy(err, codeNoMessage) {
			err = fmt.Errorf("%w: %w", channels.ErrGone, err)
		}
		return channels.Receipt{}, channels.Unsure(err)
	}
	return p.receipt(o, id), nil
}

// Erase implements [channels.Editor].
func (c *Channel) Erase(ctx context.Context, k corebot.Key, id string) error {
	channel, err := addressed(k)
	if err == nil && isID(id) {
		_, err = c.client.do(ctx, channels.Delete("channels", channel, "messages", id))
	}
	if refusedBy(err, codeNoMessage) {
		return nil
	}
	return err
}

// DraftEvery implements [channels.Editor].
func (c *Channel) DraftEvery(corebot.Key) time.Duration { return c.settings.Stream }

// FilesApart implements [channels.FilesApart].
func (c *Channel) FilesApart() {}

// ShowsFiles implements [channels.Files].
func (c *Channel) ShowsFiles() {}

// maxUpload bounds a file. The platform's own limit depends on the server, and is in its refusal.
const maxUpload = 500_000_000

// head is the beginning of a caption, without looks.
func head(caption string) string {
	for limit := maxUnits; ; limit /= 2 {
		text := escape(runes.Head(caption, limit), true)
		if units(text) <= maxUnits {
			return text
		}
	}
}

// same says whether a message of the bot shows what a send would show. The platform changes the names of files: letters
// and digits of the usual kind are left.
func (c *Channel) same(ctx context.Context, o channels.Outbound, p piece) (func(message) bool, error) {
	file, is := o.File()
	if !is {
		return func(m message) bool {
			return len(m.Attachments) == 0 && strings.TrimSpace(m.Content) == strings.TrimSpace(p.content)
		}, nil
	}
	f, size, err := c.site.Open(ctx, o.Key, file, maxUpload)
	if failed := (*corebot.Failure)(nil); errors.As(err, &failed) && failed.Class == corebot.Permanent {
		return func(message) bool { return false }, nil // Send says so
	}
	if err != nil {
		return nil, err
	}
	_ = f.Close() // its size was asked for
	return func(m message) bool {
		return len(m.Attachments) == 1 && m.Attachments[0].Size == size &&
			plainName(m.Attachments[0].Name) == plainName(cmp.Or(file.Name, "file"))
	}, nil
}

func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, name)
}

func (p piece) receipt(o channels.Outbound, id string) channels.Receipt {
	r := channels.Receipt{Reached: p.to - len(o.Before)}
	if isID(id) {
		r.IDs = []string{id}
	}
	return r
}

// answered is the message to which the first piece of a text is shown as the answer; empty: none. By it Corebot finds
// the answer again.
func answered(o channels.Outbound) string {
	id, _, _ := strings.Cut(o.InReplyTo, "/") // an edit is answered as its message
	if o.Before != "" || !isID(id) {
		return ""
	}
	return id
}

const (
	lookedPages = 20
	// lookedBack is how far from the time at which a message was made the search for its send begins, and ends for a
	// draft. The clocks of the two machines can differ as much.
	lookedBack = time.Hour
)

// Delivered implements [channels.Reconciler]. The platform tells a nonce only once. So Corebot looks for a message of
// the bot that answers the same message with the very text. A conversation sends one message at a time. So behind the
// first piece there are only pieces of the same text.
//
// A text that answers nothing can be the same as another: then nobody can tell, and the nonce decides. The ellipsis of
// a draft is found all the same, if the bot has said no other one since the draft began. It answers nothing if a
// command is what it answers, or if somebody has deleted the message.
func (c *Channel) Delivered(ctx context.Context, o channels.Outbound) (channels.Receipt, bool, error) {
	channel, err := addressed(o.Key)
	if err != nil { // Send says so
		return channels.Receipt{}, false, nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return channels.Receipt{}, false, err
	}
	p := c.piece(o)
	if id, is := look(c, &c.sent, p.nonce); is {
		return p.receipt(o, id), true, nil
	}
	shows, err := c.same(ctx, o, p)
	if err != nil {
		return channels.Receipt{}, false, err
	}
	of, after := lookFrom(o)
	begun, alike := o.Before == "", false
	var alone []string // the same text, that answers nothing
	for range lookedPages {
		found, err := c.page(ctx, channel, after)
		if final(err) {
			return channels.Receipt{}, false, nil // not there any more: Send says so
		}
		if err != nil {
			return channels.Receipt{}, false, err
		}
		for _, m := range found {
			after = later(after, m.ID)
			if m.wrong != nil || m.Author == nil || m.Author.ID != me.id {
				continue
			}
			answers := of != "" && m.Reference != nil && m.Reference.Message == of
			switch same := shows(m) && !slices.Contains(o.Shown, m.ID); { // two pieces can look the same
			case same && begun && (answers || o.Before != "" && of != ""):
				return p.receipt(o, m.ID), true, nil
			case same && o.IsDraft():
				if m.Reference == nil {
					alone = append(alone, m.ID)
				}
			case same:
				alike = true
			}
			begun = begun || answers
		}
		if len(found) < pageMessages || o.IsDraft() && madeAt(after).After(o.CreatedAt.Add(lookedBack)) {
			if len(alone) == 1 {
				return p.receipt(o, alone[0]), true, nil
			}
			if alike && of == "" || len(alone) > 1 {
				return channels.Receipt{}, false, fmt.Errorf("%w: the channel shows the same text",
					channels.ErrCannotTell)
			}
			return channels.Receipt{}, false, nil
		}
	}
	return channels.Receipt{}, false, fmt.Errorf("%w: it is not among the first %d messages behind the one that "+
		"it answers", channels.ErrCannotTell, lookedPages*pageMessages)
}

// lookFrom is the message that a send answers, and the id behind which Corebot looks for it. The message can have
// waited while others wrote, so a draft is looked for from about the time at which it began.
func lookFrom(o channels.Outbound) (of, after string) {
	of, command, _ := strings.Cut(o.InReplyTo, "/")
	began := firstAt(o.CreatedAt.Add(-lookedBack))
	switch {
	case isID(of) && o.IsDraft():
		return of, later(began, of)
	case isID(of):
		return of, of
	case isID(command) && o.IsDraft():
		return "", later(began, command)
	}
	return "", began
}

// typingAgain is when to say again that the bot types: the platform shows it for 10 s.
const typingAgain = 8 * time.Second

// Typing implements [channels.Typer].
func (c *Channel) Typing(ctx context.Context, k corebot.Key) (time.Duration, error) {
	channel, err := addressed(k)
	if err != nil {
		return 0, err
	}
	_, err = c.client.do(ctx, channels.Post(nil, "channels", channel, "typing"))
	return typingAgain, err
}

// addressed is the channel or the thread of a conversation.
func addressed(k corebot.Key) (string, error) {
	switch {
	case !isID(k.Chat):
		return "", corebot.WithHint(fmt.Errorf("%w: chat %q is no channel of Discord", corebot.ErrInvalid, k.Chat),
			"`corebot chats list` shows the chats that have written")
	case k.Thread != "" && !isID(k.Thread):
		return "", fmt.Errorf("%w: thread %q is no thread of Discord", corebot.ErrInvalid, k.Thread)
	case k.Thread != "":
		return k.Thread, nil
	}
	return k.Chat, nil
}

// components puts buttons below a message. A command that has no room in a button stands in the text.
func components(actions []corebot.Action) (rows []map[string]any) {
	var buttons []map[string]any
	for _, a := range actions {
		if len(a.Command) > maxCommand || units(a.Label) > maxLabel || a.Label == "" {
			continue
		}
		buttons = append(buttons, map[string]any{
			"type": typeButton, "style": buttonPlain, "label": a.Label, "custom_id": a.Command,
		})
	}
	for len(buttons) > 0 {
		n := min(len(buttons), buttonsInRow)
		rows = append(rows, map[string]any{"type": typeRow, "components": buttons[:n]})
		buttons = buttons[n:]
	}
	return rows
}
