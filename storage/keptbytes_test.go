package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// After the time of a chat its text is in no byte of the files. These are free pages, the index of words, the vectors
// and the write-ahead log. Words of a turn that its own commit deleted are gone, too.
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
		freeTest(t, db, pages)
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

// freeTest has free pages in the file, with a word in their bytes.
func freeTest(t *testing.T, db *DB, pages int) {
	t.Helper()
	for _, q := range []*query{
		{`INSERT INTO scrub (zero) VALUES (CAST(? AS BLOB))`}, {`DELETE FROM scrub WHERE ? > ''`},
	} {
		must(t, db.write(t.Context(), "test", func(x *tx) error {
			_, err := x.exec(q, strings.Repeat("wombat", pages*4092/6+80))
			return err
		}))
	}
}

// An overwriting that fails gives the pages back that it has filled, on a full disk and in a process that ends.
func TestAFailedOverwritingKeepsNoPages(t *testing.T) {
	full := errors.New("the disk is full")
	for name, want := range map[string]error{"full": full, "cancelled": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			freeTest(t, db, 600)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			fills := 0
			_, err := scrub(ctx, func(ctx context.Context, name string, fn func(*tx) error) error {
				if name == "scrub" {
					fills++
				}
				if name != "scrub" || fills < 3 {
					return db.write(ctx, name, fn)
				}
				if n := count(t, db.path, "scrub"); n != 2 {
					t.Errorf("%d rows are filled, want 2", n)
				}
				if want == full {
					return full
				}
				cancel()
				return context.Cause(ctx)
			})
			if n := count(t, db.path, "scrub"); !errors.Is(err, want) || n > 0 {
				t.Errorf("%d rows keep pages: %v", n, err)
			}
		})
	}
}

// Pages that a killed process has filled are freed before anything else is done, also where no chat has a time of its
// own.
func TestPagesThatAKilledProcessFilledAreFreedFirst(t *testing.T) {
	db := openTest(t, t.TempDir())
	killed := func() { sideQuery(t, db.path, `INSERT INTO scrub (zero) VALUES (zeroblob(9999)), (zeroblob(9999))`) }
	killed()
	var done []string
	_, err := scrub(t.Context(), func(ctx context.Context, name string, fn func(*tx) error) error {
		done = append(done, name)
		return db.write(ctx, name, fn)
	})
	must(t, err)
	free, terms := slices.Index(done, "scrub.free"), slices.Index(done, "scrub.terms")
	if free != 0 || terms != 2 {
		t.Errorf("it did %v", done)
	}
	killed()
	must(t, keeping(t, db, RetentionOptions{}).Sweep(t.Context()))
	if n := count(t, db.path, "scrub"); n > 0 {
		t.Errorf("%d rows keep pages", n)
	}
}

// Two processes that overwrite at the same pace do not take and free each other's pages without end.
func TestTheFreeingOfPagesEndsBesideAnotherOverwriting(t *testing.T) {
	db := openTest(t, t.TempDir())
	fills := func() { sideQuery(t, db.path, `INSERT INTO scrub (zero) VALUES (zeroblob(9999))`) }
	fills()
	freed := 0
	must(t, leavePages(t.Context(), func(ctx context.Context, name string, fn func(*tx) error) error {
		if freed++; freed > 10 {
			return errors.New("it does not end")
		}
		err := db.write(ctx, name, fn)
		fills()
		return err
	}))
}

// batches is how many transactions wrote something.
func batches(t *testing.T, db *DB) string { return sideQuery(t, db.path, `SELECT batch FROM store`)[0] }

func TestOnADiskThatIsLowNothingIsOverwrittenUntilThereIsRoom(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	freeTest(t, db, 3)
	r := keeping(t, db, RetentionOptions{Keeper: &corebot.Keeper{Store: corebot.StoreNone}})
	before := batches(t, db)
	db.diskLow.Store(true)
	must(t, r.overwrite(t.Context()))
	if len(holds(t, dir, "wombat")) == 0 || batches(t, db) != before {
		t.Error("it was overwritten on a disk that is low")
	}
	db.diskLow.Store(false)
	must(t, r.overwrite(t.Context()))
	if left := holds(t, dir, "wombat"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// While somebody reads the log, it cannot be emptied. Trying again overwrites no page again.
func TestOnlyTheLogIsTriedAgainWhenAReaderKeepsIt(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	freeTest(t, db, 3)
	r := keeping(t, db, RetentionOptions{Keeper: &corebot.Keeper{Store: corebot.StoreNone}})
	r.cuts.Every = time.Millisecond
	long := snapshot(t, beside(t, db))
	load(t, db, 6<<20) // more than nearly all, so that the writer is not held up
	if err := r.overwrite(t.Context()); err == nil {
		t.Fatal("the log was emptied under a reader")
	}
	before := batches(t, db)
	if err := r.overwrite(t.Context()); err == nil || batches(t, db) != before {
		t.Errorf("pages were overwritten again: %v", err)
	}
	must(t, long.Rollback())
	must(t, r.overwrite(t.Context()))
	if left := holds(t, dir, "wombat"); len(left) > 0 || batches(t, db) != before {
		t.Errorf("left are %v, after %s transactions, before %s", left, batches(t, db), before)
	}
	r.overwritten, r.scrubbed = r.overwritten.Add(-wholeTurn), r.scrubbed.Add(-wholeTurn)
	must(t, r.overwrite(t.Context()))
	if batches(t, db) == before {
		t.Error("after a day nothing is overwritten")
	}
}
