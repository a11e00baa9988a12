package slack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/markup"
	"github.com/corebot/corebot/internal/runes"
)

const (
	maxText    = 2900 // bytes of a piece with its escapes; a section takes 3,000 characters
	minText    = 500  // of one that Slack has called too long
	maxButtons = 8
	eventType  = "corebot_sent"
)

// MaxButtons implements [channels.Buttons].
func (c *Channel) MaxButtons() int { return maxButtons }

// addressed refuses a conversation that cannot be on Slack.
func addressed(k corebot.Key) error {
	switch {
	case !isID(k.Chat):
		return corebot.WithHint(fmt.Errorf("%w: chat %q is no channel of Slack", corebot.ErrInvalid, k.Chat),
			"`corebot chats list` shows the chats that have written")
	case !isThread(k.Thread):
		return fmt.Errorf("%w: thread %q is no message of Slack", corebot.ErrInvalid, k.Thread)
	}
	return nil
}

// piece is a message as Slack gets it.
type piece struct {
	spans []markup.Span
	to    int    // the place in the whole text where it ends
	key   string // which names the very piece
}

func (c *Channel) piece(o channels.Outbound, d markup.Document, whole string, limit int) piece {
	spans, to := d.Piece(len(o.Before), limit, size)
	sum := sha256.Sum256([]byte(strings.Join([]string{
		c.site.Account.String(), o.Key.String(), o.IdempotencyKey, fmt.Sprint(len(o.Before), to, len(whole)),
	}, "\n")))
	return piece{spans, to, hex.EncodeToString(sum[:16])}
}

func (p piece) receipt(o channels.Outbound, ts string) channels.Receipt {
	r := channels.Receipt{Reached: p.to - len(o.Before)}
	if isStamp(ts) {
		r.IDs = []string{ts}
	}
	return r
}

// texts are the text of a message, whole, and with its looks.
func texts(o channels.Outbound) (markup.Document, string) {
	whole := o.Before + o.Text()
	return markup.Of(o.Kind, whole), whole
}

// Send shows one message: the beginning of the text, as much as fits. The receipt says how far that is.
func (c *Channel) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if err := addressed(o.Key); err != nil {
		return channels.Receipt{}, &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	document, whole := texts(o)
	if p, is := o.File(); is {
		return c.sendFile(ctx, o, p, c.piece(o, document, whole, maxText).key)
	}
	for limit := maxText; ; limit /= 2 {
		p := c.piece(o, document, whole, limit)
		if len(p.spans) == 0 { // nothing is left but white space
			return p.receipt(o, ""), nil
		}
		ts, err := c.show(ctx, o, p, p.to == len(whole), "")
		if limit > minText && refusedFor(err, "msg_too_long", "msg_blocks_too_long") {
			continue
		}
		if err != nil {
			return channels.Receipt{}, err
		}
		return p.receipt(o, ts), nil
	}
}

// FilesApart implements [channels.FilesApart].
func (c *Channel) FilesApart() {}

// ShowsFiles implements [channels.Files].
func (c *Channel) ShowsFiles() {}

// maxUpload is the size of a file that Slack takes.
const maxUpload = 1_000_000_000

// marked begins the id of the block below which a file stands. By the rest of it Corebot finds the file again.
const marked = "corebot-"

// sendFile gives Slack a file in three steps: it asks for an address, uploads the bytes there, and has Slack show the
// file. Nobody sees anything of it before the last step.
func (c *Channel) sendFile(ctx context.Context, o channels.Outbound, p corebot.Part, key string) (
	channels.Receipt, error,
) {
	f, size, err := c.site.Open(ctx, o.Key, p, maxUpload)
	if err != nil {
		return channels.Receipt{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	name := cmp.Or(p.Name, "file")
	var at struct {
		URL string `json:"upload_url"`
		ID  string `json:"file_id"`
	}
	err = c.bot.call(ctx, "files.getUploadURLExternal", args{"filename": name, "length": fmt.Sprint(size)}, &at)
	if err == nil && !isID(at.ID) {
		err = c.bot.wire.Strange("files.getUploadURLExternal", http.StatusOK, errors.New("it names no file"))
	}
	if err == nil {
		err = c.bot.upload(ctx, at.URL, f, size)
	}
	switch {
	case refusedFor(err, "missing_scope"): // texts go out without it
		err = &corebot.Failure{Class: corebot.Permanent, Err: errors.New("the app lacks the scope files:write")}
	}
	if err != nil {
		return channels.Receipt{}, channels.NotShown(err)
	}
	ask := args{
		"files": []any{map[string]string{"id": at.ID, "title": name}}, "channel_id": o.Key.Chat,
		"blocks": []any{map[string]any{"type": "section", "block_id": marked + key, "text": map[string]any{
			"type": "plain_text", "text": runes.Head(cmp.Or(p.Text, name), maxText), "emoji": false,
		}}},
	}
	if o.Key.Thread != "" {
		ask["thread_ts"] = o.Key.Thread
	}
	if err := c.bot.call(ctx, "files.completeUploadExternal", ask, nil); err != nil {
		return channels.Receipt{}, channels.Unsure(err)
	}
	return channels.Receipt{IDs: []string{at.ID}}, nil
}

// show posts a piece, or has it take the place of a message. One whose markup or buttons Slack refuses goes as plain
// text.
func (c *Channel) show(ctx context.Context, o channels.Outbound, p piece, last bool, place string) (string, error) {
	method, ask := "chat.postMessage", args{
		"channel": o.Key.Chat, "unfurl_links": "false", "unfurl_media": "false", "parse": "none",
		"metadata": map[string]any{"event_type": eventType, "event_payload": map[string]string{"key": p.key}},
	}
	if place != "" {
		method, ask = "chat.update", args{"channel": o.Key.Chat, "ts": place, "parse": "none"}
	} else if o.Key.Thread != "" {
		ask["thread_ts"] = o.Key.Thread
	}
	looks := func(text, mrkdwn string) {
		if ask["text"] = text; place == "" { // an edit keeps what the message was sent with
			ask["mrkdwn"] = mrkdwn
		}
	}
	plain := escape(markup.Text(p.spans))
	looks(plain, "false")
	rich := o.Kind == corebot.KindReply
	if rich {
		looks(write(p.spans), "true")
	}
	if last && len(o.Buttons) > 0 {
		if all := blocks(p.spans, rich, o.Buttons); all != nil {
			ask["blocks"] = all
		}
	}
	var sent struct {
		TS string `json:"ts"`
	}
	err := c.bot.call(ctx, method, ask, &sent)
	if refusedFor(err, "invalid_blocks", "invalid_blocks_format", "markdown_text_conflict", "invalid_arguments") {
		c.site.Log.Warn().Err(err).Msg("Slack refuses the looks of a piece, which is sent as plain text")
		looks(plain, "false")
		delete(ask, "blocks")
		err = c.bot.call(ctx, method, ask, &sent)
	}
	return sent.TS, channels.Unsure(err)
}

// blocks are a text with its buttons; nil: the text has no room in a block.
func blocks(spans []markup.Span, rich bool, actions []corebot.Action) []any {
	text := map[string]any{"type": "mrkdwn", "text": write(spans), "verbatim": true}
	if !rich {
		text = map[string]any{"type": "plain_text", "text": markup.Text(spans), "emoji": false}
	}
	if utf8.RuneCountInString(text["text"].(string)) > 3000 {
		return nil
	}
	var buttons []any
	for i, a := range actions {
		buttons = append(buttons, map[string]any{
			"type": "button", "action_id": fmt.Sprint("corebot-", i), "value": a.Command,
			"text": map[string]any{"type": "plain_text", "text": a.Label, "emoji": false},
		})
	}
	return []any{
		map[string]any{"type": "section", "text": text},
		map[string]any{"type": "actions", "elements": buttons},
	}
}

const (
	lookedPages = 10
	// lookedBack is how long before a message was made the search for its send begins. The clocks of the two machines
	// can differ as much.
	lookedBack = time.Hour
	// lookedAhead is how long after its beginning the ellipsis of a draft is looked for first.
	lookedAhead = 10 * time.Minute
)

// fileOf is the file of a message that shows one of some pieces.
func (m message) fileOf(pieces map[string]piece) string {
	if len(m.Blocks) == 0 || len(m.Files) != 1 {
		return ""
	}
	if _, is := pieces[strings.TrimPrefix(m.Blocks[0].ID, marked)]; is {
		return m.Files[0].ID
	}
	return ""
}

// Delivered implements [channels.Reconciler]: it looks for the mark of a piece among what the app itself has said.
// Slack gives the newest messages first. In a busy channel a draft is soon far behind them. So it is looked for around
// the time at which it began, and only then like any send.
func (c *Channel) Delivered(ctx context.Context, o channels.Outbound) (r channels.Receipt, shown bool, err error) {
	if addressed(o.Key) != nil { // Send says so
		return r, false, nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return r, false, err
	}
	document, whole := texts(o)
	pieces := map[string]piece{}
	for limit := maxText; limit >= minText/2; limit /= 2 {
		p := c.piece(o, document, whole, limit)
		pieces[p.key] = p
	}
	if o.IsDraft() {
		if r, shown, err = c.look(ctx, me, o, pieces, o.CreatedAt.Add(lookedAhead)); shown {
			return r, shown, err
		}
	}
	if err == nil || errors.Is(err, channels.ErrCannotTell) && !barred(err) {
		r, shown, err = c.look(ctx, me, o, pieces, time.Time{})
	}
	return r, shown, err
}

// look looks for a piece among what the app has said until a time; zero: until now.
func (c *Channel) look(ctx context.Context, me self, o channels.Outbound, pieces map[string]piece, until time.Time) (
	r channels.Receipt, shown bool, err error,
) {
	method := "conversations.history"
	ask := args{"channel": o.Key.Chat, "include_all_metadata": "true", "limit": "200"}
	if !until.IsZero() {
		ask["latest"] = stamp(until)
	}
	if !o.CreatedAt.IsZero() {
		ask["oldest"] = stamp(o.CreatedAt.Add(-lookedBack))
	}
	if o.Key.Thread != "" {
		method, ask["ts"] = "conversations.replies", o.Key.Thread
	}
	looked := 0
	err = c.pages(ctx, method, ask, func(page page) bool {
		looked++
		for _, m := range page.Messages {
			p, is := pieces[m.Metadata.Payload.Key]
			if is && me.wrote(m) && m.Metadata.Type == eventType && isStamp(m.TS) {
				r, shown = p.receipt(o, m.TS), true
			}
			if id := m.fileOf(pieces); id != "" && me.wrote(m) {
				r, shown = channels.Receipt{IDs: []string{id}}, true
			}
		}
		return !shown && looked < lookedPages
	})
	switch {
	case refusedFor(err, "channel_not_found", "not_in_channel", "thread_not_found", "is_archived"):
		return r, false, nil // Send says so
	case barred(err): // such as without a scope for the history: the wait would be for ever
		err = fmt.Errorf("%w: %w", channels.ErrCannotTell, err)
	case err == nil && !shown && looked == lookedPages:
		err = fmt.Errorf("%w: it is not on the last %d pages of the channel", channels.ErrCannotTell, lookedPages)
	}
	return r, shown, err
}
