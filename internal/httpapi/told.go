package httpapi

import (
	"slices"
	"time"
)

// openRun is the work on a message that has begun and has not ended, as a socket knows it.
type openRun struct {
	id       string
	began    time.Time // zero: the run began before the socket followed the chat
	streamed string    // the text since the last reset
}

// told is what a socket was told of a chat. Sockets share the lists of open runs, which nobody changes in place.
type told struct {
	open  []openRun
	over  []string // the messages whose ends the socket was told, the newest last
	ends  int      // how many they were in all
	gaps  int      // how often events were lost
	first int64    // the first event behind the last gap
	early int      // ends of its own messages that were told before the events of their runs
}

// run is what is known of an open run, or one of which nothing is known yet.
func (t *told) run(id string) openRun {
	for _, r := range t.open {
		if r.id == id {
			return r
		}
	}
	return openRun{id: id}
}

func (t *told) isOpen(id string) bool {
	return slices.ContainsFunc(t.open, func(r openRun) bool { return r.id == id })
}

// set notes what is known of a run. Of too many open runs the oldest is forgotten.
func (t *told) set(r openRun) {
	rest := t.without(r.id)
	if len(rest) >= rememberedRuns {
		rest = rest[1:]
	}
	t.open = append(rest, r)
}

// without is a copy of the open runs that lacks one, with room for one more.
func (t *told) without(id string) []openRun {
	rest := make([]openRun, 0, len(t.open)+1)
	for _, r := range t.open {
		if r.id != id {
			rest = append(rest, r)
		}
	}
	return rest
}

// ended notes that the client was told the end of a run.
func (t *told) ended(id string) {
	if t.isOpen(id) {
		t.open = t.without(id)
	}
	if len(t.over) >= rememberedEnds {
		t.over = slices.Delete(t.over, 0, rememberedEnds/2)
	}
	t.over = append(t.over, id)
	t.ends++
}

// lost notes that the events before one were lost: ends and beginnings of runs can be among them.
func (t *told) lost(first int64) {
	t.open, t.early, t.first = nil, 0, first
	t.gaps++
}

// forget has the end of a message be told again: a replay begins a new run of it.
func (t *told) forget(id string) {
	t.over = slices.DeleteFunc(t.over, func(o string) bool { return o == id })
}
