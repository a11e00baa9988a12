package linediff

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// maxBlanks is how many blanks in a row are shown as they are: behind more, a text can lie where nobody looks.
const maxBlanks = 80

// plain says whether a text can be shown as it is.
func plain(text string) bool {
	blanks := 0
	for i, r := range text {
		if r == utf8.RuneError && invalid(text[i:]) || hidden(r) {
			return false
		}
		if blanks++; r != ' ' && r != '\t' {
			blanks = 0
		}
		if blanks > maxBlanks {
			return false
		}
	}
	return true
}

// safe is a text as it is shown. One that is not plain has every backslash doubled, so that an escape is never text.
func safe(text string) string {
	if plain(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		if n := len(text) - len(strings.TrimLeft(text, " \t")); n > maxBlanks {
			fmt.Fprintf(&b, `\{%s}`, blanksOf(text[:n]))
			text = text[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\\':
			b.WriteString(`\\`)
		case hidden(r):
			b.WriteString(corebot.Plainly(string(r)))
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// blanksOf counts blanks by runs of the same.
func blanksOf(blanks string) string {
	var runs []string
	for len(blanks) > 0 {
		n := len(blanks) - len(strings.TrimLeft(blanks, blanks[:1]))
		runs = append(runs, fmt.Sprintf("%d %s", n, map[byte]string{' ': "spaces", '\t': "tabs"}[blanks[0]]))
		blanks = blanks[n:]
	}
	return strings.Join(runs, ", ")
}

func invalid(text string) bool {
	r, size := utf8.DecodeRuneInString(text)
	return r == utf8.RuneError && size == 1
}

// hidden characters do not show, or change how others do. A tab is as good as a space.
func hidden(r rune) bool { return r != '\t' && corebot.Hidden(r) }
