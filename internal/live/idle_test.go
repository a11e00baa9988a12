package live

import (
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// An event can come when a ring has been idle for its time. A client that comes back before the ring is dropped has
// missed that event, and is told so.
func TestAnEventAtTheEndOfAnIdleRingIsAGap(t *testing.T) {
	t.Parallel()
	var h Hub
	k := corebot.Key{Agent: "a", Channel: "c", Chat: "x"}
	f, _ := h.Follow(k, 0, nil)
	h.Publish(Event{Kind: ToolStarted, Key: k})
	f.Next()
	seq := f.Seq()
	f.Stop()
	r := h.rings[k]
	r.idle = time.Now().Add(-ringTime - time.Minute)
	if r.add(Event{Kind: ToolEnded, Key: k}) {
		t.Fatal("the ring is still wanted")
	}
	again, gap := h.Follow(k, seq, nil)
	h.dropRing(k, r)
	events, more := again.Next()
	if !gap || more || len(events) != 0 {
		t.Errorf("gap %v and %v, %d events", gap, more, len(events))
	}
}
