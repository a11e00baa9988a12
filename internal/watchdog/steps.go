package watchdog

import (
	"fmt"
	"sync"
	"time"
)

// Steps are the pieces of work that a part has begun, each with the moment by which it should have ended. A sleep is a
// step, too: it should have ended when the sleeper was to wake. The zero value is ready.
type Steps[K comparable] struct {
	mu   sync.Mutex
	open map[K]step
	last uint64
}

type step struct {
	number uint64
	by     time.Time
}

// Begin opens a step that should have ended by a moment of the monotonic clock. A step of the same name has ended.
func (s *Steps[K]) Begin(name K, by time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[K]step{}
	}
	s.last++
	s.open[name] = step{s.last, by}
}

// End ends a step. One that is not open has ended already.
func (s *Steps[K]) End(name K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, name)
}

// Overdue names the step that was begun first of those that should have ended; empty: there is none. Another step of
// the same name has another mark.
func (s *Steps[K]) Overdue(what string) (mark string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, first := time.Now(), uint64(0)
	for name, st := range s.open {
		if now.After(st.by) && (first == 0 || st.number < first) {
			first, mark = st.number, fmt.Sprintf("%s %v, step %d", what, name, st.number)
		}
	}
	return mark
}
