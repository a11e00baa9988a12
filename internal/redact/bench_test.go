package redact_test

import (
	"strings"
	"testing"
)

// BenchmarkText redacts 64 KiB without a secret, which is what nearly every text is.
func BenchmarkText(b *testing.B) {
	for name, line := range map[string]string{
		"prose": "The quick brown fox: at 12:30 it jumped over https://example.org/a/b?c=d and then, with some " +
			"skill, asked the lazy dog.\n",
		"log": `{"level":"info","chat":"webhook/c-17","message":"m81724","took_ms":12.5,` +
			`"at":"2026-11-22T12:30:45.123Z","path":"/v1/chat"}` + "\n",
		"hex": "3b18e512dba79e4c8300dd08aeb37f8e728b8dad 100644 internal/redact/redact.go SKIP task_live_data " +
			"key-value\n",
	} {
		text := strings.Repeat(line, 64<<10/len(line))
		b.Run(name, func(b *testing.B) {
			r := newRedactor(b, "hunter2hunter2")
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r.Text(text)
			}
		})
	}
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			newRedactor(b, "hunter2hunter2")
		}
	})
}
