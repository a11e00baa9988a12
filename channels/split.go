package channels

import (
	"strings"
	"unicode/utf8"
)

// Split cuts a text into parts of at most limit bytes, at the last paragraph, line, sentence or word that fits, never
// inside a rune. Joined again without the white space at the cuts, the parts are the text. A limit under 1 means no
// limit.
func Split(text string, limit int) []string {
	var parts []string
	for from := 0; ; {
		part, to := nextPart(text, from, limit)
		if part != "" || text == "" {
			parts = append(parts, part)
		}
		if to == len(text) {
			return parts
		}
		from = to
	}
}

// nextPart is the part of a text that begins at a place, and the place where the next one begins: the end of the text
// after the last part. A part is blank only where nothing but white space is left.
func nextPart(text string, from, limit int) (part string, to int) {
	for rest := text[from:]; limit > 0 && len(rest) > limit; rest = text[to:] {
		n := cut(rest, limit)
		to = len(text) - len(strings.TrimLeft(rest[n:], " \n"))
		if part = strings.TrimRight(rest[:n], " \n"); part != "" || to == len(text) {
			return part, to
		}
	}
	return text[max(from, to):], len(text)
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
