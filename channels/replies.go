package channels

import (
	"context"
	"fmt"
	"sync"

	"github.com/corebot/corebot"
)

// Mailbox keeps replies for whoever fetches them. Post puts a message at the end of its conversation's list, once, however often
// it is posted. After gives at most limit messages behind a cursor, oldest first; cursors are positive and rise. Last is the newest
// cursor, or zero.
type Mailbox interface {
	Post(ctx context.Context, m corebot.Message) error
	After(ctx context.Context, k corebot.Key, cursor int64, limit int) ([]corebot.Posted, error)
	Last(ctx context.Context, k corebot.Key) (cursor int64, err error)
}

// Replies is how a channel sends whose callers fetch what was said to them: a mailbox, and those who wait at it. It is safe for use by several
// goroutines.
type Replies struct {
	box   Mailbox
	wakes wakes
}

// NewReplies keeps replies in a mailbox.
func NewReplies(box Mailbox) *Replies { return &Replies{box: box} }

// Send puts a reply into the mailbox and wakes who waits for it. Sending it again changes nothing.
func (r *Replies) Send(ctx context.Context, o Outbound) error {
	m := corebot.Message{
		ID: o.IdempotencyKey, Direction: corebot.Outbound, Key: o.Key, Kind: o.Kind, Parts: o.Parts, InReplyTo: o.InReplyTo,
		CreatedAt: o.CreatedAt,
	}
	if err := r.box.Post(ctx, m); err != nil {
		return fmt.Errorf("put the reply into the mailbox: %w", err)
	}
	r.wakes.wake(m.Key)
	return nil
}

// Watch gives a channel that something can be received from once there may be more replies in a conversation, until stop is called. Who reads the
// mailbox after Watch, and again after each wake, misses none.
func (r *Replies) Watch(k corebot.Key) (wake <-chan struct{}, stop func()) { return r.wakes.watch(k) }

// Last is the newest cursor of a conversation, or zero.
func (r *Replies) Last(ctx context.Context, k corebot.Key) (int64, error) { return r.box.Last(ctx, k) }

// replyRows are read at once: what a page may be over its bytes.
const replyRows = 25

// Page reads the replies behind a cursor: at most limit of them, and about so many bytes of content, but at least one if there is one, however long
// it is.
func (r *Replies) Page(ctx context.Context, k corebot.Key, after int64, limit, maxBytes int) ([]corebot.Posted, error) {
	var page []corebot.Posted
	for bytes := 0; len(page) < limit && bytes < maxBytes; {
		want := min(limit-len(page), replyRows)
		rows, err := r.box.After(ctx, k, after, want)
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

// wakes tells those who wait for replies of a conversation that there are some. A wake carries nothing and is never lost: one that was
// not taken yet stands for all that came since. The zero wakes is ready to use.
type wakes struct {
	mu       sync.Mutex
	watchers map[corebot.Key]map[chan struct{}]struct{}
}

// watch gives a channel that a wake of k can be received from, until stop is called.
func (w *wakes) watch(k corebot.Key) (wake <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers == nil {
		w.watchers = make(map[corebot.Key]map[chan struct{}]struct{})
	}
	if w.watchers[k] == nil {
		w.watchers[k] = make(map[chan struct{}]struct{})
	}
	w.watchers[k][c] = struct{}{}
	return c, func() { w.remove(k, c) }
}

func (w *wakes) remove(k corebot.Key, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watchers[k], c)
	if len(w.watchers[k]) == 0 {
		delete(w.watchers, k)
	}
}

// wake never blocks.
func (w *wakes) wake(k corebot.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.watchers[k] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
