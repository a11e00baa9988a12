package webhook

import (
	"context"
	"net/http"
	"time"

	"github.com/corebot/corebot/internal/live"
)

// keepAlive is how often a quiet stream says that it is there: proxies close what is silent for long.
const keepAlive = 15 * time.Second

func (h *handler) stream(w http.ResponseWriter, r *http.Request) int {
	q, who, p := h.ask(r, "chatId", "after")
	if p != nil {
		return p.write(w, hasBody(r))
	}
	// A browser that reconnects repeats its address, and says here how far it came.
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		var err error
		if q, err = q.from("Last-Event-ID", id); err != nil {
			return refuse(http.StatusBadRequest, "%v", err).write(w, false)
		}
	}
	ctx, end, p := h.wait(r, who, kindStream)
	if p != nil {
		return p.write(w, false)
	}
	defer end()
	f := &follower{handler: h, query: q}
	var stop func()
	f.wake, stop = h.replies.Watch(q.key)
	defer stop()
	f.events, stop = h.opts.Live.Watch(q.key)
	defer stop()
	if q.cursor == "" {
		var err error
		if f.after, err = h.replies.Last(r.Context(), q.key); err != nil {
			return h.refusalOf(err).write(w, false)
		}
	}
	f.out = newStream(ctx, w)
	defer f.out.close()
	f.follow(ctx)
	return http.StatusOK
}

// follower sends one caller what happens in one conversation.
type follower struct {
	*handler
	query
	out    *stream
	wake   <-chan struct{}
	events <-chan live.Event
}

// follow returns when ctx ends, or when the caller does not read. It can go on from the last event that it got.
func (f *follower) follow(ctx context.Context) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	f.out.begin(f.after)
	for ok := f.replies(ctx); ok; ok = f.out.flush() {
		select {
		case <-f.wake:
			f.waiting() // deltas that came before the reply go before it
			if !f.replies(ctx) {
				return
			}
		case e := <-f.events:
			f.out.live(e)
			f.waiting()
		case <-tick.C:
			f.out.keepAlive()
		case <-ctx.Done():
			return
		}
	}
}

// waiting sends the events that are there already, so that many cost one write.
func (f *follower) waiting() {
	for range len(f.events) {
		f.out.live(<-f.events)
	}
}

// replies sends everything behind the cursor, page by page.
func (f *follower) replies(ctx context.Context) bool {
	for {
		page, err := f.page(ctx, f.key, f.after, defaultLimit)
		if err != nil {
			if ctx.Err() == nil {
				f.opts.Log.Error().Err(err).Str("channel", Channel).Str("chat", f.key.String()).Msg("read the mailbox for a stream")
			}
			return false
		}
		for _, p := range page {
			f.out.message(p)
			f.after = p.Cursor
		}
		if !f.out.flush() {
			return false
		}
		if len(page) == 0 {
			return true
		}
	}
}
