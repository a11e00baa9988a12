//go:build linux && (amd64 || arm64)

package isolation

import (
	"testing"
	"time"
)

// BenchmarkAJob is what a call of a tool costs more in a worker: its processes, its walls, and its end. Programs cost
// one process less.
func BenchmarkAJob(b *testing.B) {
	for _, mode := range modes {
		b.Run(string(mode), func(b *testing.B) {
			self(b)
			r := newRunner(b, mode, Options{})
			for b.Loop() {
				if _, err := r.Do(b.Context(), Job{
					Tool: "test", Input: []byte("say hi"), Access: WriteFiles,
					Timeout: 20 * time.Second,
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
