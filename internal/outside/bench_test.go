package outside_test

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/outside"
)

func BenchmarkTextOfAPage(b *testing.B) {
	page := strings.Repeat("A line of <b>text</b> with [links](http://example.com/): and so on, as pages have.\n", 400)
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		outside.Text(page)
	}
}

func BenchmarkTextOfAMessage(b *testing.B) {
	for b.Loop() {
		outside.Text("Tell me: what is the weather like in Rome?")
	}
}
