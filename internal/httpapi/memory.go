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

// memory is what a socket was told of a chat. Sockets share the lists of open runs, which nobody changes in place.
type memory struct {
	open  []openRun
	over  []string // the messages whose ends the socket was told, the newest last
	ends  int      // how many they were in all
	gaps  int      // how often events were lost
	first int64    // the first event behind the last gap
	early int      // ends of its own messages that were told before the events of their runs
}

// run is what is known of an open run, or one of which nothing is known yet.
func (m *memory) run(id string) openRun {
	for _, r := range m.open {
		if r.id == id {
			return r
		}
	}
	return openRun{id: id}
}

func (m *memory) isOpen(id string) bool {
	return slices.ContainsFunc(m.open, func(r openRun) bool { return r.id == id })
}

// set notes what is known of a run. Of too many open runs the oldest is forgotten.
func (m *memory) set(r openRun) {
	rest := m.without(r.id)
	if len(rest) >= rememberedRuns {
		rest = rest[1:]
	}
	m.open = append(rest, r)
}

// without is a copy of the open runs that lacks one, with room for one more.
func (m *memory) without(id string) []openRun {
	rest := make([]openRun, 0, len(m.open)+1)
	for _, r := range m.open {
		if r.id != id {
			rest = append(rest, r)
		}
	}
	return rest
}

// ended notes that the client was told the end of a run.
func (m *memory) ended(id string) {
	if m.isOpen(id) {
		m.open = m.without(id)
	}
	if len(m.over) >= rememberedEnds {
		m.over = slices.Delete(m.over, 0, rememberedEnds/2)
	}
	m.over = append(m.over, id)
	m.ends++
}

// lost notes that the events before one were lost: ends and beginnings of runs can be among them.
func (m *memory) lost(first int64) {
	m.open, m.early, m.first = nil, 0, first
	m.gaps++
}

// forget has the end of a message be told again: a replay begins a new run of it.
func (m *memory) forget(id string) {
	m.over = slices.DeleteFunc(m.over, func(o string) bool { return o == id })
}
