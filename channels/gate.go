package channels

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// gate is where the sends of an account pass: replies, notices and typing. A platform that has asked to wait gets
// nothing before that time. Most limits are of one chat, such as a busy group, and its answer does not say whether this
// one is. So a refusal closes the chat. When [closedChats] are closed at once the limit is taken to be of the account,
// and all its chats are closed.
//
// The lane of a refused message stores how long it waits. So another process finds the gate as this one left it. The
// zero gate is open.
type gate struct {
	mu     sync.Mutex
	closed map[string]time.Time // chats, until when
	drafts map[string]time.Time // likewise, by edits of drafts: they close their own chat, and never the account
}

const closedChats = 3

// refused closes a chat if the platform has asked to wait.
func (g *gate) refused(chat string, err error, now time.Time) {
	f := (*corebot.Failure)(nil)
	if errors.As(err, &f) && f.Class == corebot.RateLimited && f.RetryAfter > 0 {
		g.close(&g.closed, chat, now.Add(f.RetryAfter), now)
	}
}

// refusedDraft is refused for an edit of a draft. Replies elsewhere do not wait for it.
func (g *gate) refusedDraft(chat string, err error, now time.Time) {
	f := (*corebot.Failure)(nil)
	if errors.As(err, &f) && f.Class == corebot.RateLimited && f.RetryAfter > 0 {
		g.close(&g.drafts, chat, now.Add(f.RetryAfter), now)
	}
}

// close closes a chat, among those of the gate that are closed for one reason.
func (g *gate) close(chats *map[string]time.Time, chat string, until, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other, at := range *chats {
		if !at.After(now) {
			delete(*chats, other)
		}
	}
	if *chats == nil {
		*chats = map[string]time.Time{}
	}
	if until.After((*chats)[chat]) {
		(*chats)[chat] = until
	}
}

// opens is when a chat can be sent to again; zero: now. The messages of a closed account come back spread over a
// quarter of the wait: all at once would be the next flood.
func (g *gate) opens(chat string, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut, last := 0, time.Time{}
	for _, at := range g.closed {
		if at.After(now) {
			shut++
		}
		if at.After(last) {
			last = at
		}
	}
	own := g.closed[chat]
	if at := g.drafts[chat]; at.After(own) {
		own = at
	}
	switch {
	case shut >= closedChats:
		return last.Add(rand.N(last.Sub(now)/4 + 1))
	case own.After(now):
		return own
	}
	return time.Time{}
}
