package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func FuzzNothingThatIsPrintedCanDriveATerminal(f *testing.F) {
	for _, seed := range []string{
		"", "plain text", "two\nlines\tand a tab", "\x1b[2J", "a\rb", "\u009b31m",
		"\u202eevil\u202c", "caf\xe9", "\u2028", strings.Repeat("x", 99),
	} {
		f.Add(seed)
	}
	bad := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
	f.Fuzz(func(t *testing.T, s string) {
		text := strings.NewReplacer("\n", "", "\t", "").Replace(printable(s))
		cell := oneLine(s, 20)
		if strings.ContainsFunc(text, bad) || strings.ContainsFunc(cell, bad) {
			t.Errorf("%q is printed as %q and %q", s, text, cell)
		}
		if n := utf8.RuneCountInString(cell); n > 20 {
			t.Errorf("a cell of 20 has %d characters", n)
		}
		if !strings.ContainsFunc(s, bad) && utf8.ValidString(s) && printable(s) != s {
			t.Errorf("%q became %q for no reason", s, printable(s))
		}
	})
}

func TestOneOfAThingIsNotTwo(t *testing.T) {
	for n, want := range map[int64]string{0: "0 messages", 1: "1 message", 2: "2 messages"} {
		if got := count(n, "message"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
