// Package runes cuts UTF-8 text by bytes and between characters. In text that is not UTF-8 a cut may take off more than
// asked, and never less.
package runes

import "unicode/utf8"

// Head is at most n bytes of the beginning of a text.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Tail is at most n bytes of the end of a text.
func Tail(s string, n int) string {
	i := max(0, len(s)-max(n, 0))
	if i == 0 {
		return s
	}
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// Whole is a piece of a text without the character that is cut off at its end.
func Whole(piece []byte) []byte {
	for i := len(piece) - 1; i >= 0 && i >= len(piece)-utf8.UTFMax; i-- {
		if utf8.RuneStart(piece[i]) {
			if !utf8.FullRune(piece[i:]) {
				return piece[:i]
			}
			break
		}
	}
	return piece
}
