package storage

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

func TestALaneGoesWhenNothingIsLeftOfItAndComesBackAsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Messages: day})
		answer(t, db, "a", "1")
		stale := corebot.Lease{Lane: 1, Epoch: 1}
		stopTest(t, db, "a", "s")
		publishTest(t, db, "dead", "d")
		must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{
			Verb:   corebot.Dead,
			Reason: "permanent",
		}))
		time.Sleep(2 * day)
		stopTest(t, db, "young", "s")
		must(t, r.Sweep(t.Context()))
		lanes := sideQuery(t, dir, `SELECT direction, chat FROM lanes ORDER BY id`)
		if !slices.Equal(lanes, []string{"1|dead", "3|young", "2|young"}) {
			t.Errorf("lanes that are left: %q", lanes)
		}
		publishTest(t, db, "a", "2")
		d := claimTest(t, db)
		if d.Lane == stale.Lane {
			t.Errorf("the lane has its old id %d again", d.Lane)
		}
		if lost, err := NewQueue(db).Extend(t.Context(), []corebot.Lease{stale},
			time.Now().Add(time.Hour)); err != nil || len(lost) != 1 {
			t.Errorf("the stale worker's lease is lost: %v, %v", lost, err)
		}
		wantWhole(t, db)
	})
}

func TestALaneThatComesBackCountsItsPlacesOnFromTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Messages: day})
		say := func(id string) {
			publishTest(t, db, "a", id)
			d := claimTest(t, db)
			must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
				Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
				History: []corebot.HistoryEntry{{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(id)}},
			}))
		}
		say("1")
		time.Sleep(2 * day)
		must(t, r.Sweep(t.Context()))
		if n := count(t, dir, "lanes"); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
		say("2")
		wantWhole(t, db)
		entries, err := NewHistory(db).Recent(t.Context(), testKey("a"), 10)
		if err != nil || len(entries) != 2 || entries[0].Text() != "1" || entries[1].Text() != "2" {
			t.Errorf("the history is %+v, %v", entries, err)
		}
	})
}

// A replayed message has had two places in its lane; both are gone with it.
func TestALaneCountsThePlacesOfReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Messages: day})
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
		sideQuery(t, dir, `UPDATE message_life SET "end" = '', ended_at = 0, run = 2, body = NULL`)
		sideQuery(t, dir, `INSERT INTO message_queue (life_id, lane_id, seq, body) VALUES (1, 1, 2, x'7b7d')`)
		sideQuery(t, dir, `UPDATE lanes SET next_seq = 3, depth = 1, bytes = 2, wake_at = 0`)
		again := claimTest(t, db)
		must(t, NewQueue(db).Settle(t.Context(), again, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
		wantWhole(t, db)
		time.Sleep(2 * day)
		must(t, r.Sweep(t.Context()))
		if n := count(t, dir, "lanes"); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
	})
}
