package storage

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// Figures of docs/operations.md: one run of each is enough.
//
//	go test ./storage -run '^$' -bench 'Million|HundredThousand' -benchtime 1x

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// timed measures in the middle of a benchmark that has prepared for long. Other work on the machine makes the time
// longer; the time of the processor stays.
func timed(b *testing.B, do func()) {
	b.Helper()
	for b.Loop() {
		before := processorTime(b)
		do()
		b.ReportMetric((processorTime(b) - before).Seconds(), "cpu-s/op")
	}
}

func BenchmarkVerifyAMillionEvents(b *testing.B) {
	const all, part = 1_000_000, 20_000
	db := openTest(b, b.TempDir())
	events := slices.Repeat([]corebot.AuditEvent{{
		Event: "tool.result", Tool: "fs.read", Key: testMessage("a", "1").Key, Args: strings.Repeat("x", 200),
	}}, part)
	for range all / part {
		must(b, db.write(b.Context(), "audit", func(t *tx) error { return auditTx(t, events) }))
	}
	timed(b, func() {
		if n := wholeTrail(b, db).Events; n != all {
			b.Fatalf("%d events", n)
		}
	})
}

// BenchmarkCountAHundredThousandDeadLetters has a thousand chats and ten reasons.
func BenchmarkCountAHundredThousandDeadLetters(b *testing.B) {
	const all, part = 100_000, 1000
	db := openTest(b, b.TempDir())
	q := NewQueue(db)
	for from := 0; from < all; from += part {
		var batch []corebot.Message
		for n := range part {
			batch = append(batch, testMessage(fmt.Sprint("chat", n), fmt.Sprint(from+n)))
		}
		_, err := q.Publish(b.Context(), batch, corebot.Limits{})
		must(b, err)
		ds, err := q.Claim(b.Context(), corebot.InboundPool, part, corebot.ClaimOptions{Lease: time.Minute})
		must(b, err)
		for n, d := range ds {
			must(b, q.Settle(b.Context(), d, corebot.Outcome{
				Verb: corebot.Dead, Reason: fmt.Sprint("reason", n%10), Error: "the provider answered 500",
			}))
		}
	}
	for _, by := range []corebot.DeadBy{corebot.DeadByReason, corebot.DeadByCause, corebot.DeadByChat} {
		b.Run(string(by), func(b *testing.B) {
			timed(b, func() {
				c, err := NewDeadLetters(db).Count(b.Context(), corebot.DeadLetterFilter{}, by)
				if err != nil || c.Total != all {
					b.Fatalf("%+v, %v", c, err)
				}
			})
		})
	}
}
