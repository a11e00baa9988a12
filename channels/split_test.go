package channels_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot/channels"
)

func TestATextIsCutAtTheBestBoundaryThatFits(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  []string
	}{
		{"short", 10, []string{"short"}},
		{"no limit", 0, []string{"no limit"}},
		{"", 5, []string{""}},
		{"first part\n\nsecond", 14, []string{"first part", "second"}},
		{"one two\nthree four", 12, []string{"one two", "three four"}},
		{"One is. Two is", 10, []string{"One is.", "Two is"}},
		{"alpha beta gamma", 11, []string{"alpha beta", "gamma"}},
		{"aaaaaaaaaaaa", 5, []string{"aaaaa", "aaaaa", "aa"}},
		{"äöüäöü", 5, []string{"äö", "üä", "öü"}},
		{"世界", 1, []string{"世", "界"}}, // a limit smaller than a rune
	} {
		if got := channels.Split(c.text, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("Split(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

func FuzzSplitLosesNothingButWhiteSpaceAtItsCuts(f *testing.F) {
	f.Add("hello world", 5)
	f.Add("a\n\nb. c d\n", 3)
	f.Add("世界 🌍🌍🌍 äöü", 4)
	f.Add(strings.Repeat("\x80", 50), 10)
	f.Add("   \n \n  ", 2)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		parts := channels.Split(text, limit)
		bare := func(s string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(s) }
		if got := strings.Join(parts, ""); bare(got) != bare(text) {
			t.Fatalf("Split(%q, %d) = %q lost or changed something", text, limit, parts)
		}
		for i, p := range parts {
			if limit >= utf8.UTFMax && len(p) > limit {
				t.Errorf("part %d of %q has %d bytes of at most %d", i, text, len(p), limit)
			}
			if utf8.ValidString(text) && !utf8.ValidString(p) {
				t.Errorf("part %d of %q is not valid UTF-8: %q", i, text, p)
			}
			if len(parts) > 1 && strings.Trim(p, " \n") == "" {
				t.Errorf("part %d of %q is blank", i, text)
			}
		}
		if most := len(text)/max(1, limit/2-utf8.UTFMax) + 1; limit >= 4*utf8.UTFMax && len(parts) > most {
			t.Errorf("%q of %d bytes became %d parts", text, len(text), len(parts))
		}
	})
}
