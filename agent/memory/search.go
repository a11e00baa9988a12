package memory

import (
	"strings"

	"github.com/corebot/corebot/internal/terms"
)

// Line is one line of a page.
type Line struct {
	Number int // from 1
	Text   string
}

// Search gives the lines of a page that have every phrase of a query, in their order.
func (s *Store) Search(p Page, q terms.Query) ([]Line, error) {
	text, err := s.Read(p)
	if err != nil {
		return nil, err
	}
	var found []Line
	n := 0
	for line := range strings.Lines(text) {
		n++
		if len(q.Phrases) > 0 && q.In(line).Phrases == len(q.Phrases) {
			found = append(found, Line{n, strings.TrimSpace(line)})
		}
	}
	return found, nil
}
