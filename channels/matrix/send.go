package matrix

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/markup"
)

// An event has at most 64 KiB, with what homeservers add to it. A piece has its text twice: plain, and in HTML.
const (
	maxUnits = 44 << 10 // of a piece, as units measures it
	minUnits = 1 << 10  // of one that the homeserver has called too large
	maxEvent = 60 << 10 // bytes of the content
)

// looks are the elements of HTML on Matrix.
var looks = markup.HTML{Bold: "strong", Italic: "em", Struck: "del", Break: "<br/>"}

// units is the size of a text in an event: as JSON, plain and in HTML.
func units(s string) (n int) {
	for _, r := range s {
		switch r {
		case '\n':
			n += len(`\n`) + len(looks.Break)
		case '"', '\\', '\t', '\r':
			n += 2 + len(html.EscapeString(string(r)))
		default:
			if r < ' ' {
				n += 2 * len(`\u0000`)
			} else {
				n += len(string(r)) + len(html.EscapeString(string(r)))
			}
		}
	}
	return n
}

// piece is a message as the homeserver gets it.
type piece struct {
	event map[string]any
	key   string // the id of the transaction, which names the very text
	to    int    // the place in the whole text where it ends
	blank bool   // nothing is left but white space
}

// piece makes the next message of a text, as much as fits.
func (c *Channel) piece(o channels.Outbound, document markup.Document, whole string, limit int) piece {
	for ; ; limit /= 2 {
		spans, to := document.Piece(len(o.Before), limit, units)
		p := piece{to: to, blank: len(spans) == 0}
		sum := sha256.Sum256([]byte(strings.Join([]string{
			c.site.Account.String(), o.Key.String(), o.IdempotencyKey, fmt.Sprint(len(o.Before), to, len(whole)),
		}, "\n")))
		p.key = hex.EncodeToString(sum[:16])
		p.event = map[string]any{
			"msgtype": "m.text", "body": markup.Text(spans),
			"m.mentions": map[string]any{}, // no word of a model rings the phones of a room
			markKey:      p.key,
		}
		if !looks.Plain(spans) {
			p.event["format"], p.event["formatted_body"] = "org.matrix.custom.html", looks.Write(spans)
		}
		if limit <= minUnits || size(p.event) <= maxEvent {
			return p
		}
	}
}

// markKey is the field of an event in which Corebot finds its own sends again, also with another token and after the
// homeserver has forgotten the transaction.
const markKey = "com.github.corebot.sent"

// size is how long an event is as JSON.
func size(event map[string]any) int {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(event) != nil { // texts only: cannot fail
		return 0
	}
	return b.Len()
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
	relates := c.relates(ctx, o)
	document, whole := texts(o)
	if p, is := o.File(); is {
		return c.sendFile(ctx, o, p, c.piece(o, document, whole, maxUnits), relates)
	}
	for limit := maxUnits; ; limit /= 2 {
		p := c.piece(o, document, whole, limit)
		if p.blank {
			return channels.Receipt{Reached: p.to - len(o.Before)}, nil
		}
		receipt, err := c.show(ctx, o, p, relates)
		if limit > minUnits && tooLarge(err) {
			continue
		}
		return receipt, err
	}
}

// show gives an event to the homeserver.
func (c *Channel) show(ctx context.Context, o channels.Outbound, p piece, relates map[string]any) (
	channels.Receipt, error,
) {
	if relates != nil {
		p.event["m.relates_to"] = relates
	}
	id, err := c.sendEvent(ctx, o.Key.Chat, p.key, p.event)
	if err != nil {
		return channels.Receipt{}, err
	}
	return p.receipt(o, id), nil
}

// FilesApart implements [channels.FilesApart].
func (c *Channel) FilesApart() {}

// ShowsFiles implements [channels.Files].
func (c *Channel) ShowsFiles() {}

// maxUpload bounds a file. Each homeserver has a limit of its own, too.
const maxUpload = 1 << 30

// sendFile uploads a file, and shows it by an event with the transaction id of its piece. The homeserver keeps an
// upload that no event shows: that is all that a crash in between leaves.
func (c *Channel) sendFile(ctx context.Context, o channels.Outbound, p corebot.Part, as piece, relates map[string]any) (
	channels.Receipt, error,
) {
	f, size, err := c.site.Open(ctx, o.Key, p, maxUpload)
	if err != nil {
		return channels.Receipt{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	name := cmp.Or(p.Name, "file")
	whole := func() io.Reader { return io.NewSectionReader(f, 0, size) }
	up, key, err := c.sealFile(ctx, o.Key.Chat, upload{name, p.MediaType, size, whole})
	if err != nil {
		return channels.Receipt{}, err
	}
	address, err := c.client.upload(ctx, up)
	if err != nil {
		return channels.Receipt{}, err
	}
	as.event = map[string]any{
		"msgtype": looksOf(p), "body": cmp.Or(p.Text, name), "filename": name,
		"info":       map[string]any{"mimetype": p.MediaType, "size": size},
		"m.mentions": map[string]any{}, markKey: as.key,
	}
	if key != nil {
		as.event["file"] = key.Said(address)
	} else {
		as.event["url"] = address
	}
	return c.show(ctx, o, as, relates)
}

// looksOf is what a file is shown as.
func looksOf(p corebot.Part) string {
	switch p.Type {
	case corebot.PartImage:
		return "m.image"
	case corebot.PartAudio:
		return "m.audio"
	}
	return "m.file"
}

func (p piece) receipt(o channels.Outbound, id string) channels.Receipt {
	r := channels.Receipt{Reached: p.to - len(o.Before)}
	if isEvent(id) {
		r.IDs = []string{id}
	}
	return r
}

// tooLarge says whether the homeserver has refused an event for its size.
func tooLarge(err error) bool {
	r := (*refusal)(nil)
	return errors.As(err, &r) && (r.status == 413 || r.code == "M_TOO_LARGE")
}

const (
	lookedPages = 20
	// lookedBack is how long before a message was made the search for its send begins. The clocks of the two machines
	// can differ as much.
	lookedBack = time.Hour
)

// Delivered implements [channels.Reconciler]. The homeserver knows a transaction again, unless it was started anew, or
// the account has another token since. So Corebot looks for its own event in the room, the newest first. In a busy room
// a draft is soon far behind those. So it is looked for behind the message that it answers, and only then like any
// send.
func (c *Channel) Delivered(ctx context.Context, o channels.Outbound) (channels.Receipt, bool, error) {
	if addressed(o.Key) != nil { // Send says so
		return channels.Receipt{}, false, nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return channels.Receipt{}, false, err
	}
	document, whole := texts(o)
	pieces := map[string]piece{}
	for limit := maxUnits; limit >= minUnits; limit /= 2 {
		p := c.piece(o, document, whole, limit)
		pieces[p.key] = p
	}
	if o.IsDraft() {
		if r, shown := c.behind(ctx, me, o, pieces); shown {
			return r, true, nil
		}
	}
	from := ""
	for range lookedPages {
		page, err := c.page(ctx, o.Key.Chat, "b", from, "")
		if refused := (*refusal)(nil); errors.As(err, &refused) && refused.status < 429 {
			return channels.Receipt{}, false, nil // not in the room: Send says so
		}
		if err != nil {
			return channels.Receipt{}, false, err
		}
		for _, e := range page.Chunk {
			if e.wrong != nil || e.Sender != me.id {
				continue
			}
			if p, is := pieces[e.mark()]; is {
				return p.receipt(o, e.ID), true, nil
			}
			if !o.CreatedAt.IsZero() && time.UnixMilli(int64(e.Sent)).Before(o.CreatedAt.Add(-lookedBack)) {
				return channels.Receipt{}, false, nil
			}
		}
		if page.End == "" || page.End == from || len(page.Chunk) == 0 {
			return channels.Receipt{}, false, nil
		}
		from = page.End
	}
	return channels.Receipt{}, false, fmt.Errorf("%w: it is not among the last %d events of the room",
		channels.ErrCannotTell, lookedPages*pageEvents)
}

// mark names the send of an own event.
func (e event) mark() string {
	if sent := contentOf(e.Content).Sent; sent != nil {
		return *sent
	}
	return e.Unsigned.Transaction
}

// behind looks for an own event among those behind the message that it answers, the oldest first. It stops without a
// word at a homeserver that does not give the place of that message.
func (c *Channel) behind(ctx context.Context, me self, o channels.Outbound, pieces map[string]piece) (
	r channels.Receipt, shown bool,
) {
	if !isEvent(o.InReplyTo) {
		return r, false
	}
	type around struct {
		After []event `json:"events_after"`
		End   string  `json:"end"`
	}
	at, err := call[around](ctx, &c.client,
		channels.Get("rooms", o.Key.Chat, "context", o.InReplyTo).With("limit", "0"))
	events, from := at.After, at.End
	for range lookedPages {
		for _, e := range events {
			if p, is := pieces[e.mark()]; is && e.wrong == nil && e.Sender == me.id {
				return p.receipt(o, e.ID), true
			}
		}
		if err != nil || from == "" {
			return r, false
		}
		var next page
		if next, err = c.page(ctx, o.Key.Chat, "f", from, ""); len(next.Chunk) == 0 || next.End == from {
			next.End = ""
		}
		events, from = next.Chunk, next.End
	}
	return r, false
}

// relates says where a message stands: in its thread, or as an answer in a room of many. Without an answer from the
// homeserver it stands by itself.
func (c *Channel) relates(ctx context.Context, o channels.Outbound) map[string]any {
	answered := o.InReplyTo
	if !isEvent(answered) {
		answered = ""
	}
	if root := o.Key.Thread; root != "" {
		if answered == "" {
			answered = root
		}
		return map[string]any{
			"rel_type": relThread, "event_id": root, "is_falling_back": true,
			"m.in_reply_to": map[string]any{"event_id": answered},
		}
	}
	if answered == "" || o.Before != "" {
		return nil
	}
	if group, err := c.isGroup(ctx, o.Key.Chat); err != nil || !group {
		return nil
	}
	return map[string]any{"m.in_reply_to": map[string]any{"event_id": answered}}
}

// typingShown is how long a room shows that the account types, and typingAgain when that is said again.
const (
	typingShown = 6 * time.Second
	typingAgain = 5 * time.Second
)

// Typing implements [channels.Typer].
func (c *Channel) Typing(ctx context.Context, k corebot.Key) (time.Duration, error) {
	if err := addressed(k); err != nil {
		return 0, err
	}
	me, err := c.me(ctx)
	if err != nil {
		return 0, err
	}
	_, err = call[struct{}](ctx, &c.client, channels.Put(map[string]any{
		"typing": true, "timeout": typingShown.Milliseconds(),
	}, "rooms", k.Chat, "typing", me.id))
	return typingAgain, err
}

// addressed refuses a conversation that cannot be on Matrix.
func addressed(k corebot.Key) error {
	switch {
	case !isRoom(k.Chat):
		return corebot.WithHint(fmt.Errorf("%w: chat %q is no room of Matrix", corebot.ErrInvalid, k.Chat),
			"`corebot chats list` shows the chats that have written")
	case k.Thread != "" && !isEvent(k.Thread):
		return fmt.Errorf("%w: thread %q is no event of Matrix", corebot.ErrInvalid, k.Thread)
	}
	return nil
}
