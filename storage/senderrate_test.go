package storage

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// rateClaim allows three turns of a sender at once, then one in ten seconds.
var rateClaim = corebot.ClaimOptions{
	Lease: time.Hour, Turns: 64, Sender: corebot.Rate{Every: 10 * time.Second, Burst: 3}, Owner: "cli",
}

// beginAll claims all that is ready, and gives the ids in their order.
func beginAll(t *testing.T, db *DB) (ids []string) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 64, rateClaim)
		cancel()
		if err != nil {
			slices.Sort(ids)
			return ids
		}
		for _, d := range ds {
			ids = append(ids, d.Message.ID)
			must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
		}
	}
}

func wantBegun(t *testing.T, db *DB, ids ...string) {
	t.Helper()
	if got := beginAll(t, db); !slices.Equal(got, ids) {
		t.Errorf("the turns of %q began, want %q", got, ids)
	}
}

func TestTheTurnsOfASenderBeginNoFasterThanTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		for i := range 5 {
			publishAs(t, db, "hog", fmt.Sprint(i), fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		wantBegun(t, db, "0", "1", "2")
		publishAs(t, db, "ann", "a", "ann")
		publishAs(t, db, "hog", "9", "9")
		wantBegun(t, db, "ann")
		time.Sleep(9 * time.Second)
		wantBegun(t, db)
		for _, id := range []string{"3", "4", "9"} { // a claim that waits is served in time
			ctx, cancel := context.WithTimeout(t.Context(), 11*time.Second)
			ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1, rateClaim)
			cancel()
			must(t, err)
			if ds[0].Message.ID != id {
				t.Errorf("%s began, want %s", ds[0].Message.ID, id)
			}
		}
		time.Sleep(time.Minute)
		for i := range 4 {
			publishAs(t, db, "hog", fmt.Sprint("later", i), fmt.Sprint("later", i))
			time.Sleep(time.Millisecond)
		}
		wantBegun(t, db, "later0", "later1", "later2")
	})
}

func TestWhereASenderHasNoIDTheChatHasTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		for i := range 5 {
			for _, chat := range []string{"a", "b"} {
				publishAs(t, db, "", chat, fmt.Sprint(chat, i))
			}
		}
		wantBegun(t, db, "a0", "a1", "a2", "b0", "b1", "b2")
		time.Sleep(10 * time.Second)
		wantBegun(t, db, "a3", "b3")
	})
}

func TestTheTerminalHasNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		for i := range 5 {
			m := saidBy("501", "a", fmt.Sprint(i))
			m.Key.Channel, m.Sender.Channel = "cli", "cli"
			must(t, offerTo(t, db, m, corebot.Limits{}))
		}
		wantBegun(t, db, "0", "1", "2", "3", "4")
	})
}

func TestARestartDoesNotResetTheRateOfASender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		earlier(t, dir, func(db *DB) {
			for i := range 4 {
				publishAs(t, db, "hog", fmt.Sprint(i), fmt.Sprint(i))
				publishAs(t, db, "", "nameless", fmt.Sprint("n", i))
				time.Sleep(time.Millisecond)
			}
			wantBegun(t, db, "0", "1", "2", "n0", "n1", "n2")
		})
		db := openTest(t, dir)
		wantBegun(t, db)
		time.Sleep(11 * time.Second)
		wantBegun(t, db, "3", "n3")
	})
}

func TestTheRateOfASenderDelaysNeitherAStopNorAMessageThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		publishAs(t, db, "hog", "again", "again")
		ds, err := NewQueue(db).Claim(t.Context(), corebot.InboundPool, 1, rateClaim)
		must(t, err)
		must(t, NewQueue(db).Settle(t.Context(), ds[0], corebot.Outcome{
			Verb: corebot.RetryAt,
			At:   time.Now().Add(time.Second),
		}))
		for i := range 5 {
			publishAs(t, db, "hog", fmt.Sprint(i), fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		wantBegun(t, db, "0", "1")
		k := testKey("4")
		head, _, err := NewLedger(db).Head(t.Context(), k)
		must(t, err)
		stop := saidBy("hog", k.Chat, "stop")
		stop.Direction, stop.Kind = corebot.Control, corebot.KindControl
		_, err = NewLedger(db).Stop(t.Context(), stop, head, corebot.AuditEvent{},
			func(bool) corebot.Message { return outboundTest(k.Chat, "stopped") })
		must(t, err)
		time.Sleep(time.Second)
		wantBegun(t, db, "4", "again")
		time.Sleep(10 * time.Second)
		if got := beginAll(t, db); len(got) != 1 {
			t.Errorf("after ten seconds %q began, want one", got)
		}
	})
}

func TestAStepOfTheClockDelaysNoSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		for i := range 4 {
			publishAs(t, s.DB, "hog", fmt.Sprint(i), fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		wantBegun(t, s.DB, "0", "1", "2")
		s.step(-time.Hour)
		wantBegun(t, s.DB)
		time.Sleep(11 * time.Second)
		wantBegun(t, s.DB, "3")
	})
}
