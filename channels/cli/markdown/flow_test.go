package markdown

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestLinesAreBrokenWhereReadersExpectIt(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"one two three", 9, "one two|three"},
		{"one two", 7, "one two"},
		{"  a   b  ", 9, "a   b"},
		{"a\n\nb\n", 9, "a||b|"},
		{"abcdefgh i", 3, "abc|def|gh|i"},
		{"x abcdefgh", 4, "x|abcd|efgh"},
		{"日本語です", 4, "日本|語で|す"},
		{"日本語", 5, "日本|語"},
		{"日本。語", 4, "日|本。|語"},
		{"日「本」語", 6, "日|「本」|語"},
		{"カッコ", 2, "カ|ッ|コ"},
		{"あカッコ", 4, "あ|カッ|コ"},
		{"word日本", 6, "word日|本"},
		{"한국어 말", 6, "한국어|말"},
		{"👩\u200d🚀👩\u200d🚀", 2, "👩\u200d🚀|👩\u200d🚀"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301e\u0301|e\u0301"},
		{"🇩🇪🇫🇷 x", 4, "🇩🇪🇫🇷|x"},
	} {
		var f flow
		f.addString(c.in, 0)
		var got []string
		for _, l := range f.lines(c.width, true) {
			s := c.in[l.from:l.to]
			got = append(got, s)
			if w := ansi.StringWidth(s); w != l.columns {
				t.Errorf("%q is %d columns wide, not %d", s, w, l.columns)
			}
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%q at %d columns is %q, not %q", c.in, c.width, strings.Join(got, "|"), c.want)
		}
	}
}

func TestAnAddressStaysInOnePieceUnlessItIsInATable(t *testing.T) {
	var f flow
	f.addString("see (", 0)
	f.addString("https://example.org/long", address)
	f.addString("), word-that-is-long", 0)
	for keep, want := range map[bool]string{
		true:  "see|(https://example.org/long),|word-that|-is-long",
		false: "see|(https://|example.o|rg/long),|word-that|-is-long",
	} {
		var got []string
		for _, l := range f.lines(9, keep) {
			got = append(got, string(f.text[l.from:l.to]))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("keep %v: %q, not %q", keep, got, want)
		}
	}
}

func TestALongWordIsNotMeasuredWholeForEachOfItsLines(t *testing.T) {
	if n, _ := word([]byte(strings.Repeat("x", 1000)), 10); n > 11 {
		t.Errorf("%d bytes were measured", n)
	}
}

func TestEveryLineEndsItsStyles(t *testing.T) {
	var f flow
	f.addString("bold and", bold)
	f.addString(" more", bold|code)
	var got []string
	for _, l := range f.lines(4, true) {
		got = append(got, string(f.paint(nil, look{}, l)))
	}
	if want := "\x1b[1mbold\x1b[m|\x1b[1mand\x1b[m|\x1b[1;33mmore\x1b[m"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
