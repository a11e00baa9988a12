package webhook

import (
	"context"
	"strconv"
	"time"

	"github.com/corebot/corebot"
)

// pageBytes is how much content a page has, about; it has at least one reply, however long it is.
const pageBytes = 4 << 20

// message is a reply as callers see it.
type message struct {
	ID        string `json:"id"`
	InReplyTo string `json:"inReplyTo"`
	Content   string `json:"content"`
	CreatedAt string `json:"createdAt"`
	Cursor    string `json:"cursor"`
}

func messageOf(p corebot.Posted) message {
	return message{ID: p.ID, InReplyTo: p.InReplyTo, Content: p.Content, CreatedAt: timestamp(p.CreatedAt), Cursor: cursorText(p.Cursor)}
}

// timestamp is RFC 3339 in UTC with milliseconds, as everywhere in the interface.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func cursorText(n int64) string { return strconv.FormatInt(n, 10) }

// page reads the replies behind a cursor, at most limit of them and about pageBytes.
func (w *Webhook) page(ctx context.Context, k corebot.Key, after int64, limit int) ([]corebot.Posted, error) {
	return w.replies.Page(ctx, k, after, limit, pageBytes)
}
