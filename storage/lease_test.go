package storage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// extendTest extends a lease and says whether it is lost.
func extendTest(t *testing.T, db *DB, d corebot.Delivery) bool {
	t.Helper()
	lost, err := NewQueue(db).Extend(t.Context(), []corebot.Lease{d.Lease}, time.Now().Add(time.Minute))
	must(t, err)
	return len(lost) > 0
}

// A heartbeat may have read its list of leases before a turn committed.
func TestALeaseWhoseClaimWasSettledIsNotLost(t *testing.T) {
	answered := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	for name, c := range map[string]struct {
		outcome corebot.Outcome
		next    bool
	}{
		"answered": {answered, false}, "and the next claim has the lane": {answered, true},
		"tried again": {corebot.Outcome{Verb: corebot.RetryAt, At: time.Now(), Error: "x"}, true},
		"waiting":     {corebot.Outcome{Verb: corebot.Wait, At: time.Now(), Reason: "x"}, true},
		"dead":        {corebot.Outcome{Verb: corebot.Dead, Reason: "x"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			publishTest(t, db, "a", "1")
			publishTest(t, db, "a", "2")
			d := claimTest(t, db)
			must(t, NewQueue(db).Settle(t.Context(), d, c.outcome))
			if c.next {
				claimTest(t, db)
			}
			if extendTest(t, db, d) {
				t.Error("it counts as lost")
			}
			if err := NewQueue(db).Settle(t.Context(), d, answered); !errors.Is(err, corebot.ErrSettled) ||
				!errors.Is(err, corebot.ErrLeaseLost) {
				t.Errorf("to settle it again gives %v", err)
			}
			if err := NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: answered}); !errors.Is(err,
				corebot.ErrSettled) {
				t.Errorf("to commit it again gives %v", err)
			}
		})
	}
}

func TestALeaseThatAnotherClaimTookIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		time.Sleep(time.Hour)
		next := claimTest(t, db)
		if !extendTest(t, db, d) {
			t.Error("it does not count as lost")
		}
		must(t, NewQueue(db).Settle(t.Context(), next, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
		if !extendTest(t, db, d) || extendTest(t, db, next) {
			t.Error("the loss is of the wrong claim when the next is settled")
		}
		if err := NewQueue(db).Settle(t.Context(), d, corebot.Outcome{
			Verb: corebot.Done,
			End:  corebot.EndAnswered,
		}); !errors.Is(err, corebot.ErrLeaseLost) || errors.Is(err, corebot.ErrSettled) {
			t.Errorf("to settle it gives %v", err)
		}
	})
}

func TestAWorkerThatLostItsLeaseLearnsItWhereNothingIsToBeMerged(t *testing.T) {
	db := openTest(t, t.TempDir())
	publishTest(t, db, "a", "1")
	d := claimTest(t, db)
	if steps, err := NewLedger(db).Merge(t.Context(), d, 0); err != nil || len(steps) != 0 {
		t.Fatalf("the holder of the lease merged %v, %v", steps, err)
	}
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		_, err := t.exec(&query{`UPDATE lanes SET epoch = epoch + 1`})
		return err
	}))
	if _, err := NewLedger(db).Merge(t.Context(), d, 0); !errors.Is(err, corebot.ErrLeaseLost) {
		t.Errorf("after another claim it is told %v", err)
	}
}

// TestRepliesOfAnAccountThatIsFetchedFromNowOnWaitNoLonger: a callback answered that it wants to be asked in an hour.
func TestRepliesOfAnAccountThatIsFetchedFromNowOnWaitNoLonger(t *testing.T) {
	db := openTest(t, t.TempDir())
	q, pool := NewQueue(db), corebot.OutboundPool("test")
	claim := func(most int) []corebot.Delivery {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		claimed, err := q.Claim(ctx, pool, most, corebot.ClaimOptions{Lease: time.Minute})
		must(t, err)
		return claimed
	}
	for _, chat := range []string{"a", "b", "leased"} {
		_, err := q.Publish(t.Context(), []corebot.Message{outboundTest(chat, chat)}, corebot.Limits{})
		must(t, err)
	}
	for _, d := range claim(3) {
		if d.Message.Key.Chat != "leased" {
			must(t, q.Settle(t.Context(), d, corebot.Outcome{Verb: corebot.RetryAt, At: time.Now().Add(time.Hour)}))
		}
	}
	for account, want := range map[string]int64{"another": 0, "": 2} {
		if n, err := q.MakeDue(t.Context(), "test", account); err != nil || n != want {
			t.Errorf("of the account %q %d lanes were made due, %v", account, n, err)
		}
	}
	if due := claim(3); len(due) != 2 {
		t.Errorf("%d replies are due", len(due))
	}
}
