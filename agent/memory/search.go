package memory

import (
	"context"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/terms"
)

// Line is one line of a page.
type Line struct {
	Number             int // from 1
	Text               string
	corebot.MemoryNote // of a chat's page: where the line came from
}

// Search gives the lines of a page that have every phrase of a query, in their order.
func (s *Store) Search(p Page, q terms.Query) ([]Line, error) {
	text, err := s.Read(p)
	if err != nil {
		return nil, err
	}
	return linesWith(q, []Piece{{Text: text}}), nil
}

// SearchChat is Search for the page of a chat. Of a page over the cap it searches the beginning.
func (s *Store) SearchChat(ctx context.Context, k corebot.Key, q terms.Query) ([]Line, error) {
	pieces, _, err := s.Pieces(ctx, k)
	return linesWith(q, pieces), err
}

func linesWith(q terms.Query, pieces []Piece) (found []Line) {
	n := 0
	for _, p := range pieces {
		for line := range strings.Lines(strings.ToValidUTF8(p.Text, "\uFFFD")) {
			n++
			if len(q.Phrases) > 0 && q.In(line).Phrases == len(q.Phrases) {
				found = append(found, Line{n, strings.TrimSpace(line), p.MemoryNote})
			}
		}
	}
	return found
}
