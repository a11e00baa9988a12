package storage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// What a chat keeps for a time of its own is gone from every byte of the files: free pages, the index of words, the
// vectors and the write-ahead log. Words of a turn that its own commit deleted are gone, too.
func TestAfterTheTimeOfAChatNoByteIsLeft(t *testing.T) {
	for name, own := range map[string]corebot.Keeping{"a day": {For: day}, "nothing": {Nothing: true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			keeper := &corebot.Keeper{Rules: []corebot.KeepRule{{Chat: "gone", Keeping: own}}}
			db, old := openTest(t, dir), time.Now().Add(-2*day)
			for i := range 30 {
				saidAt(t, db, testKey("stays"), fmt.Sprint("s", i), fmt.Sprint("quokka", i), time.Now())
				saidAt(t, db, testKey("gone"), fmt.Sprint("g", i), fmt.Sprint("wombat", i), old)
				saidAtLength(t, db, "gone", fmt.Sprint("b", i), "wombat ", old)
			}
			endedWith(t, db, "gone", "wombat", old)
			sideQuery(t, dir, `UPDATE message_life SET ended_at = ? WHERE ended_at > 0 AND lane_id IN (
				SELECT id FROM lanes WHERE chat = 'gone')`, old.UnixMilli())
			sideQuery(t, dir, `UPDATE attached_files SET at = ?`, old.UnixMilli())
			index, err := NewSearchIndex(db, SearchIndexOptions{})
			must(t, err)
			must(t, index.CatchUp(t.Context()))
			must(t, NewVectors(db, VectorOptions{Embedder: marks{}, Model: "m"}).CatchUp(t.Context()))
			vectors := string(markVector("wombat"))
			if len(holds(t, dir, "wombat")) == 0 || len(holds(t, dir, vectors)) == 0 {
				t.Fatal("the words were never there")
			}

			must(t, keeping(t, db, RetentionOptions{Keeper: keeper}).Sweep(t.Context()))

			if left := holds(t, dir, "wombat"); len(left) > 0 {
				t.Errorf("left are %v, in %q", left, tablesWith(t, db, "wombat"))
			}
			if left := holds(t, dir, vectors); len(left) > 0 {
				t.Errorf("vectors are left: %v", left)
			}
			if len(holds(t, dir, "quokka")) == 0 || len(holds(t, dir, string(markVector("quokka")))) == 0 {
				t.Error("another chat has lost its words")
			}
			wantWhole(t, db)
		})
	}
}

// saidAtLength has a turn with a text that takes pages of its own.
func saidAtLength(t *testing.T, db *DB, chat, id, word string, at time.Time) {
	t.Helper()
	publishTest(t, db, chat, id)
	d := claimTest(t, db)
	parts := corebot.TextPart(strings.Repeat(word, 3000))
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{
			{Speaker: corebot.SpeakerUser, Sender: d.Message.Sender, Parts: parts, At: at},
			{Speaker: corebot.SpeakerAssistant, Parts: parts, At: at},
		},
	}))
}

// A page that became free is overwritten to its last byte, however many there are. Pages in the middle of a blob end at
// the end of a page, the last one does not.
func TestEachFreePageIsOverwrittenToItsEnd(t *testing.T) {
	for _, pages := range []int{1, 2, 3, 7, 100, 255, 256, 257, 600} {
		dir := t.TempDir()
		db := openTest(t, dir)
		for _, q := range []*query{
			{`INSERT INTO scrub (zero) VALUES (CAST(? AS BLOB))`}, {`DELETE FROM scrub WHERE ? > ''`},
		} {
			must(t, db.write(t.Context(), "test", func(x *tx) error {
				_, err := x.exec(q, strings.Repeat("wombat", pages*4092/6+80))
				return err
			}))
		}
		if len(holds(t, dir, "wombat")) == 0 {
			t.Fatal("the word was never there")
		}
		_, err := NewForgetting(db).Scrub(t.Context())
		must(t, err)
		log, err := NewCheckpoints(db, CheckpointOptions{Every: time.Millisecond})
		must(t, err)
		must(t, log.Empty(t.Context()))
		must(t, log.Close())
		if left := holds(t, dir, "wombat"); len(left) > 0 {
			t.Errorf("%d pages: left are %v", pages, left)
		}
	}
}
