package tokens

import (
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm"
)

func TestCountsAreThoseOfTheModelsVocabulary(t *testing.T) {
	for _, c := range []struct {
		model, text string
		want        int
	}{
		{"gpt-4o", "hello world", 2},
		{"gpt-4", "hello world", 2},
		{"gpt-4", "tiktoken is great!", 6},
		{"gpt-4o", "antidisestablishmentarianism", 6},
		{"gpt-4", "お誕生日おめでとう", 9},
		{"gpt-4o", "お誕生日おめでとう", 8},
		{"gpt-4o", "", 0},
	} {
		if got := New(c.model).Count(c.text); got != c.want {
			t.Errorf("%s: %q has %d tokens, want %d", c.model, c.text, got, c.want)
		}
	}
}

func TestModelsAreKnownByTheirFamily(t *testing.T) {
	for model, want := range map[string]vocabulary{
		"gpt-4o": o200k, "gpt-4o-mini-2024-07-18": o200k, "openai/gpt-4.1-nano": o200k, "gpt-5.2": o200k,
		"o3-mini": o200k, "o1": o200k,
		"ft:gpt-4o-mini:acme::1": o200k, "gpt-4": cl100k, "gpt-4-turbo": cl100k, "gpt-3.5-turbo": cl100k,
		"": unknown, "llama3.2": unknown, "o10": unknown, "gpt-50": unknown, "gpt-40": unknown,
		"claude-sonnet": unknown, "gpt-oss:20b": unknown,
	} {
		if got := vocabularyOf(model); got != want {
			t.Errorf("%q: vocabulary %d, want %d", model, got, want)
		}
		if exact := New(model).Exact(); exact != (want != unknown) {
			t.Errorf("%q: Exact is %v", model, exact)
		}
	}
}

func TestMakingATokenizerLoadsNoVocabulary(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() { New("gpt-4o").Count("") }); n > 10 {
		t.Errorf("%v allocations before anything is counted", n)
	}
}

// hostile are texts on which a tokenizer can take time that grows with the square of the length.
func hostile(n int) map[string]string {
	r := rand.New(rand.NewSource(1))
	noise, lower := make([]byte, n), make([]byte, n)
	for i := range n {
		noise[i], lower[i] = byte(r.Intn(256)), byte('a'+r.Intn(26))
	}
	texts := map[string]string{"noise": string(noise), "lower": string(lower)}
	for _, s := range []string{
		"a", "A", " ", "\n", " \n", "1", "!", "中", "😀", "\u0301", "a's", "\u2003\n",
		strings.Repeat(" \n", 100) + "x",
	} {
		texts[s] = strings.Repeat(s, n/len(s))
	}
	return texts
}

// The bound is far above what is measured, also on a busy machine; a count whose time grows with the square takes
// longer.
func TestAnythingIsCountedInLinearTime(t *testing.T) {
	tok := New("gpt-4")
	tok.Count("load")
	for name, text := range hostile(160 << 10) {
		began := time.Now()
		n := tok.Count(text)
		if d := time.Since(began); d > 10*time.Second || n == 0 {
			t.Errorf("%.10q: %d tokens in %v", name, n, d)
		}
	}
}

func TestLongWhiteSpaceIsNotUndercounted(t *testing.T) {
	for _, s := range []string{
		strings.Repeat(" ", 1000), strings.Repeat(" \n", 500),
		"x" + strings.Repeat("\n", 1000) + "y",
	} {
		exact, err := New("gpt-4").codec().Count(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := New("gpt-4").Count(s); got < exact/2 {
			t.Errorf("%.8q: %d tokens, exactly %d", s, got, exact)
		}
	}
}

func TestTheEstimateIsHardlyEverLowerThanTheCount(t *testing.T) {
	tok := New("gpt-4o")
	for name, text := range map[string]string{
		"prose": "The quick brown fox jumps over the lazy dog, and then it sits down to think about what it has " +
			"done. Nobody knows why.",
		"code": "func (t *Tokenizer) Count(text string) int {\n\tif t.codec == nil {\n\t\treturn " +
			"llm.Estimate{}.Count(text)\n\t}\n}\n",
		"json":    `{"path":"notes/todo.md","offset":0,"limit":2000,"tags":["a","b"],"nested":{"ok":true,"n":12345}}`,
		"german":  "Die Donaudampfschifffahrtsgesellschaft hat gestern ihre neuen Öffnungszeiten veröffentlicht.",
		"russian": "Быстрая коричневая лиса прыгает через ленивую собаку и задумывается.",
		"chinese": "今天天气很好，我们一起去公园散步吧。",
		"emoji":   "😀🎉🚀👩‍👩‍👧‍👦",
		"base64":  "aGVsbG8gd29ybGQsIHRoaXMgaXMgYSBsb25nZXIgYmFzZTY0IHN0cmluZyB0byBjb3VudA==",
		"hex":     "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"lower":   hostile(4 << 10)["lower"],
	} {
		exact, estimate := tok.Count(text), llm.Estimate{}.Count(text)
		if estimate < exact*4/5 || estimate > exact*4 {
			t.Errorf("%s: estimated %d, exactly %d", name, estimate, exact)
		}
	}
}

func TestManyCountAtOnce(t *testing.T) {
	tok := New("gpt-4o")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if n := tok.Count("hello world"); n != 2 {
					t.Errorf("%d tokens", n)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzCountTakesAnyText(f *testing.F) {
	f.Add("hello\xff world")
	f.Add(strings.Repeat(" \n", 300))
	exact, estimate := New("gpt-4o"), New("other")
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range []*Tokenizer{exact, estimate} {
			if n := tok.Count(s); n < 0 || n > 4*len(s) || s != "" && tok == exact && n == 0 {
				t.Errorf("%q: %d tokens", s, n)
			}
		}
	})
}

func BenchmarkCountAMegabyte(b *testing.B) {
	tok := New("gpt-4o")
	text := strings.Repeat("The quick brown fox jumps. ", (1<<20)/27)
	for b.Loop() {
		tok.Count(text)
	}
}

func TestLongRunsOfWhiteSpaceAreFound(t *testing.T) {
	long, short := strings.Repeat(" \n", maxSpaces), strings.Repeat(" ", maxSpaces)
	for _, c := range []struct {
		text       string
		start, end int
	}{
		{"a b", 3, 3},
		{short + "a" + short, 2*maxSpaces + 1, 2*maxSpaces + 1},
		{"ab" + long + "c", 2, 2 + 2*maxSpaces},
		{"a b" + long, 3, 3 + 2*maxSpaces},
		{long, 0, 2 * maxSpaces},
		{strings.Repeat("\u2003", maxSpaces) + "x", 0, 3 * maxSpaces},
	} {
		if start, end := longSpaces(c.text); start != c.start || end != c.end {
			t.Errorf("%.10q: %d to %d, want %d to %d", c.text, start, end, c.start, c.end)
		}
	}
}

func TestWhatIsBeyondTheLimitIsEstimated(t *testing.T) {
	tok := New("gpt-4")
	head, tail := "xxx"+strings.Repeat("中", MaxExact/3-1), strings.Repeat("7", 300)
	exact := tok.Count(head)
	if len(head) > MaxExact || MaxExact-len(head) > 3 {
		t.Fatalf("the head has %d bytes", len(head))
	}
	got := tok.Count(head + "é" + tail)
	if want := exact + (llm.Estimate{}).Count("é"+tail); got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
}
