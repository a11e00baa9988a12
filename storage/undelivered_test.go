package storage

import (
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// ends commits a turn; one that was answered leaves history.
func ends(t *testing.T, db *DB, d corebot.Delivery, o corebot.Outcome) {
	t.Helper()
	r := corebot.Result{Outcome: o}
	if o.Verb == corebot.Done {
		r.History = []corebot.HistoryEntry{{
			Speaker: corebot.SpeakerUser, Parts: corebot.TextPart("x"),
			MessageID: d.Message.ID,
		}}
	}
	must(t, NewLedger(db).Commit(t.Context(), d, r))
}

func TestARetentionOfTurnsTellsNoReplyAgain(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "a", "1", "hello", "hi")
	time.Sleep(2 * time.Millisecond)
	deadReply(t, db, "a", "lost")
	time.Sleep(2 * time.Millisecond)
	dialogue(t, db, "a", "2", "and?", "it was told") // this turn is told of the reply
	ageTest(t, db.path, 48*time.Hour)
	sideQuery(t, db.path, `UPDATE message_life SET ended_at = ended_at - 1000 WHERE message_id = 'lost'`)
	must(t, keeping(t, db, RetentionOptions{
		Messages: time.Hour, Audit: time.Hour, Usage: 720 * time.Hour, History: tenYears,
	}).Sweep(t.Context()))
	if left := sideQuery(t, db.path, `SELECT message_id FROM message_life WHERE kind <> 'notice'`); len(left) != 1 {
		t.Fatalf("left are %q", left)
	}
	publishTest(t, db, "a", "3")
	found, _, err := NewHistory(db).Recall(t.Context(), claimTest(t, db), 5)
	if err != nil || len(found.Undelivered) != 0 {
		t.Errorf("the next turn is told of %+v, %v", found.Undelivered, err)
	}
	time.Sleep(2 * time.Millisecond)
}
