package redact

import (
	"strings"
	"unicode"
)

// Visible returns s without the characters that a person does not see but a model reads. They are control characters
// other than tab and line ends, zero-width and bidirectional controls, tags, variation selectors and invisible fillers.
// Bytes that are not UTF-8 become U+FFFD.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func invisible(r rune) bool {
	if ' ' <= r && r < 0x7f {
		return false
	}
	switch r {
	case '\t', '\n', '\r':
		return false
	// fillers and joiners that are letters or marks to Unicode
	case '\u034F', '\u115F', '\u1160', '\u17B4', '\u17B5', '\u3164', '\uFFA0':
		return true
	case '\uFE0F': // asks for an emoji's colours; alone it carries nothing
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector) || 0xE0000 <= r && r <= 0xE0FFF
}
