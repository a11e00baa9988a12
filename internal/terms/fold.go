package terms

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/corebot/corebot/internal/runes"
)

// maxTerm bounds a term, in bytes; of longer ones the beginning counts.
const maxTerm = 64

// fold gives all spellings of a term that are not told apart the same bytes: letters, digits and marks of ASCII, and
// whatever is beyond it. It may be empty.
func fold(s string) string {
	if folded, ok := foldASCII(s); ok {
		return runes.Head(folded, maxTerm)
	}
	var b strings.Builder
	for _, r := range norm.NFKD.String(runes.Head(s, 4*maxTerm)) {
		if dropped(r) {
			continue
		}
		if plain := plainer(r); plain != "" {
			b.WriteString(plain)
			continue
		}
		b.WriteRune(sameCase(r))
	}
	return runes.Head(norm.NFC.String(b.String()), maxTerm)
}

func foldASCII(s string) (string, bool) {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return "", false
		}
	}
	return strings.ToLower(s), true
}

// sameCase is one rune for all cases of a letter: for K, k and the Kelvin sign, or for the three sigmas.
func sameCase(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

// plainer is how a letter is written where a keyboard has only plain ones and no normalisation takes it apart; empty
// for all others.
func plainer(r rune) string {
	switch unicode.ToLower(r) {
	case 'ß':
		return "ss"
	case 'æ':
		return "ae"
	case 'œ':
		return "oe"
	case 'ø':
		return "o"
	case 'ł':
		return "l"
	case 'đ', 'ð':
		return "d"
	case 'þ':
		return "th"
	case 'ħ':
		return "h"
	case 'ŧ':
		return "t"
	}
	return ""
}

// dropped are the runes of decomposed text that make no difference. They are diacritics, points of vowels in Arabic and
// Hebrew, the Arabic stroke that only fills lines, invisible characters, and the ASCII punctuation of compatibility
// forms.
func dropped(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return !isASCIIWord(r)
	case 0x0300 <= r && r <= 0x036F, 0x0591 <= r && r <= 0x05C7, 0x064B <= r && r <= 0x065F, r == 0x0670, r == 0x0640:
		return true
	}
	return r == utf8.RuneError || skinTone(r) || unicode.Is(unicode.Cf, r) ||
		unicode.Is(unicode.Variation_Selector, r) || unicode.IsSpace(r)
}

func skinTone(r rune) bool { return 0x1F3FB <= r && r <= 0x1F3FF }

func isASCIIWord(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
