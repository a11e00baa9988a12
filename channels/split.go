package channels

import (
	"strings"
	"unicode/utf8"
)

// Split cuts a text into parts of at most limit bytes, at the last paragraph, line, sentence or word that fits, never inside a
// rune. Joined again without the white space at the cuts, the parts are the text. A limit under 1 means no limit.
func Split(text string, limit int) []string {
	if limit < 1 || len(text) <= limit {
		return []string{text}
	}
	var parts []string
	for len(text) > limit {
		n := cut(text, limit)
		if part := strings.TrimRight(text[:n], " \n"); part != "" {
			parts = append(parts, part)
		}
		text = strings.TrimLeft(text[n:], " \n")
	}
	if text != "" {
		parts = append(parts, text)
	}
	return parts
}

// cut is where the first part ends. A boundary in the first half would make too small a part.
func cut(text string, limit int) int {
	for _, boundary := range []string{"\n\n", "\n", ". ", " "} {
		if i := strings.LastIndex(text[:limit], boundary); i >= limit/2 {
			return i + len(boundary)
		}
	}
	for n := limit; n > 0 && n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	_, size := utf8.DecodeRuneInString(text)
	return max(size, limit) // a limit smaller than a rune, and a whole rune all the same; or bytes that are no runes
}
