package channels

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
)

// Mailbox keeps replies for whoever fetches them. Post puts a message at the end of its conversation's list, once,
// however often it is posted. After gives at most limit messages behind a cursor, oldest first; cursors are positive
// and rise. Last is the newest cursor, or zero.
type Mailbox interface {
	Post(ctx context.Context, m corebot.Message) error
	After(ctx context.Context, k corebot.Key, cursor int64, limit int) ([]corebot.Posted, error)
	Last(ctx context.Context, k corebot.Key) (cursor int64, err error)
}

// Replies is how a channel sends whose callers fetch what was said to them: a mailbox, and those who wait at it. It is
// safe for use by several goroutines.
type Replies struct {
	box   Mailbox
	wakes wakes
}

// NewReplies keeps replies in a mailbox.
func NewReplies(box Mailbox) *Replies { return &Replies{box: box} }

// Send puts a reply into the mailbox and wakes who waits for it. Sending it again changes nothing.
func (r *Replies) Send(ctx context.Context, o Outbound) error {
	m := corebot.Message{
		ID: o.IdempotencyKey, Direction: corebot.Outbound, Key: o.Key, Kind: o.Kind, Parts: o.Parts,
		InReplyTo: o.InReplyTo, Notice: o.Notice,
		CreatedAt: o.CreatedAt,
	}
	if err := r.box.Post(ctx, m); err != nil {
		return fmt.Errorf("put the reply into the mailbox: %w", err)
	}
	r.wakes.wake(m.Key)
	return nil
}

// Posted wakes who waits for replies of a conversation: the store has put one into the mailbox.
func (r *Replies) Posted(k corebot.Key) { r.wakes.wake(k) }

// Watch gives a channel that something can be received from once there may be more replies in a conversation, until
// stop is called. A caller that reads the mailbox after Watch, and again after each wake, misses no reply.
func (r *Replies) Watch(k corebot.Key) (wake <-chan struct{}, stop func()) { return r.wakes.watch(k) }

// Last is the newest cursor of a conversation, or zero.
func (r *Replies) Last(ctx context.Context, k corebot.Key) (int64, error) { return r.box.Last(ctx, k) }

// replyRows are read at once: what a page may be over its bytes.
const replyRows = 25

// Page reads at most limit replies behind a cursor, with about maxBytes of content. It gives at least one reply if
// there is one, however long.
func (r *Replies) Page(ctx context.Context, k corebot.Key, after int64, limit, maxBytes int) ([]corebot.Posted, error) {
	var page []corebot.Posted
	for bytes := 0; len(page) < limit && bytes < maxBytes; {
		want := min(limit-len(page), replyRows)
		rows, err := r.box.After(ctx, k, after, want)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			bytes += len(row.Text())
		}
		page = append(page, rows...)
		if len(rows) < want {
			break
		}
		after = rows[len(rows)-1].Cursor
	}
	return page, nil
}

// wakes tells those who wait for replies of a conversation that there are some. A wake carries nothing and is never
// lost: one that was not taken yet stands for all that came since. The zero wakes is ready to use.
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

// recent remembers conversations for a while: at least span after the last note of one, and at most twice that. Of more
// than max it forgets some earlier. It has no lock of its own; the zero recent, with span and max set, is ready to use.
type recent struct {
	span time.Duration
	max  int

	since       time.Time // of the younger generation
	young, aged map[corebot.Key]struct{}
}

// note remembers a conversation from now on.
func (r *recent) note(k corebot.Key, now time.Time) {
	r.age(now, true)
	r.young[k] = struct{}{}
}

// has says whether a conversation is remembered.
func (r *recent) has(k corebot.Key, now time.Time) bool {
	r.age(now, false)
	_, young := r.young[k]
	_, aged := r.aged[k]
	return young || aged
}

// forget ends the memory of a conversation.
func (r *recent) forget(k corebot.Key) {
	delete(r.young, k)
	delete(r.aged, k)
}

// age begins another generation when the younger one is old, or, with room for one more asked for, when it is full.
func (r *recent) age(now time.Time, room bool) {
	age := now.Sub(r.since)
	if r.young != nil && age < r.span && !(room && len(r.young) >= r.max/2) {
		return
	}
	r.aged = r.young
	if age >= 2*r.span {
		r.aged = nil // nobody was noted for long
	}
	r.young, r.since = map[corebot.Key]struct{}{}, now
}

// StartTime is how long a message waits for a channel that has not begun to run.
const StartTime = 5 * time.Second

// Entrance holds the door of a channel that programs or pages of this process call. They are there a moment before the
// channel runs, and their messages wait for it. It is safe for use by several goroutines.
type Entrance struct {
	door   atomic.Pointer[Door] // while the channel runs
	opened chan struct{}        // closed when the channel runs for the first time
	once   sync.Once
}

// NewEntrance makes the entrance of a channel that does not run yet.
func NewEntrance() *Entrance { return &Entrance{opened: make(chan struct{})} }

// Open lets messages in, until shut is called.
func (e *Entrance) Open(door Door) (shut func()) {
	e.door.Store(&door)
	e.once.Do(func() { close(e.opened) })
	return func() { e.door.Store(nil) }
}

// Door is the door of the running channel. Before the channel runs for the first time, Door waits for it, at most
// [StartTime] or until ctx ends. The error for a channel that does not run is [corebot.ErrClosed].
func (e *Entrance) Door(ctx context.Context) (Door, error) {
	late := time.NewTimer(StartTime)
	defer late.Stop()
	select {
	case <-e.opened:
	case <-late.C:
	case <-ctx.Done():
	}
	if door := e.door.Load(); door != nil {
		return *door, nil
	}
	return nil, corebot.ErrClosed
}
