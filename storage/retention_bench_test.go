package storage

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// BenchmarkPublishWhileSweeping publishes one message after the other while nobody sweeps, and while 100,000 lives with
// a step each are swept. It reports the time of a publish: the median, and what one in a hundred takes longer than.
func BenchmarkPublishWhileSweeping(b *testing.B) {
	const lives = 100_000
	for _, sweeps := range []bool{false, true} {
		b.Run(fmt.Sprintf("sweep=%v", sweeps), func(b *testing.B) {
			for range b.N {
				dir := b.TempDir()
				empty, err := Open(b.Context(), dir, Options{})
				must(b, err)
				must(b, empty.Close())
				many(b, dir, lives, time.Now().Add(-2*day))
				grow(b, dir, lives, `INSERT INTO execution_steps (life_id, run, position, kind, state, request, result,
					started_at)
					SELECT i, 1, 0, 'tool', 'done', hex(randomblob(100)), hex(randomblob(200)), 0 FROM n`)
				db := openTest(b, dir)
				var swept atomic.Bool
				began := time.Now()
				if sweeps {
					go func() {
						defer swept.Store(true)
						if err := keeping(b, db, RetentionOptions{Messages: day}).Sweep(b.Context()); err != nil {
							b.Error(err)
						}
						b.ReportMetric(time.Since(began).Seconds(), "sweep-s")
					}()
				}
				var times []time.Duration
				for i := 0; sweeps && !swept.Load() || !sweeps && time.Since(began) < 3*time.Second; i++ {
					m := testMessage("chat", fmt.Sprintf("new-%08d", i))
					at := time.Now()
					if _, err := NewQueue(db).Publish(b.Context(), []corebot.Message{m}, corebot.Limits{}); err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(at))
				}
				slices.Sort(times)
				b.ReportMetric(times[len(times)/2].Seconds()*1e3, "p50-ms")
				b.ReportMetric(times[len(times)*99/100].Seconds()*1e3, "p99-ms")
				b.ReportMetric(times[len(times)-1].Seconds()*1e3, "max-ms")
				if n := count(b, dir, "message_life WHERE id <= 100000"); sweeps && n != 0 {
					b.Errorf("%d lives are left", n)
				}
			}
		})
	}
}
