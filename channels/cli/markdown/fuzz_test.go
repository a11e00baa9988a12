package markdown

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

var (
	sgr     = regexp.MustCompile("\x1b\\[[0-9;]*m")
	inPiece = regexp.MustCompile("\x1b\\[[0-9;]*(4;34|33)[0-9;]*m") // addresses and code
)

// FuzzRender looks for pages that could do more to a terminal than they promise, and for words that got lost.
func FuzzRender(f *testing.F) {
	for _, s := range []string{
		"# a\n\n> - b\n>   1. c\n\n***", "a | b\n-|-:\n1 | 2 | 3\n`\\|`", "[a](<b c> 'd') ![](e) [f]\n\n[f]: /g",
		"```x\ny\n```\n\n    z",
		"***a** b* ~~c~~ `` ` ``", "- [x] a\n\n  b\n- c", "https://e.org/(a)_b_* <http://x>",
		"日本語「です」。\n👩\u200d🚀e\u0301", "a\\\nb  \nc", "|\n|-\n|||", "\\|a|\n-|",
	} {
		f.Add(s, uint8(20), false)
		f.Add(s, uint8(70), true)
	}
	f.Fuzz(func(t *testing.T, s string, size uint8, noColor bool) {
		s = harmless(s[:min(len(s), 4000)])
		width := MinWidth + int(size)
		out, ok := New(Options{NoColor: noColor}).Render(s, width)
		if !ok {
			t.Fatal("it was not laid out")
		}
		if bare := sgr.ReplaceAllString(out, ""); bare != harmless(bare) || noColor && bare != out {
			t.Fatalf("more than color in %q", out)
		}
		for l := range strings.Lines(out) {
			l = strings.TrimSuffix(l, "\n")
			if all := sgr.FindAllString(l, -1); len(all) > 0 && all[len(all)-1] != "\x1b[m" {
				t.Fatalf("an open style in %q", l)
			}
			if w := ansi.StringWidth(l); w > width && !noColor && !inPiece.MatchString(l) {
				t.Fatalf("%d columns of %d: %q", w, width, l)
			}
		}
		if !strings.ContainsAny(s, "`~\"'(:") { // code has a language, and links have titles, that are not shown
			requireLetters(t, s, out)
		}
	})
}

// harmless drops what a text must be without.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s)
}

// requireLetters fails unless the letters of s are found in page, in their order.
func requireLetters(t *testing.T, s, page string) {
	t.Helper()
	rest := []rune(sgr.ReplaceAllString(page, ""))
	for _, r := range s {
		if !unicode.IsLetter(r) {
			continue
		}
		for len(rest) > 0 && rest[0] != r {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			t.Fatalf("the letter %q of %q is not in\n%s", r, s, page)
		}
		rest = rest[1:]
	}
}
