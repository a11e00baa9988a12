package storage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// waitTest has the first call of a claim wait.
func waitTest(t testing.TB, db *DB, d corebot.Delivery, kind corebot.WaitKind, until time.Time) corebot.Pending {
	t.Helper()
	step := corebot.Step{
		Kind: corebot.StepTool, State: corebot.StepWaiting,
		Call: &corebot.ToolCall{ID: "c", Tool: "x", Args: []byte(`{}`)},
	}
	w, err := NewLedger(db).Wait(t.Context(), d, step,
		corebot.Pending{Kind: kind, State: corebot.WaitAwaited, Until: until}, corebot.AuditEvent{})
	must(t, err)
	return w
}

func sleepTest(t testing.TB, db *DB, d corebot.Delivery, w corebot.Pending) {
	t.Helper()
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{
		Verb: corebot.Wait, At: w.Until,
		Reason: w.Awaiting(),
	}))
}

// TestAWaitLastsAsLongAsPlannedWhenTheClockIsSetBack: only a time of the wall clock is where it was.
func TestAWaitLastsAsLongAsPlannedWhenTheClockIsSetBack(t *testing.T) {
	for kind, lasts := range map[corebot.WaitKind]time.Duration{
		corebot.WaitSpan: 15 * time.Minute, corebot.WaitWord: 15 * time.Minute, corebot.WaitTime: 75 * time.Minute,
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStepped(t)
				publishTest(t, s.DB, "a", "1")
				d := s.claim(time.Second, stepClaim)
				w := waitTest(t, s.DB, d, kind, s.wall().Add(15*time.Minute))
				sleepTest(t, s.DB, d, w)
				s.step(-time.Hour)
				for began := time.Now(); ; sleepTest(t, s.DB, d, w) {
					d = s.wantWithin("1", 2*time.Hour)
					if w = waitTest(t, s.DB, d, kind, time.Time{}); w.Waits() {
						continue // woken by the new clock, it waits again
					}
					if took := time.Since(began); took < lasts || took > lasts+clockLook {
						t.Errorf("it took %v, want %v", took, lasts)
					}
					return
				}
			})
		})
	}
}

func TestWaitsGoWithTheLivesOfTheirMessages(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		waitTest(t, db, d, corebot.WaitWord, time.Now().Add(time.Hour))
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{
			Verb: corebot.Done,
			End:  corebot.EndAnswered,
		}}))
		publishTest(t, db, "a", "2")
		d = claimTest(t, db)
		waits := waitTest(t, db, d, corebot.WaitWord, time.Now().Add(10*day))
		sleepTest(t, db, d, waits)
		time.Sleep(2 * day)
		must(t, keeping(t, db, RetentionOptions{Messages: day}).Sweep(t.Context()))
		var rows, left int64
		if _, err := db.reader.one(t.Context(), &query{`SELECT COUNT(*), MAX(id) FROM waits`},
			[]any{&rows, &left}); err != nil || rows != 1 || left != waits.ID {
			t.Errorf("%d are left, the newest %d: %v; want that of the message that waits", rows, left, err)
		}
	})
}

// TestALongWaitIsKeptAcrossARestart: no lane waits for longer than the longest backoff behind a restart, and the turn
// then waits again.
func TestALongWaitIsKeptAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		var until time.Time
		earlier(t, dir, func(db *DB) {
			publishTest(t, db, "a", "1")
			d := claimTest(t, db)
			until = time.Now().Add(10 * longestWait)
			sleepTest(t, db, d, waitTest(t, db, d, corebot.WaitSpan, until))
		})
		db, err := Open(t.Context(), dir, Options{})
		must(t, err)
		runTest(t, db)
		for wakes := 0; ; wakes++ {
			ds, err := NewQueue(db).Claim(t.Context(), corebot.InboundPool, 1, stepClaim)
			must(t, err)
			d := ds[0]
			w := waitTest(t, db, d, corebot.WaitSpan, time.Time{})
			if !w.Waits() {
				if early := time.Until(until); early > 0 || wakes != 1 {
					t.Errorf("it is over %v early, woken %d times before", early, wakes)
				}
				return
			}
			sleepTest(t, db, d, w)
		}
	})
}
