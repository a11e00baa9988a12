package terms

import (
	"strings"
	"unicode/utf8"

	"github.com/corebot/corebot/internal/runes"
)

// lead is which part of an excerpt is for what stands before the place, as a divisor.
const lead = 3

// Excerpt is about width bytes of a text around a place in it, in one line; an ellipsis stands where something is left
// out.
func Excerpt(text string, at Found, width int) string {
	begin := max(0, min(at.Start, len(text)-width*(lead-1)/lead)-width/lead)
	if begin <= width/(2*lead) { // not worth an ellipsis
		begin = 0
	}
	for begin > 0 && begin < len(text) && !utf8.RuneStart(text[begin]) {
		begin++
	}
	shown := runes.Head(text[begin:], width)
	out := strings.Join(strings.Fields(shown), " ")
	if begin > 0 {
		out = "…" + out
	}
	if begin+len(shown) < len(text) {
		out += "…"
	}
	return out
}
