package storage

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// failing is a store one of whose statements fails once, when it has run so often since armed was set.
func failing(t *testing.T, sql string, nth int64, armed *atomic.Bool) *DB {
	t.Helper()
	db, err := Open(t.Context(), seeded(t), Options{})
	must(t, err)
	var seen atomic.Int64
	inject(db, func(s string, after bool) error {
		if s == sql && after && armed.Load() && seen.Add(1) == nth {
			return errDisk
		}
		return nil
	})
	t.Cleanup(running(t, db))
	return db
}

func settleAndClaim(t *testing.T, db *DB, d corebot.Delivery, lanes int) ([]corebot.Delivery, error) {
	t.Helper()
	return NewQueue(db).SettleAndClaim(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		corebot.Claim{Pool: corebot.InboundPool, Max: lanes, Options: corebot.ClaimOptions{Lease: time.Minute}})
}

// Nobody waits for a next claim once the end of its predecessor is answered: a lane that it got later would be lost.
func TestANextClaimIsForgottenIfItCannotBeServed(t *testing.T) {
	var armed atomic.Bool
	db := failing(t, leaseLane.sql, 2, &armed)
	for _, chat := range []string{"a", "b", "c"} {
		publishTest(t, db, chat, "of "+chat)
	}
	d := claimTest(t, db)
	armed.Store(true)
	got, err := settleAndClaim(t, db, d, 2)
	if err != nil || len(got) > 0 {
		t.Fatalf("got %v, %v", got, err)
	}
	if d := claimTest(t, db); d.Message.ID != "of b" || d.Epoch != 1 {
		t.Errorf("the next claim gets %s with epoch %d", d.Message.ID, d.Epoch)
	}
}

func TestANextClaimGetsNothingIfTheCommitFails(t *testing.T) {
	var armed atomic.Bool
	db := failing(t, bumpBatch.sql, 1, &armed)
	publishTest(t, db, "a", "1")
	publishTest(t, db, "b", "2")
	d := claimTest(t, db)
	armed.Store(true)
	if got, err := settleAndClaim(t, db, d, 1); err == nil || got != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	got, err := settleAndClaim(t, db, d, 1)
	if err != nil || len(got) != 1 || got[0].Message.ID != "2" || got[0].Epoch != 1 {
		t.Errorf("the second try got %+v, %v", got, err)
	}
}

func TestTheEndOfAClaimAndTheNextClaimAreOneCommit(t *testing.T) {
	db := openTest(t, t.TempDir())
	publishTest(t, db, "a", "1")
	publishTest(t, db, "b", "2")
	d := claimTest(t, db)
	batch := func() (n int64) {
		must(t, db.betweenTransactions(t.Context(), func(w *writer) { n = w.batch }))
		return n
	}
	before := batch()
	got, err := settleAndClaim(t, db, d, 1)
	if after := batch(); err != nil || len(got) != 1 || after != before+1 {
		t.Errorf("got %v, %v, in %d commits", got, err, after-before)
	}
}
