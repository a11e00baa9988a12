package cli

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot/channels/cli/markdown"
)

func TestEscapesAndControlsAreShownAndNotObeyed(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünï 日本 👩‍🚀":           "plain ünï 日本 👩‍🚀",
		"\x1b[31mred\x1b[0m":         "␛[31mred␛[0m",
		"\x1b]0;title\a":             "␛]0;title␇",
		"\u009b31m":                  "\ufffd31m",
		"a\x00b\x7f":                 "a␀b␡",
		"over\rwritten\r\nnext":      "over\nwritten\nnext",
		"tab\tstays":                 "tab\tstays",
		"bad\xffbyte":                "bad\ufffdbyte",
		"abc\u202edcba\u202c\u2066x": "abcdcbax",
		"one\u2028two":               "one\ntwo",
	} {
		if got := neutralise(in); got != want {
			t.Errorf("neutralise(%q) = %q, want %q", in, got, want)
		}
	}
}

func requireHarmless(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Fatalf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			t.Fatalf("%q holds the control character %U", s, r)
		}
	}
}

func FuzzNeutralise(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2J", "\r\n\r", "\u009d8;;x\u009c", "\xc2", "\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := neutralise(s)
		requireHarmless(t, out)
		if again := neutralise(out); again != out {
			t.Fatalf("neutralising %q twice gives %q, once %q", s, again, out)
		}
	})
}

func TestMarkdownIsLaidOutAndNothingOfItIsLost(t *testing.T) {
	out := newAnswers(true).render("# Title\n\nSay **this** & List<String> to <b>me</b>: "+
		"[docs](https://e.org/?a=1&b=2)\n\n- one\n- two\n\n```go\nx &lt; y\n```\n", 80)
	for _, want := range []string{
		"# Title", "**this** & List<String> to <b>me</b>", "https://e.org/?a=1&b=2", "• one",
		"  x &lt; y",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	requireHarmless(t, out)
}

func TestColoredMarkdownCarriesStylesAndNoOtherEscape(t *testing.T) {
	out := newAnswers(false).render("**bold** [link](https://e.org) &#27;[8m \x1b]8;;https://evil\x07", 80)
	if !strings.Contains(out, "\x1b[1m") {
		t.Errorf("no bold in %q", out)
	}
	if strings.Contains(out, "\x1b]") {
		t.Errorf("an operating system command got through: %q", out)
	}
	if !strings.Contains(out, "&#27;[8m") {
		t.Errorf("the entity was not left as it was written: %q", out)
	}
	requireHarmless(t, withoutStyles(out))
}

// withoutStyles takes out the color sequences.
func withoutStyles(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		rest := strings.TrimLeft(after, "0123456789;:")
		if tail, ok := strings.CutPrefix(rest, "m"); ok {
			s = tail
		} else {
			b.WriteString("\x1b[")
			s = after
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{
		"# a\n\n&#27;[31m", "[x](\x1b]8;;y)", "&amp;#27;", "|a|b|\n|-|-|\n|\x07|c|",
		"<b>\x9b</b>", "```\n\x1b\n```", "![i](javascript:x)",
	} {
		f.Add(s, uint8(18))
	}
	f.Fuzz(func(t *testing.T, s string, size uint8) {
		width := 2 + int(size)%199
		s = s[:min(len(s), 2000)]
		for _, noColor := range []bool{false, true} {
			out := newAnswers(noColor).render(s, width)
			requireHarmless(t, withoutStyles(out))
		}
	})
}

func TestLinesNeverReachTheLastColumn(t *testing.T) {
	text := strings.Repeat("word ", 40) + strings.Repeat("x", 100) +
		"\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> " + strings.Repeat("y", 99)
	for _, noColor := range []bool{false, true} {
		for _, line := range strings.Split(newAnswers(noColor).render(text, 30), "\n") {
			if w := ansi.StringWidth(line); w > 29 {
				t.Errorf("%d columns: %q", w, line)
			}
		}
	}
}

func TestATextThatCannotBeLaidOutIsShownAsItIs(t *testing.T) {
	long := strings.Repeat("**a** \x1b ", markdown.MaxText/8)
	for text, width := range map[string]int{long: 80, "**a** \x1b": markdown.MinWidth} {
		out := newAnswers(true).render(text, width)
		if !strings.HasPrefix(out, "**a** ␛") {
			t.Errorf("at %d columns the text begins with %.20q", width, out)
		}
	}
	if out := newAnswers(false).render(long, 80); strings.Contains(out, "\x1b[1m") {
		t.Error("a text beyond the limit was laid out")
	}
}

func TestWrappingKeepsTheLastColumnFree(t *testing.T) {
	for _, line := range strings.Split(wrap(strings.Repeat("x", 100), 30), "\n") {
		if ansi.StringWidth(line) > 29 {
			t.Errorf("%q is wider than 29 columns", line)
		}
	}
}

func TestATextOnlyMentionedIsOneShortLine(t *testing.T) {
	if got := oneLine("a\n\tb  \x1bc "+strings.Repeat("long ", 1000), 12); got != "a b ␛c long…" {
		t.Errorf("got %q", got)
	}
}
