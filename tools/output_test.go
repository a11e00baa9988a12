package tools

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShortenKeepsBothEndsWithinTheLimit(t *testing.T) {
	text := "BEGIN" + strings.Repeat("é", 5000) + "END"
	got := shorten(text, 500, "the whole output is in x")
	if len(got) > 500 || !strings.HasPrefix(got, "BEGINé") || !strings.HasSuffix(got, "éEND") ||
		!strings.Contains(got, "bytes left out here; the whole output is in x") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func FuzzShortenCutsAtRuneBoundaries(f *testing.F) {
	f.Add("héllo wörld", 3)
	f.Add(strings.Repeat("世界", 200), 300)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		text = strings.ToValidUTF8(text, "?")
		limit = max(0, limit%1000)
		got := shorten(text, limit, "w")
		if !utf8.ValidString(got) {
			t.Errorf("shorten(%q, %d) = %q", text, limit, got)
		}
		if limit >= 60 && len(got) > limit && got != text {
			t.Errorf("shorten of %d bytes to %d gave %d", len(text), limit, len(got))
		}
	})
}
