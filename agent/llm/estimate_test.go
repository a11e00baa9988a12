package llm

import "testing"

func TestEstimatesOfSmallTexts(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "the": 1, "hello world": 4, "12345": 5, "{}": 1, "é": 1, "中文": 4, "😀": 3, "\xff\xfe": 2, " ": 1,
		"a\nb": 2,
	} {
		if got := (Estimate{}).Count(text); got != want {
			t.Errorf("%q: %d tokens, want %d", text, got, want)
		}
	}
}

func FuzzEstimateIsPositiveAndBounded(f *testing.F) {
	f.Add("Hello, Wörld 中 \xff")
	f.Fuzz(func(t *testing.T, s string) {
		if n := (Estimate{}).Count(s); n < 0 || n > len(s) || s != "" && n == 0 {
			t.Errorf("%q: %d tokens", s, n)
		}
	})
}
