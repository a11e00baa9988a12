package memory

import "github.com/corebot/corebot"

// Noted is what is stored of a page whose pieces are lines.
func Noted(page string, of []corebot.MemoryNote) []corebot.MemoryNote {
	var pieces []Piece
	for i, n := range of {
		pieces = append(pieces, Piece{page[2*i : 2*i+2], n})
	}
	_, notes := putTogether(pieces)
	return notes
}
