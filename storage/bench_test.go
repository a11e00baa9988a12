package storage

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// The workload: 64 publishers, 512-byte bodies, 1,000 chats, 10,000 messages an iteration, consumers that only settle.
const (
	benchMessages  = 10_000
	benchChats     = 1_000
	benchPublisher = 64
	benchConsumer  = 64
)

func benchMessage(round, i int) corebot.Message {
	chat := i % benchChats
	return corebot.Message{
		ID: fmt.Sprintf("%06d-%08d", round, i), Direction: corebot.Inbound, Kind: corebot.KindPrompt,
		Key:    corebot.Key{Agent: corebot.DefaultAgent, Channel: "bench", Chat: fmt.Sprintf("chat-%04d", chat)},
		Sender: corebot.Principal{Channel: "bench", ID: "someone"},
		Parts:  corebot.TextPart(strings.Repeat("x", 512)),
	}
}

func publishAll(b *testing.B, q *Queue, round int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range benchPublisher {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= benchMessages {
					return
				}
				r, err := q.Publish(context.Background(), []corebot.Message{benchMessage(round, i)},
					corebot.Limits{LaneDepth: 1 << 20})
				if err != nil || r[0].Err != nil || r[0].Duplicate {
					b.Errorf("publish: %v %+v", err, r)
				}
			}
		})
	}
	wg.Wait()
}

func consumeAll(b *testing.B, q *Queue) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var left atomic.Int64
	left.Store(benchMessages)
	var wg sync.WaitGroup
	for range benchConsumer {
		wg.Go(func() {
			for ctx.Err() == nil {
				ds, err := q.Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: 30 * time.Second})
				if err != nil {
					return
				}
				for _, d := range ds {
					if err := q.Settle(context.Background(), d, corebot.Outcome{
						Verb: corebot.Done,
						End:  corebot.EndAnswered,
					}); err != nil {
						b.Error(err)
					}
					if left.Add(-1) == 0 {
						cancel()
					}
				}
			}
		})
	}
	wg.Wait()
}

// cpu is the processor time that the process has used. On a shared machine it is a steadier figure than the time on the
// clock.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, used time.Duration) {
	messages := float64(b.N * benchMessages)
	b.ReportMetric(messages/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(used.Microseconds())/messages, "cpu-µs/message")
}

// BenchmarkOpen opens and closes a database that is there, as each start of the program does.
func BenchmarkOpen(b *testing.B) {
	dir := seeded(b)
	b.ReportAllocs()
	for b.Loop() {
		db, err := Open(b.Context(), dir, Options{})
		must(b, err)
		must(b, db.Close())
	}
}

func BenchmarkPublish(b *testing.B) {
	b.ReportAllocs()
	var used time.Duration
	for round := range b.N {
		b.StopTimer()
		db := openTest(b, b.TempDir())
		b.StartTimer()
		at := cpu(b)
		publishAll(b, NewQueue(db), round)
		used += cpu(b) - at
	}
	report(b, used)
}

func BenchmarkDrain(b *testing.B) {
	b.ReportAllocs()
	var used time.Duration
	for round := range b.N {
		b.StopTimer()
		db := openTest(b, b.TempDir())
		publishAll(b, NewQueue(db), round)
		b.StartTimer()
		at := cpu(b)
		consumeAll(b, NewQueue(db))
		used += cpu(b) - at
	}
	report(b, used)
}

func BenchmarkBoth(b *testing.B) {
	b.ReportAllocs()
	var used time.Duration
	for round := range b.N {
		b.StopTimer()
		db := openTest(b, b.TempDir())
		b.StartTimer()
		at := cpu(b)
		var wg sync.WaitGroup
		wg.Go(func() { consumeAll(b, NewQueue(db)) })
		publishAll(b, NewQueue(db), round)
		wg.Wait()
		used += cpu(b) - at
	}
	report(b, used)
}

// BenchmarkPickup is the time from the publish call to the claim's return on an idle bus.
func BenchmarkPickup(b *testing.B) {
	db := openTest(b, b.TempDir())
	q := NewQueue(db)
	got := make(chan corebot.Delivery)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			ds, err := q.Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
			if err != nil {
				return
			}
			got <- ds[0]
		}
	}()
	for i := range b.N {
		if _, err := q.Publish(ctx, []corebot.Message{benchMessage(0, i)}, corebot.Limits{}); err != nil {
			b.Fatal(err)
		}
		d := <-got
		b.StopTimer()
		if err := q.Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(200 * time.Microsecond)
		b.StartTimer()
	}
}
