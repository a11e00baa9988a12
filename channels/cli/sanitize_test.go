package cli

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
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
	m := &markdown{noColor: true}
	out := m.render("# Title\n\nSay **this** & List<String> to <b>me</b>: [docs](https://e.org/?a=1&b=2)\n\n- one\n- two\n\n```go\nx &lt; y\n```\n", 80)
	for _, want := range []string{"# Title", "**this** & List<String> to <b>me</b>", "https://e.org/?a=1&b=2", "• one", "  x &lt; y"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	requireHarmless(t, out)
}

func TestColoredMarkdownCarriesStylesAndNoOtherEscape(t *testing.T) {
	m := &markdown{}
	out := m.render("**bold** [link](https://e.org) &#27;[8m \x1b]8;;https://evil\x07", 80)
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

// withoutStyles takes out what keepStyles may leave in, by another road than it.
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
	for _, s := range []string{"# a\n\n&#27;[31m", "[x](\x1b]8;;y)", "&amp;#27;", "|a|b|\n|-|-|\n|\x07|c|", "<b>\x9b</b>", "```\n\x1b\n```", "![i](javascript:x)"} {
		f.Add(s, uint8(18))
	}
	f.Fuzz(func(t *testing.T, s string, size uint8) {
		width := 2 + int(size)%199
		s = s[:min(len(s), 2000)]
		for _, noColor := range []bool{false, true} {
			out := (&markdown{noColor: noColor}).render(s, width)
			requireHarmless(t, withoutStyles(out))
		}
	})
}

func TestLinesNeverReachTheLastColumn(t *testing.T) {
	text := strings.Repeat("word ", 40) + strings.Repeat("x", 100) + "\n\n```\n" + strings.Repeat("y", 99) + "\n```\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |"
	for _, noColor := range []bool{false, true} {
		for _, line := range strings.Split((&markdown{noColor: noColor}).render(text, 30), "\n") {
			if w := ansi.StringWidth(line); w > 29 {
				t.Errorf("%d columns: %q", w, line)
			}
		}
	}
}

func TestDeepNestingIsShownAsItIsInsteadOfBeingLaidOut(t *testing.T) {
	m := &markdown{noColor: true}
	for _, deep := range []string{strings.Repeat("> ", 20) + "x", strings.Repeat("- ", 20) + "x", strings.Repeat("1) ", 20) + "x", "a\n" + strings.Repeat(" ", 60) + "- x"} {
		if got := m.render(deep, 200); got != deep {
			t.Errorf("%q became %q", deep, got)
		}
	}
	if got := m.render("- a\n  - > b\n\n----------------\n", 80); !strings.Contains(got, "• a") {
		t.Errorf("usual nesting became %q", got)
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
