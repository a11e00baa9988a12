package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

// After the time of a chat its text is in no byte of the files. These are free pages, the index of words, the vectors
// and the write-ahead log. Words of a turn that its own commit deleted are gone, too.
func TestAfterTheTimeOfAChatNoByteIsLeft(t *testing.T) {
	for name, own := range map[string]corebot.Keeping{"a day": {For: day}, "nothing": {Nothing: true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			keeper := &corebot.Keeper{Rules: []corebot.KeepRule{{Chat: "gone", Keeping: own}}}
			db := openTest(t, dir)
			saidLongAgo(t, dir, db, long.Or(5, 30))
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

// saidLongAgo has two chats, with so many turns each: one that stays, and one whose turns are two days old.
func saidLongAgo(t *testing.T, dir string, db *DB, turns int) {
	t.Helper()
	old := time.Now().Add(-2 * day)
	for i := range turns {
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

// A page that became free is overwritten to its last byte, however many there are: one trunk of the list of free pages
// has 1,022 of them.
func TestEachFreePageIsOverwrittenToItsEnd(t *testing.T) {
	for _, pages := range freedPages() {
		dir := t.TempDir()
		db := openTest(t, dir)
		freeTest(t, db, pages)
		if len(holds(t, dir, "wombat")) == 0 {
			t.Fatal("the word was never there")
		}
		n, err := NewForgetting(db).Overwrite(t.Context())
		must(t, err)
		if left := holds(t, dir, "wombat"); len(left) > 0 || n < int64(pages) {
			t.Errorf("%d of %d pages were overwritten, and left are %v", n, pages, left)
		}
		if n, err = NewForgetting(db).Overwrite(t.Context()); err != nil || n > 0 {
			t.Errorf("%d pages that were overwritten were written again: %v", n, err)
		}
		wantWhole(t, db)
	}
}

const fillMail = `INSERT INTO mailbox (chat_id, message_id, in_reply_to, kind, content, created_at)
	VALUES (0, ?, '', 'reply', ?, 0)`

// freeTest has free pages in the file, with a word in their bytes.
func freeTest(t testing.TB, db *DB, pages int) {
	t.Helper()
	for i, q := range []*query{{fillMail}, {`DELETE FROM mailbox WHERE message_id = ? AND content = ?`}} {
		must(t, db.write(t.Context(), "test", func(x *tx) error {
			n, err := x.exec(q, "free", strings.Repeat("wombat", pages*4092/6+80))
			if n != 1 {
				t.Errorf("statement %d changed %d rows", i, n)
			}
			return err
		}))
	}
}

func freeCount(t *testing.T, db *DB) string { return sideQuery(t, db.path, `PRAGMA freelist_count`)[0] }

// overwriter is a retention that overwrites, and looks at the log more often.
func overwriter(t *testing.T, db *DB) *Retention {
	r := keeping(t, db, RetentionOptions{Keeper: &corebot.Keeper{Store: corebot.StoreNone}})
	r.cuts.Every = time.Millisecond
	return r
}

// An overwriting that is cut off at any commit has taken no page, and the next one writes only what is left.
func TestAnOverwritingThatIsCutOffGoesOnWhereItWas(t *testing.T) {
	full := errors.New("the disk is full")
	for name, want := range map[string]error{"full": full, "cancelled": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := openTest(t, dir)
			freeTest(t, db, 2000)
			free := freeCount(t, db)
			r := overwriter(t, db)
			log, err := NewCheckpoints(db, r.cuts)
			must(t, err)
			defer log.Close() //nolint:errcheck // of a test
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			commits := 0
			first, err := overwriting{db, log, func(ctx context.Context, name string, fn func(*tx) error) error {
				if name == "scrub" {
					commits++
				}
				if commits == 3 && want == full {
					return full
				} else if commits == 3 {
					cancel()
				}
				return db.write(ctx, name, fn)
			}}.free(ctx)
			if !errors.Is(err, want) || first != 2*scrubPages || freeCount(t, db) != free {
				t.Errorf("%d pages: %v; %s are free, and were %s", first, err, freeCount(t, db), free)
			}
			rest, err := NewForgetting(db).Overwrite(t.Context())
			must(t, err)
			if all := first + rest; fmt.Sprint(all) != free || freeCount(t, db) != free {
				t.Errorf("%d and %d pages were written, of %s", first, rest, free)
			}
			if left := holds(t, dir, "wombat"); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// Other commits take free pages while they are overwritten, and free others. Their text stays.
func TestPagesThatAreInUseAgainAreNotOverwritten(t *testing.T) {
	for _, taken := range long.Or([]int{300, 1900}, []int{1, 300, 1100, 1900}) {
		dir := t.TempDir()
		db := openTest(t, dir)
		freeTest(t, db, 2000)
		log, err := NewCheckpoints(db, CheckpointOptions{Every: time.Millisecond})
		must(t, err)
		defer log.Close() //nolint:errcheck // of a test
		text, id := strings.Repeat("quokka", taken*4092/6), 0
		take := func() {
			id++
			must(t, db.write(t.Context(), "test", func(x *tx) error {
				if _, err := x.exec(&query{`DELETE FROM mailbox WHERE message_id = ?`}, fmt.Sprint(id-1)); err != nil {
					return err
				}
				_, err := x.exec(&query{fillMail}, fmt.Sprint(id), text)
				return err
			}))
		}
		_, err = overwriting{db, log, func(ctx context.Context, name string, fn func(*tx) error) error {
			if name == "scrub" {
				take()
			}
			return db.write(ctx, name, fn)
		}}.free(t.Context())
		must(t, err)
		got := sideQuery(t, dir, `SELECT content = ? FROM mailbox`, text)
		if id == 0 || len(got) != 1 || got[0] != "1" {
			t.Errorf("with %d pages taken %d times the text is as it was: %v", taken, id, got)
		}
		sideQuery(t, dir, `DELETE FROM mailbox`) // of no chat
		wantWhole(t, db)
	}
}

// batches is how many transactions wrote something.
func batches(t *testing.T, db *DB) string { return sideQuery(t, db.path, `SELECT batch FROM store`)[0] }

func TestOnADiskThatIsLowNothingIsOverwrittenUntilThereIsRoom(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	freeTest(t, db, 3)
	r := overwriter(t, db)
	before := batches(t, db)
	db.diskLow.Store(true)
	must(t, r.overwrite(t.Context()))
	if len(holds(t, dir, "wombat")) == 0 || batches(t, db) != before {
		t.Error("it was overwritten on a disk that is low")
	}
	if err := r.gently(t.Context(), "test", nil); !errors.Is(err, corebot.ErrDiskFull) {
		t.Errorf("with a disk that has become low meanwhile it is %v", err)
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
	r := overwriter(t, db)
	reader := snapshot(t, beside(t, db))
	load(t, db, 6<<20) // more than nearly all, so that the writer is not held up
	if err := r.overwrite(t.Context()); err == nil {
		t.Fatal("the log was emptied under a reader")
	}
	before := batches(t, db)
	if err := r.overwrite(t.Context()); err == nil || batches(t, db) != before {
		t.Errorf("pages were overwritten again: %v", err)
	}
	must(t, reader.Rollback())
	must(t, r.overwrite(t.Context()))
	if left := holds(t, dir, "wombat"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// A reader that stays keeps the log from beginning anew. The overwriting then waits for it, and the log stays short.
func TestAnOverwritingKeepsTheLogShortBesideALongReader(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	freeTest(t, db, 1500)
	r := overwriter(t, db)
	r.cuts.Mark = 2 << 20
	log, err := NewCheckpoints(db, r.cuts)
	must(t, err)
	must(t, log.Empty(t.Context()))
	must(t, log.Close())
	reader := snapshot(t, beside(t, db))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer stop() // the wide form waits until it gives up by itself
		for db.wal.frames.Load() < 2<<20 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		select {
		case <-ctx.Done():
		case <-time.After(long.Or(300*time.Millisecond, time.Hour)):
		}
	}()
	if err := r.overwrite(ctx); err == nil {
		t.Fatal("it has ended beside the reader")
	}
	if used := db.wal.frames.Load(); used < 2<<20 || used > 4<<20 {
		t.Errorf("the log has %d bytes", used)
	}
	must(t, reader.Rollback())
	must(t, r.overwrite(t.Context()))
	if left := holds(t, dir, "wombat"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// An overwriting is made once a day, however often the process starts. One that was cut off counts for nothing, and
// neither does a time of the future.
func TestARestartMakesNoFurtherOverwritingOnTheSameDay(t *testing.T) {
	dir := t.TempDir()
	sweeps := func(want bool) {
		t.Helper()
		earlier(t, dir, func(db *DB) {
			freeTest(t, db, 3)
			must(t, overwriter(t, db).overwrite(t.Context()))
			if left := holds(t, dir, "wombat"); (len(left) == 0) != want {
				t.Errorf("it was overwritten: %v, want %v", len(left) == 0, want)
			}
		})
	}
	must(t, Seed(dir))
	sweeps(true)
	sweeps(false)
	for at, want := range map[time.Duration]bool{-day: true, -day + time.Hour: false, time.Hour: true} {
		sideQuery(t, dir, `UPDATE store SET overwritten_at = ?`, time.Now().Add(at).UnixMilli())
		sweeps(want)
	}
}

// While the writer was held up in vain, nobody holds it up again for a second, whoever it was.
func TestNobodyHoldsUpTheWriterInAPause(t *testing.T) {
	db := openTest(t, t.TempDir())
	log, err := NewCheckpoints(db, CheckpointOptions{Every: time.Millisecond})
	must(t, err)
	defer log.Close() //nolint:errcheck // of a test
	load(t, db, 1<<20)
	reader := snapshot(t, beside(t, db))
	load(t, db, 1<<20) // less than nearly all
	if cut, err := log.cut(t.Context(), true); cut || err != nil || db.wal.paused() <= 0 {
		t.Fatalf("it was cut under a reader: %v, %v; the pause is %v", cut, err, db.wal.paused())
	}
	must(t, reader.Rollback())
	pause := time.Now().Add(db.wal.paused())
	must(t, log.Empty(t.Context()))
	if early := time.Until(pause); early > 0 {
		t.Errorf("the writer was held up %v before the end of the pause", early)
	}
}

// BenchmarkOverwriting overwrites 100 MiB of free pages, and then looks at them again.
func BenchmarkOverwriting(b *testing.B) {
	const pages = 25_600
	for b.Loop() {
		b.StopTimer()
		db := openTest(b, b.TempDir())
		freeTest(b, db, pages)
		log, err := NewCheckpoints(db, CheckpointOptions{})
		must(b, err)
		longest, frames := time.Duration(0), int64(0)
		o := overwriting{db, log, func(ctx context.Context, name string, fn func(*tx) error) error {
			began := time.Now()
			err := db.write(ctx, name, fn)
			longest, frames = max(longest, time.Since(began)), max(frames, db.wal.frames.Load())
			return err
		}}
		b.StartTimer()
		n, err := o.free(b.Context())
		if err != nil || n < pages {
			b.Fatal(n, err)
		}
		began := time.Now()
		if n, err := o.free(b.Context()); err != nil || n > 0 {
			b.Fatal(n, err)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-again")
		b.ReportMetric(float64(longest.Microseconds())/1000, "ms-commit")
		b.ReportMetric(float64(frames)/mib, "MiB-log")
		b.StopTimer()
		must(b, log.Close())
		b.StartTimer()
	}
}
