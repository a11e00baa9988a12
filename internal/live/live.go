// Package live carries the events of this moment to people who watch: typing indicators, streamed text, the running
// tool.
//
// It is in memory and lossy by design: a slow watcher misses events and nobody waits for it. Nothing durable may depend
// on it.
package live

import (
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// EventKind tells what an [Event] reports.
type EventKind string

const (
	// Event.Text is the message, or its beginning; a turn that is tried again starts anew
	TurnStarted EventKind = "turn_started"
	Text        EventKind = "text" // a piece of the answer in Event.Text
	// what was streamed since the last reset is not the answer after all (a retry, or tools follow)
	TextReset   EventKind = "text_reset"
	ToolStarted EventKind = "tool_started" // Event.Tool and its arguments in Event.Text
	// Event.Tool, and in Event.Text its outcome, or [Waiting] of a call that waits for an approval
	ToolEnded EventKind = "tool_ended"
	TurnEnded EventKind = "turn_ended" // Event.Text says how, as in corebot.End or "retrying"
)

// Waiting stands for the outcome of a call that waits for an approval, and for the end of the claim of its turn.
const Waiting = "waiting"

// Event is one thing that happened in a turn.
type Event struct {
	Kind      EventKind
	Key       corebot.Key
	MessageID string // the inbound message of the turn
	Text      string
	Tool      string
	Note      string    // of a denied call: why it was denied, and what an operator can do about it
	Position  int       // of a call: its step in the journal of the message
	At        time.Time // when it happened; [Hub.Publish] sets the time of an event that has none
}

// Buffer is how many events a watcher may fall behind before it misses some.
const Buffer = 256

// Hub passes events on. The zero Hub is ready to use.
type Hub struct {
	mu       sync.RWMutex
	watchers map[corebot.Key]map[chan Event]struct{}
	turns    map[chan Event]struct{} // see WatchTurns
	rings    map[corebot.Key]*ring   // see Follow
	steps    map[chan Event]struct{} // see WatchSteps
	answers  map[chan Event]struct{} // see WatchAnswers
}

// Publish hands e to everyone who watches its key, and never blocks.
func (h *Hub) Publish(e Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if r := h.publish(e); r != nil && !r.add(e) {
		h.dropRing(e.Key, r)
	}
}

// publish hands an event to the watchers, and gives the ring that wants it, too.
func (h *Hub) publish(e Event) *ring {
	h.mu.RLock()
	defer h.mu.RUnlock()
	hand(h.watchers[e.Key], e)
	if e.Kind == TurnStarted || e.Kind == TurnEnded {
		hand(h.turns, e)
	}
	if e.Kind != Text && e.Kind != TextReset {
		hand(h.steps, e)
	}
	if e.Kind != ToolStarted && e.Kind != ToolEnded {
		hand(h.answers, e)
	}
	return h.rings[e.Key]
}

func hand(watchers map[chan Event]struct{}, e Event) {
	for c := range watchers {
		select {
		case c <- e:
		default: // lossy: see the package doc
		}
	}
}

// WatchTurns returns the begins and ends of the turns of all conversations from now on. stop ends that, as of Watch.
func (h *Hub) WatchTurns() (events <-chan Event, stop func()) {
	c := make(chan Event, Buffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turns == nil {
		h.turns = map[chan Event]struct{}{}
	}
	h.turns[c] = struct{}{}
	return c, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.turns, c)
		close(c)
	})
}

// WatchSteps returns what happens in the turns of all conversations from now on, but for their texts. stop ends that,
// as of Watch.
func (h *Hub) WatchSteps() (events <-chan Event, stop func()) {
	c := make(chan Event, Buffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.steps == nil {
		h.steps = map[chan Event]struct{}{}
	}
	h.steps[c] = struct{}{}
	return c, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.steps, c)
		close(c)
	})
}

// answersBuffer is how many events a watcher of all answers can fall behind.
const answersBuffer = 16 * Buffer

// WatchAnswers returns the begins, texts and ends of the turns of all conversations from now on. stop ends that, as of
// Watch.
func (h *Hub) WatchAnswers() (events <-chan Event, stop func()) {
	c := make(chan Event, answersBuffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answers == nil {
		h.answers = map[chan Event]struct{}{}
	}
	h.answers[c] = struct{}{}
	return c, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.answers, c)
		close(c)
	})
}

// Watch returns the events of a conversation from now on. stop ends it and closes the channel; it may be called twice.
func (h *Hub) Watch(k corebot.Key) (events <-chan Event, stop func()) {
	c := make(chan Event, Buffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = make(map[corebot.Key]map[chan Event]struct{})
	}
	if h.watchers[k] == nil {
		h.watchers[k] = make(map[chan Event]struct{})
	}
	h.watchers[k][c] = struct{}{}
	return c, sync.OnceFunc(func() { h.remove(k, c) })
}

func (h *Hub) remove(k corebot.Key, c chan Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[k], c)
	if len(h.watchers[k]) == 0 {
		delete(h.watchers, k)
	}
	close(c)
}
