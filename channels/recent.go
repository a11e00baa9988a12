package channels

import (
	"time"

	"github.com/corebot/corebot"
)

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
