package markdown

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the pages of testdata anew")

func TestAPageWithEverythingLooksAsItDid(t *testing.T) {
	text := readFile(t, "page.md")
	for _, noColor := range []bool{false, true} {
		for _, width := range []int{40, 80, 120} {
			name := fmt.Sprintf("page-%d.txt", width)
			if !noColor {
				name = fmt.Sprintf("page-%d-color.txt", width)
			}
			got, ok := New(Options{NoColor: noColor}).Render(text, width)
			if !ok {
				t.Fatalf("%s was not laid out", name)
			}
			if *update {
				if err := os.WriteFile(filepath.Join("testdata", name), []byte(visible(got)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want := readFile(t, name); visible(got) != want {
				t.Errorf("%s is not as it was; -update writes it anew. It is now:\n%s", name, visible(got))
			}
		}
	}
}

// visible writes escapes so that a reader of the file sees them and git takes it for text.
func visible(s string) string { return strings.ReplaceAll(s, "\x1b", "␛") }

func readFile(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestContainersThatDoNotFitAreNotIndented(t *testing.T) {
	const in = "- a\n  - b\n    - c\n      - d\n        1000000000. e\n        > f\n\n123456789. g\n\n   # h\n"
	want := "• a\n  • b\n    • c\n      •\n      d\n      1000000000\n      . e\n      │\n      " +
		"f\n\n123456789.\ng\n\n# h\n"
	if got := plain(t, in, MinWidth); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsBeyondTheLimitsIsNotLaidOut(t *testing.T) {
	r := New(Options{})
	if _, ok := r.Render(strings.Repeat("x", MaxText+1), 80); ok {
		t.Error("a text over the limit was laid out")
	}
	if _, ok := r.Render("x", MinWidth-1); ok {
		t.Error("a text was laid out below the least width")
	}
}

func TestOneRendererServesSeveralGoroutines(t *testing.T) {
	r, text := New(Options{}), readFile(t, "page.md")
	want, _ := r.Render(text, 60)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got, _ := r.Render(text, 60); got != want {
				t.Error("it rendered something else")
			}
		})
	}
	wg.Wait()
}

func BenchmarkRender(b *testing.B) {
	page := readFile(b, "page.md")
	for _, size := range []int{4 << 10, 64 << 10} {
		text := strings.Repeat(page, size/len(page)+1)[:size]
		text = strings.ToValidUTF8(text, "")
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			r := New(Options{})
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := r.Render(text, 80); !ok {
					b.Fatal("not laid out")
				}
			}
		})
	}
}
