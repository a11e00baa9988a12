package webhook

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/corebot/corebot"
)

const (
	pageRows  = 25      // read at once: what a page may be over pageBytes
	pageBytes = 4 << 20 // of content, about; a page has at least one reply, however long it is
)

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
	var page []corebot.Posted
	for bytes := 0; len(page) < limit && bytes < pageBytes; {
		want := min(limit-len(page), pageRows)
		rows, err := w.mailbox.After(ctx, k, after, want)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			bytes += len(row.Content)
		}
		page = append(page, rows...)
		if len(rows) < want {
			break
		}
		after = rows[len(rows)-1].Cursor
	}
	return page, nil
}

// last is the cursor of the newest reply, or zero. The mailbox tells what lies behind a cursor, so the place behind which nothing lies
// is searched for: the reach doubles, then halves. Each probe reads one reply at most, and some dozens do, however many there are.
func (w *Webhook) last(ctx context.Context, k corebot.Key) (int64, error) {
	low, high := int64(0), int64(0) // low is a reply's cursor; behind high there was nothing
	reaching := true
	for reaching || low < high {
		probe := high
		if !reaching {
			probe = low + (high-low)/2
		}
		rows, err := w.mailbox.After(ctx, k, probe, 1)
		switch {
		case err != nil:
			return 0, err
		case len(rows) == 0:
			high, reaching = probe, false
		default:
			low = rows[0].Cursor
			if reaching {
				high = low + min(low, math.MaxInt64-low)
			}
		}
	}
	return low, nil
}
