package live

import (
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// Bounds of what is kept for followers who come back. A conversation that nobody has followed for ringTime is dropped
// at its next event, and the longest idle one when there are more than maxRings.
const (
	ringEvents = 256
	ringBytes  = 64 << 10
	maxRings   = 1024
	ringTime   = 5 * time.Minute
)

// Numbered is an event with its number in its conversation. Numbers rise, and have no gaps while the conversation is
// kept. They begin with the time, so that no earlier numbers of the conversation come again after a restart.
type Numbered struct {
	Seq int64
	Event
}

// ring is the newest events of a conversation.
type ring struct {
	mu        sync.Mutex
	events    []Numbered
	bytes     int
	last      int64 // the newest number
	read      int64 // the newest number that a follower has, or may have
	followers int
	wakes     map[*Follower]func() // of the followers that are woken
	idle      time.Time            // since when nobody follows; zero: somebody does
	growing   strings.Builder      // the text of the newest event, if pieces were added to it
}

func newRing(now time.Time) *ring {
	first := now.UnixMilli() << 10
	return &ring{last: first, read: first, wakes: map[*Follower]func(){}}
}

// add keeps an event and wakes the followers. It says whether the ring is still wanted.
func (r *ring) add(e Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.idle.IsZero() && time.Since(r.idle) > ringTime {
		// Somebody can come back before the ring is dropped: he is told that he has missed something.
		r.last++
		r.events, r.bytes = nil, 0
		r.growing.Reset()
		return false
	}
	if !r.join(e) {
		r.last++
		r.events = append(r.events, Numbered{r.last, e})
		r.growing.Reset()
	}
	r.bytes += len(e.Text)
	for len(r.events) > ringEvents || r.bytes > ringBytes && len(r.events) > 1 {
		r.bytes -= len(r.events[0].Text)
		r.events[0] = Numbered{}
		r.events = r.events[1:]
	}
	if e.Kind == TurnStarted { // followers are shown what comes behind it
		return true
	}
	for _, wake := range r.wakes {
		wake()
	}
	return true
}

// joinedText is how long a text grows by pieces that nobody has read.
const joinedText = 4 << 10

// join adds a piece of a text to the one before, if no follower can have that: many small pieces are one event.
func (r *ring) join(e Event) bool {
	if e.Kind != Text || len(r.events) == 0 || r.last <= r.read {
		return false
	}
	before := &r.events[len(r.events)-1]
	if before.Kind != Text || before.MessageID != e.MessageID || len(before.Text) > joinedText {
		return false
	}
	if r.growing.Len() == 0 {
		r.growing.WriteString(before.Text)
	}
	r.growing.WriteString(e.Text)
	before.Text = r.growing.String() // nobody changes what a string of a builder has
	return true
}

// Follower reads the events of a conversation at its own pace. It holds nobody up: what it has not read in time is
// gone, and it is told so.
type Follower struct {
	ring *ring
	seq  int64 // the last that it has read
}

// Follow reads a conversation behind a number, or with zero from now on. wake is called when there is more to read than
// the begin of a turn. The turn waits for it, so it must not block, nor use the follower. Without wake nothing is
// called. gap says that events behind the number are lost, or may be.
func (h *Hub) Follow(k corebot.Key, after int64, wake func()) (f *Follower, gap bool) {
	h.mu.Lock()
	r := h.rings[k]
	if r == nil {
		if h.rings == nil {
			h.rings = map[corebot.Key]*ring{}
		}
		h.makeRoom()
		r = newRing(time.Now())
		h.rings[k] = r
	}
	defer h.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	f = &Follower{r, r.last}
	r.followers, r.idle = r.followers+1, time.Time{}
	if wake != nil {
		r.wakes[f] = wake
	}
	gap = after > r.last || after != 0 && after < r.last-int64(len(r.events))
	if after != 0 && !gap {
		f.seq = after
	}
	r.read = max(r.read, f.seq)
	return f, gap
}

// makeRoom drops the ring that nobody has followed for longest, if there are too many.
func (h *Hub) makeRoom() {
	if len(h.rings) < maxRings {
		return
	}
	var oldest corebot.Key
	var since time.Time
	for k, r := range h.rings {
		r.mu.Lock()
		idle := r.idle
		r.mu.Unlock()
		if !idle.IsZero() && (since.IsZero() || idle.Before(since)) {
			oldest, since = k, idle
		}
	}
	if !since.IsZero() {
		delete(h.rings, oldest)
	}
}

// dropRing forgets a ring that is no longer wanted.
func (h *Hub) dropRing(k corebot.Key, r *ring) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.rings[k] == r && r.followers == 0 {
		delete(h.rings, k)
	}
}

// Next gives what has come since, and whether some of it was lost.
func (f *Follower) Next() (events []Numbered, gap bool) {
	r := f.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	behind := r.last - f.seq
	gap = behind > int64(len(r.events))
	events = append(events, r.events[len(r.events)-int(min(behind, int64(len(r.events)))):]...)
	f.seq, r.read = r.last, r.last
	return events, gap
}

// Skip has the follower be behind an event that another follower of the conversation has read.
func (f *Follower) Skip(seq int64) { f.seq = seq }

// Seq is the number of the last event that was read.
func (f *Follower) Seq() int64 { return f.seq }

// Stop ends the reading, once. The events are kept for a while, for a follower who comes back.
func (f *Follower) Stop() {
	f.ring.mu.Lock()
	defer f.ring.mu.Unlock()
	delete(f.ring.wakes, f)
	if f.ring.followers--; f.ring.followers == 0 {
		f.ring.idle = time.Now()
	}
}
