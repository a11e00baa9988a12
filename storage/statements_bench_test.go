package storage

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// BenchmarkStatements is the processor's part of the hot operations: each runs in one long transaction, without waiting
// for a disk or for another goroutine. Compare two versions with benchstat.
func BenchmarkStatements(b *testing.B) {
	b.Run("publish", func(b *testing.B) {
		inOneTransaction(b, func(t *tx, i int) error { return publishNth(t, i) })
	})
	b.Run("publish again", func(b *testing.B) {
		inOneTransaction(b, func(t *tx, i int) error { return publishNth(t, min(i, 1)) })
	})
	b.Run("publish, claim, settle", func(b *testing.B) {
		inOneTransaction(b, func(t *tx, i int) error {
			if err := publishNth(t, i); err != nil {
				return err
			}
			d, err := claimOneTx(t)
			if err != nil {
				return err
			}
			return settleTx(t, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered})
		})
	})
}

func inOneTransaction(b *testing.B, fn func(t *tx, i int) error) {
	db := openTest(b, b.TempDir())
	b.ReportAllocs()
	err := db.write(context.Background(), "bench", func(t *tx) error {
		i := 0
		for b.Loop() {
			if err := fn(t, i); err != nil {
				return err
			}
			i++
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func publishNth(t *tx, i int) error {
	r, err := publishTx(t, &pack([]corebot.Message{benchMessage(0, i)})[0], corebot.Limits{})
	if err == nil {
		err = r.Err
	}
	return err
}

func claimOneTx(t *tx) (*corebot.Delivery, error) {
	ready, err := readyLanesTx(t, corebot.InboundPool, 1)
	if err != nil {
		return nil, err
	}
	if len(ready) != 1 {
		return nil, fmt.Errorf("%d lanes are ready", len(ready))
	}
	c := &ready[0]
	if err := loadTx(t, c); err != nil {
		return nil, err
	}
	if err := leaseTx(t, c, corebot.ClaimOptions{Lease: time.Minute}); err != nil {
		return nil, err
	}
	d := c.delivery(corebot.InboundPool)
	return &d, nil
}

// BenchmarkIndex indexes the history of 500 turns of four entries each, without the rests between the steps.
func BenchmarkIndex(b *testing.B) {
	db := openTest(b, b.TempDir())
	for i := range 500 {
		dialogue(b, db, fmt.Sprint("chat", i%100), fmt.Sprint(i), fmt.Sprintf("Where is parcel %d of %d?", i, i*7),
			fmt.Sprintf("Parcel %d waits at the office of district %d; it was brought there at noon.", i, i%13))
	}
	index, err := NewSearchIndex(db, SearchIndexOptions{})
	must(b, err)
	for b.Loop() {
		_, err := index.Renew(b.Context())
		must(b, err)
		for more := true; more; {
			more, err = index.step(b.Context())
			must(b, err)
		}
	}
}

// BenchmarkRecallOfAChat recalls a chat of 20 entries, as each turn does.
func BenchmarkRecallOfAChat(b *testing.B) {
	db := openTest(b, b.TempDir())
	for i := range 5 {
		dialogue(b, db, "a", fmt.Sprint(i), "Where is the parcel?", "It waits at the office of the district.")
	}
	history := NewHistory(db)
	d := corebot.Delivery{Message: corebot.Message{Key: testKey("a")}, ClaimedAt: time.Now()}
	b.ReportAllocs()
	for b.Loop() {
		_, entries, err := history.Recall(b.Context(), d, 5)
		must(b, err)
		n := 0
		for _, err := range entries {
			must(b, err)
			n++
		}
		if n != 20 {
			b.Fatal(n)
		}
	}
}
