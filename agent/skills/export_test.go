package skills

import (
	"time"

	"github.com/corebot/corebot/internal/rootfs"
)

// Age lets time pass for the looks of all scopes.
func (s *Store) Age(by time.Duration) {
	if last := s.prompted.Load(); last != nil {
		older := *last
		older.at = older.at.Add(-by)
		s.prompted.Store(&older)
	}
	for _, in := range s.scoped {
		in.Age(by)
	}
}

// Noted says whether the system notes changes since the last look.
func (s *Store) Noted() bool {
	last := s.prompted.Load()
	return last != nil && last.mark != (rootfs.Mark{})
}
