package corebot

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// EscapeFunc writes the characters for which hidden holds as JSON escapes (\u and four digits, a pair of them beyond the basic plane). Inside a
// JSON string that changes no meaning.
func EscapeFunc(s string, hidden func(rune) bool) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
