package runes_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot/internal/runes"
)

func TestACutIsBetweenCharacters(t *testing.T) {
	const text = "aé中😀" // of 1, 2, 3 and 4 bytes
	heads := []string{"", "a", "a", "aé", "aé", "aé", "aé中", "aé中", "aé中", "aé中", text, text}
	tails := []string{"", "", "", "", "😀", "😀", "😀", "中😀", "中😀", "é中😀", text, text}
	for n := range heads {
		if got := runes.Head(text, n); got != heads[n] {
			t.Errorf("%d bytes of the beginning are %q", n, got)
		}
		if got := runes.Tail(text, n); got != tails[n] {
			t.Errorf("%d bytes of the end are %q", n, got)
		}
	}
	if head, tail := runes.Head(text, -1), runes.Tail(text, -1); head != "" || tail != "" {
		t.Errorf("less than nothing is %q and %q", head, tail)
	}
}

func TestOnlyACharacterThatIsCutOffAtTheEndIsDropped(t *testing.T) {
	for piece, want := range map[string]string{
		"": "", "a": "a", "é": "é", "a\xc3": "a", "中\xe4\xb8": "中", "a\xf0\x9f\x98": "a", "\x80": "\x80",
		"a\x80\x80\x80\x80": "a\x80\x80\x80\x80", "\xff": "\xff",
	} {
		if got := string(runes.Whole([]byte(piece))); got != want {
			t.Errorf("%q becomes %q, want %q", piece, got, want)
		}
	}
}

func FuzzCutsAreWithinTheLimitAndKeepTextValid(f *testing.F) {
	f.Add("aé中😀", 5)
	f.Add("\xff\x80\x80", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		head, tail := runes.Head(s, n), runes.Tail(s, n)
		if !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) || len(head) > max(n, 0) ||
			len(tail) > max(n, 0) {
			t.Errorf("%d bytes of %q: %q and %q", n, s, head, tail)
		}
		if utf8.ValidString(s) && (!utf8.ValidString(head) || !utf8.ValidString(tail)) {
			t.Errorf("%d bytes of %q: %q and %q", n, s, head, tail)
		}
		if utf8.ValidString(s) && n >= 0 && n < len(s) && !utf8.Valid(runes.Whole([]byte(s[:n]))) {
			t.Errorf("the first %d bytes of %q, without what is cut off, are not valid", n, s)
		}
	})
}
