package storage

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

func TestAClockThatWasAheadLengthensNoSilenceBeyondAnHour(t *testing.T) {
	dir := t.TempDir()
	earlier(t, dir, func(db *DB) { publishTest(t, db, "a", "1") })
	sideQuery(t, dir, `UPDATE lanes SET quiet_at = wake_at + 86400000`)
	openTest(t, dir)
	latest := time.Now().Add(longestWait).UnixMilli()
	if got := sideQuery(t, dir, `SELECT quiet_at FROM lanes`)[0]; got > strconv.FormatInt(latest, 10) {
		t.Errorf("the lane is silent until %s, want %d at most", got, latest)
	}
}

func TestAShorterDebounceHoldsForWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		open := func(debounce time.Duration) (*DB, func()) {
			db, err := Open(t.Context(), dir, Options{Queueing: corebot.Queueing{
				Mode:     corebot.ModeCollect,
				Debounce: debounce,
			}})
			must(t, err)
			stop := runWriter(db)
			return db, func() { stop(); must(t, db.Close()) }
		}
		db, end := open(time.Hour)
		publishTest(t, db, "a", "1")
		end()
		db, end = open(time.Second)
		defer end()
		claimed := make(chan string, 1)
		go func() { claimed <- claimTest(t, db).Message.ID }()
		synctest.Wait() // the timer is set to the hour
		publishTest(t, db, "a", "2")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(claimed) != 1 {
			t.Error("the messages wait for the longer debounce")
		}
	})
}

func TestALaneThatBeginsToCollectIsSilentForTheDebounceWhateverWaitedBefore(t *testing.T) {
	for _, runs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db, err := Open(t.Context(), seeded(t), Options{Queueing: corebot.Queueing{Debounce: 2 * time.Second}})
			must(t, err)
			runTest(t, db)
			publishTest(t, db, "a", "1")
			var d corebot.Delivery
			if runs {
				d = claimTest(t, db)
				publishTest(t, db, "a", "2")
			}
			must(t, NewChats(db).SetQueueMode(t.Context(), testKey("a"), corebot.ModeCollect))
			publishTest(t, db, "a", "3")
			began := time.Now()
			if runs {
				must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{
					Verb: corebot.Done,
					End:  corebot.EndAnswered,
				}))
			}
			claimTest(t, db)
			if took := time.Since(began); took < 2*time.Second {
				t.Errorf("with a turn that runs %v: it was silent for %v", runs, took)
			}
		})
	}
}

func TestASteerIsHeldToTheCapOfItsLane(t *testing.T) {
	db := limited(t, corebot.Limits{LaneDepth: 2})
	publishTest(t, db, "a", "1")
	d := claimTest(t, db)
	steer := func(id string) (corebot.Steered, error) {
		silent := func(bool) *corebot.Message { return nil }
		return NewLedger(db).Steer(t.Context(), testMessage("a", id), d.Life, corebot.AuditEvent{}, silent)
	}
	if s, err := steer("x"); err != nil || !s.Merges {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := steer("y"); !errors.Is(err, corebot.ErrLaneFull) {
		t.Errorf("got %v", err)
	}
	if _, err := NewLedger(db).Merge(t.Context(), d, 0); err != nil {
		t.Fatal(err)
	}
	if s, err := steer("y"); err != nil || !s.Merges { // merged messages make room
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTheLifeOfAMergedMessageOutlivesThatOfTheOneThatAnsweredIt(t *testing.T) {
	db := limited(t, corebot.Limits{})
	publishTest(t, db, "a", "1")
	d := claimTest(t, db)
	s, err := NewLedger(db).Steer(t.Context(), testMessage("a", "x"), d.Life, corebot.AuditEvent{},
		func(bool) *corebot.Message { return nil })
	must(t, err)
	_, err = NewLedger(db).Merge(t.Context(), d, 0)
	must(t, err)
	sideQuery(t, db.path, `UPDATE message_life SET merged_id = 99 WHERE id = `+strconv.FormatInt(s.Life, 10))
	if l := lifeOf(t, db, s.Life); l.End != corebot.EndMerged || l.MergedInto == nil || l.MergedInto.MessageID != "" {
		t.Errorf("the life is %+v", l)
	}
	healthy(t, db)
}

func TestTheNewestMessageOfSomebodyWaitsOrDiedOrWasSaidLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := limited(t, corebot.Limits{})
		me := testMessage("a", "").Sender
		newest := func(want string) {
			t.Helper()
			l, err := NewLives(db).InChat(t.Context(), testKey("a"), "", me)
			if want == "" && errors.Is(err, corebot.ErrNotFound) {
				return
			}
			if must(t, err); l.MessageID != want {
				t.Errorf("the newest is %q, want %q", l.MessageID, want)
			}
		}
		newest("")
		publishTest(t, db, "a", "1")
		publishTest(t, db, "a", "2")
		newest("2")
		said := func(d corebot.Delivery) corebot.Result {
			return corebot.Result{
				Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
				History: []corebot.HistoryEntry{{
					Speaker: corebot.SpeakerUser, Sender: me, Parts: corebot.TextPart("x"),
					MessageID: d.Message.ID, At: time.Now(),
				}},
			}
		}
		for range 2 {
			d := claimTest(t, db)
			must(t, NewLedger(db).Commit(t.Context(), d, said(d)))
		}
		newest("2")
		time.Sleep(time.Millisecond) // the store counts in milliseconds
		publishTest(t, db, "a", "3")
		must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{
			Verb:   corebot.Dead,
			Reason: "permanent",
		}))
		newest("3")
		publishTest(t, db, "b", "4")
		newest("3")
	})
}
