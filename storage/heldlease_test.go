package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

// A process that is stopped for a while finds its leases expired, and its workers alive: they extend and settle as if
// nothing had happened. A lane that was held back meanwhile would be out of every count.
func TestALaneWhoseLeaseExpiredIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		s := &shop{t: t, db: db, turns: 4}
		for i := range 3 {
			publishAs(t, db, "ann", fmt.Sprint("a", i), "1")
		}
		s.claim(true)
		time.Sleep(2 * time.Minute) // the leases are for one
		publishAs(t, db, "bob", "b", "1")
		publishAs(t, db, "eve", "e", "1")
		s.claim(true)
		held := int64(0)
		_, err := db.reader.one(context.Background(),
			&query{`SELECT COUNT(*) FROM lanes WHERE leased = 1 AND held_for IS NOT NULL`}, []any{&held})
		must(t, err)
		if held != 0 {
			t.Errorf("%d lanes are held back whose leases have expired", held)
		}
	})
}

// hours are a random life of a store with fair turns: leases expire while their workers live, workers vanish, and stops
// come.
type hours struct {
	t      *testing.T
	db     *DB
	chance *rand.Rand
	busy   []corebot.Delivery
	n      int
}

const hoursTurns = 4

func (h *hours) step() {
	ctx := context.Background()
	q := NewQueue(h.db)
	switch h.chance.IntN(8) {
	case 0, 1, 2:
		h.n++
		publishAs(h.t, h.db, fmt.Sprint("s", h.chance.IntN(3)), fmt.Sprint("c", h.chance.IntN(12)), fmt.Sprint(h.n))
	case 3, 4:
		h.busy = append(h.busy, h.claim(time.Millisecond)...)
	case 5:
		if len(h.busy) == 0 {
			return
		}
		i := h.chance.IntN(len(h.busy))
		d := h.busy[i]
		h.busy = append(h.busy[:i:i], h.busy[i+1:]...)
		switch h.chance.IntN(4) { // else its worker vanishes; a lease that was lost is no concern of this test
		case 0, 1:
			_ = q.Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered})
		case 2:
			_ = q.Settle(ctx, d, corebot.Outcome{Verb: corebot.RetryAt, At: time.Now().Add(time.Second)})
		}
	case 6:
		for _, d := range h.busy {
			_, err := q.Extend(ctx, []corebot.Lease{d.Lease}, time.Now().Add(time.Minute))
			must(h.t, err)
		}
	case 7:
		time.Sleep(time.Duration(h.chance.IntN(100_000)) * time.Millisecond)
	}
}

func (h *hours) claim(patience time.Duration) []corebot.Delivery {
	room := hoursTurns - len(h.busy)
	if room < 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ds, _ := NewQueue(h.db).Claim(ctx, corebot.InboundPool, 1+h.chance.IntN(room),
		corebot.ClaimOptions{Lease: time.Minute, Turns: hoursTurns})
	return ds
}

func TestNoLaneWaitsForEverWhateverBecomesOfItsLeases(t *testing.T) {
	for seed := range long.Or(uint64(4), 20) {
		synctest.Test(t, func(t *testing.T) {
			h := &hours{t: t, db: openTest(t, t.TempDir()), chance: rand.New(rand.NewPCG(seed, 7))}
			for range 120 {
				h.step()
			}
			h.busy = nil
			for ds := h.claim(3 * time.Minute); len(ds) > 0; ds = h.claim(3 * time.Minute) {
				for _, d := range ds {
					must(t, NewQueue(h.db).Settle(context.Background(), d, corebot.Outcome{
						Verb: corebot.Done,
						End:  corebot.EndAnswered,
					}))
				}
			}
			var waiting, stray int64
			_, err := h.db.reader.one(context.Background(), &query{`SELECT COALESCE(SUM(depth), 0),
				COALESCE(SUM(depth = 0 AND (wake_at IS NOT NULL OR held_for IS NOT NULL)), 0)
			FROM lanes`}, []any{&waiting, &stray})
			must(t, err)
			if aside := len(h.db.aside.all()); waiting+stray > 0 || aside > 0 {
				t.Errorf("seed %d: %d messages wait for ever, %d empty lanes are due or held back, %d are set aside",
					seed, waiting, stray, aside)
			}
		})
	}
}

func TestADamagedMessageThatDiesMakesRoomForItsSender(t *testing.T) {
	db := openTest(t, t.TempDir())
	limits := corebot.Limits{SenderDepth: 1}
	publish := func(chat string) error {
		r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{saidBy("ann", chat, "1")}, limits)
		must(t, err)
		return r[0].Err
	}
	change := func(sql string) {
		must(t, db.write(t.Context(), "test", func(tx *tx) error {
			_, err := tx.exec(&query{sql})
			return err
		}))
	}
	must(t, publish("a"))
	if err := publish("b"); err == nil {
		t.Fatal("the limit does not hold")
	}
	change(`UPDATE message_queue SET body = x'0102030405'`)
	d := claimTest(t, db)
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: corebot.ReasonDamaged}))
	must(t, publish("c")) // nothing of hers waits

	change(`DELETE FROM message_queue`)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _ = NewQueue(db).Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
	aside := db.aside.all()
	if len(aside) != 1 {
		t.Fatalf("%d lanes are set aside", len(aside))
	}
	_, err := NewDeadLetters(db).GiveUp(t.Context(), aside[0].Lane)
	must(t, err)
	must(t, publish("d"))
}
