package storage

import (
	"testing"

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
