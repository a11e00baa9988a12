package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// offerTo publishes a message and gives what the receipt says.
func offerTo(t testing.TB, db *DB, m corebot.Message, lim corebot.Limits) error {
	t.Helper()
	r, err := NewQueue(db).Publish(context.Background(), []corebot.Message{m}, lim)
	must(t, err)
	return r[0].Err
}

func TestASenderHasSoManyMessagesWaitingInAllChatsTogether(t *testing.T) {
	db := openTest(t, t.TempDir())
	lim := corebot.Limits{SenderDepth: 3}
	for i := range 3 {
		must(t, offerTo(t, db, saidBy("hog", fmt.Sprint(i), "m"), lim))
	}
	if err := offerTo(t, db, saidBy("hog", "another", "m"), lim); !errors.Is(err, corebot.ErrSenderFull) ||
		!errors.Is(err, corebot.ErrLaneFull) {
		t.Errorf("a fourth message: %v", err)
	}
	must(t, offerTo(t, db, saidBy("hog", "0", "m"), lim)) // a copy of one that was accepted
	must(t, offerTo(t, db, saidBy("ann", "another", "m"), lim))
	for _, chat := range []string{"x", "y", "z"} { // callers without an id are one sender, whatever chats they name
		must(t, offerTo(t, db, saidBy("", chat, "m"), lim))
	}
	if err := offerTo(t, db, saidBy("", "new", "m"), lim); !errors.Is(err, corebot.ErrSenderFull) {
		t.Errorf("a fourth message of nobody: %v", err)
	}
	d := claimTest(t, db)
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	must(t, offerTo(t, db, saidBy("hog", "fresh", "m"), lim))
}

func TestASenderHasSoManyBytesWaiting(t *testing.T) {
	db := openTest(t, t.TempDir())
	long := func(sender, chat string) corebot.Message {
		m := saidBy(sender, chat, "m")
		m.Parts = corebot.TextPart(strings.Repeat("x", 1000))
		return m
	}
	lim := corebot.Limits{SenderBytes: 2500}
	must(t, offerTo(t, db, long("hog", "a"), lim))
	must(t, offerTo(t, db, long("hog", "b"), lim))
	if err := offerTo(t, db, long("hog", "c"), lim); !errors.Is(err, corebot.ErrSenderFull) {
		t.Errorf("a third long message: %v", err)
	}
	must(t, offerTo(t, db, long("ann", "c"), lim))
	must(t, offerTo(t, db, long("bob", "d"), corebot.Limits{SenderBytes: 10})) // one always may
}

func TestTheOwnerIsNeverLockedOut(t *testing.T) {
	db := openTest(t, t.TempDir())
	lim := corebot.Limits{SenderDepth: 2, TotalDepth: 32, Owner: "cli"}
	n := 0
	for ; offerTo(t, db, saidBy(fmt.Sprint(n), fmt.Sprint(n), "m"), lim) == nil; n++ {
	}
	if n != 30 {
		t.Errorf("others have %d of 32 places", n)
	}
	mine := func(chat string) corebot.Message {
		m := saidBy("501", chat, "m")
		m.Key.Channel = "cli"
		return m
	}
	must(t, offerTo(t, db, mine("a"), lim))
	must(t, offerTo(t, db, mine("b"), lim))
	if err := offerTo(t, db, mine("c"), lim); !errors.Is(err, corebot.ErrOverloaded) {
		t.Errorf("the message behind the last place: %v", err)
	}
	db = openTest(t, t.TempDir())
	for i := range 5 {
		must(t, offerTo(t, db, mine(fmt.Sprint(i)), lim)) // more than a sender may have
	}
}

func TestWhatWaitsOfASenderIsCountedHoweverItEnds(t *testing.T) {
	dir, lim := t.TempDir(), corebot.Limits{SenderDepth: 4}
	must(t, Seed(dir))
	db, err := Open(t.Context(), dir, Options{Limits: lim})
	must(t, err)
	runTest(t, db)
	ctx := t.Context()
	full := func(what string) { // as many as there is room for, and none that was forgotten
		t.Helper()
		var lanes []string
		for i := range 5 {
			chat := fmt.Sprint(what, i)
			if err := offerTo(t, db, saidBy("hog", chat, chat), lim); (err != nil) != (i == 4) {
				t.Fatalf("%s: message %d: %v", what, i, err)
			} else if err == nil {
				lanes = append(lanes, chat)
			}
		}
		for range lanes {
			d := claimTest(t, db)
			must(t, NewQueue(db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
		}
	}
	full("first")

	must(t, offerTo(t, db, saidBy("hog", "a", "dies"), lim))
	d := claimTest(t, db)
	must(t, NewQueue(db).Settle(ctx, d, corebot.Outcome{Verb: corebot.RetryAt, At: time.Now()}))
	d = claimTest(t, db)
	must(t, NewQueue(db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	full("after a death")
	must(t, NewDeadLetters(db).Replay(ctx, d.Life, false))
	for i := range 4 { // the replay counts as one
		if err := offerTo(t, db, saidBy("hog", fmt.Sprint("beside a replay", i), "m"), lim); (err != nil) != (i == 3) {
			t.Errorf("message %d beside a replay: %v", i, err)
		}
	}
	for range 3 {
		d = claimTest(t, db)
		must(t, NewQueue(db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	}
	d = claimTest(t, db)
	must(t, NewQueue(db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	full("after a replay")

	must(t, offerTo(t, db, saidBy("hog", "a", "defers"), lim))
	d = claimTest(t, db)
	must(t, NewLedger(db).Commit(ctx, d, corebot.Result{Outcome: corebot.Outcome{
		Verb: corebot.Defer,
		At:   time.Now().Add(time.Hour), Reason: "budget",
	}}))
	for i := range 3 {
		must(t, offerTo(t, db, saidBy("hog", fmt.Sprint("beside", i), "m"), lim))
	}
	if err := offerTo(t, db, saidBy("hog", "beside", "m"), lim); !errors.Is(err, corebot.ErrSenderFull) {
		t.Errorf("beside a deferred message and three others: %v", err)
	}
	must(t, NewDeferred(db).Drop(ctx, d.Life))
	for range 3 {
		d := claimTest(t, db)
		must(t, NewQueue(db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	}
	full("after a deferred one was dropped")

	must(t, offerTo(t, db, saidBy("hog", "a", "leads"), lim))
	d = claimTest(t, db)
	steer := saidBy("hog", "a", "steers")
	_, err = NewLedger(db).Steer(ctx, steer, d.Life, corebot.AuditEvent{}, func(bool) *corebot.Message { return nil })
	must(t, err)
	steps, err := NewLedger(db).Merge(ctx, d, 0)
	must(t, err)
	if len(steps) != 1 {
		t.Fatalf("%d messages were merged", len(steps))
	}
	must(t, NewQueue(db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	full("after a merge")
}
