package storage

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// waitingReply puts a reply into the outbound lane of a chat and settles its first claim.
func waitingReply(t *testing.T, db *DB, o corebot.Outcome) {
	t.Helper()
	m := testMessage("chat", "reply")
	m.Direction, m.Kind = corebot.Outbound, corebot.KindReply
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	must(t, NewQueue(db).Settle(t.Context(), claimReply(t, db, time.Minute), o))
}

// claimReply waits so long for a reply, and gives a delivery without a life if there is none.
func claimReply(t *testing.T, db *DB, patience time.Duration) corebot.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ds, err := NewQueue(db).Claim(ctx, corebot.OutboundPool("test"), 1, corebot.ClaimOptions{Lease: time.Minute})
	if err != nil {
		return corebot.Delivery{}
	}
	return ds[0]
}

func TestAWaitingClaimGetsWhatWaitedForAPlaceInTheMomentThatThePlaceIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		waitingReply(t, db, corebot.Outcome{Verb: corebot.Wait, At: time.Now().Add(time.Hour), Reason: corebot.NotNow})
		began, got := time.Now(), make(chan corebot.Delivery, 1)
		go func() { got <- claimReply(t, db, 2*time.Hour) }()
		synctest.Wait() // the claim waits, at most for the hour
		must(t, NewQueue(db).Wake(t.Context(), testKey("chat")))
		if d := <-got; d.Message.ID != "reply" || time.Since(began) > 0 {
			t.Errorf("got %q after %v", d.Message.ID, time.Since(began))
		}
	})
}

func TestAPlaceThatIsThereCutsNoBackoffShort(t *testing.T) {
	for name, o := range map[string]corebot.Outcome{
		"a retry":                   {Verb: corebot.RetryAt, At: time.Now().Add(time.Hour), Error: "x"},
		"a wait for something else": {Verb: corebot.Wait, At: time.Now().Add(time.Hour), Reason: "approval"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := openTest(t, t.TempDir())
				o.At = time.Now().Add(time.Hour)
				waitingReply(t, db, o)
				must(t, NewQueue(db).Wake(t.Context(), testKey("chat")))
				if d := claimReply(t, db, time.Minute); d.Life != 0 {
					t.Errorf("claimed %+v", d)
				}
			})
		})
	}
}

// A store that has nothing to do must not look whether there is something: the idle program costs nothing.
func TestAnIdleStoreWithWaitingClaimsBeginsNoTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), seeded(t), Options{})
		must(t, err)
		var begun atomic.Int64
		inject(db, func(sql string, after bool) error {
			if sql == begin.sql && !after {
				begun.Add(1)
			}
			return nil
		})
		runTest(t, db)
		publishTest(t, db, "chat", "1")
		must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{
			Verb: corebot.Wait,
			At:   time.Now().Add(23 * time.Hour), Reason: "approval",
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		for _, pool := range []corebot.Pool{corebot.OutboundPool("a"), corebot.OutboundPool("b")} {
			go func() { _, _ = NewQueue(db).Claim(ctx, pool, 1, corebot.ClaimOptions{Lease: time.Minute}) }()
		}
		idleFrom := begun.Load()
		ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
		if err != nil || ds[0].Message.ID != "1" {
			t.Fatalf("got %+v, %v", ds, err)
		}
		synctest.Wait()
		if n := begun.Load() - idleFrom; n > 5 {
			t.Errorf("%d transactions in 23 idle hours, want those in which three claims begin to wait and serve one",
				n)
		}
	})
}

func TestALaneThatNobodyClaimsIsOverdueAndOneThatIsClaimedOrWaitsIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		overdue := func() string {
			mark, err := NewQueue(db).Overdue(t.Context(), corebot.InboundPool)
			must(t, err)
			return mark
		}
		if mark := overdue(); mark != "" {
			t.Errorf("in an empty queue %q is overdue", mark)
		}
		publishTest(t, db, "chat", "1")
		first := overdue()
		time.Sleep(time.Second)
		if first == "" || overdue() != first {
			t.Errorf("a lane that nobody claims is %q, then %q", first, overdue())
		}
		d := claimTest(t, db)
		if mark := overdue(); mark != "" {
			t.Errorf("leased, %q is overdue", mark)
		}
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{
			Verb: corebot.RetryAt, At: time.Now().Add(time.Hour), Error: "x",
		}))
		if mark := overdue(); mark != "" {
			t.Errorf("in its backoff, %q is overdue", mark)
		}
		time.Sleep(2 * time.Hour)
		if mark := overdue(); mark == "" || mark == first {
			t.Errorf("due again, it is %q", mark)
		}
	})
}
