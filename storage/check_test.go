package storage

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestAHealthyDatabaseHasNoProblems(t *testing.T) {
	db := openTest(t, t.TempDir())
	q := NewQueue(db)
	for _, chat := range []string{"a", "a", "b", "c", "d"} {
		publishTest(t, db, chat, chat+time.Now().String())
	}
	for _, o := range []corebot.Outcome{
		{Verb: corebot.Done, End: corebot.EndAnswered},
		{Verb: corebot.Dead, Reason: "test"},
		{Verb: corebot.RetryAt, At: time.Now().Add(time.Hour)},
	} {
		must(t, q.Settle(context.Background(), claimTest(t, db), o))
	}
	claimTest(t, db)
	problems, err := db.Problems(context.Background())
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v %v", problems, err)
	}
}

// TestAMergedSearchIndexIsWholeForAReaderThatKnewItsParts: a search and a check leave in their connection which parts
// the index has. A merge by the writer deletes those parts.
func TestAMergedSearchIndexIsWholeForAReaderThatKnewItsParts(t *testing.T) {
	db := openTest(t, t.TempDir())
	ctx := context.Background()
	want := func(when string, damaged bool) {
		t.Helper()
		problems, err := db.Problems(ctx)
		if err != nil || strings.Contains(strings.Join(problems, "\n"), "fts5") != damaged ||
			!damaged && len(problems) > 0 {
			t.Errorf("%s: found %q, %v", when, problems, err)
		}
	}
	id := 0
	parts := func() { // a part for each commit
		for range 3 {
			must(t, db.write(ctx, "test", func(t *tx) error {
				id++
				_, err := t.exec(indexEntry, id, strings.Repeat("word"+strconv.Itoa(id)+" ", 9))
				return err
			}))
		}
	}
	parts()
	want("at first", false)
	if found, err := db.reader.one(ctx, &query{`SELECT rowid FROM history_terms WHERE history_terms MATCH 'word1'`},
		[]any{new(int)}); err != nil || !found {
		t.Fatal(found, err)
	}
	for range 2 {
		must(t, db.write(ctx, "test", func(t *tx) error {
			_, err := t.exec(mergeAll)
			return err
		}))
		want("merged", false)
		parts()
		want("with new parts", false)
	}
	sideQuery(t, db.path, `DELETE FROM history_terms_data WHERE id = (SELECT MAX(id) FROM history_terms_data)`)
	want("with a part that is gone", true)
}

func TestPlantedProblemsAreFound(t *testing.T) {
	for plant, want := range map[string]string{
		`UPDATE lanes SET depth = depth + 1`:                      "says it has 3 messages and has 2",
		`UPDATE lanes SET bytes = bytes + 7`:                      "bytes and has",
		`UPDATE lanes SET wake_at = NULL`:                         "is never due",
		`UPDATE lanes SET depth = 0`:                              "is empty and due",
		`DELETE FROM message_queue WHERE life_id = 1`:             "message 1 has not ended and is not in the queue",
		`UPDATE message_life SET "end" = 'answered' WHERE id = 2`: "message 2 has ended and is still in the queue",

		`INSERT INTO message_queue (life_id, lane_id, seq, body) VALUES (99, 1, 9, x'00')`: "refers to a missing row",

		`UPDATE message_life SET lane_id = 4711 WHERE id = 1`: "refers to a missing row of lanes",
	} {
		db := openTest(t, t.TempDir())
		publishTest(t, db, "chat", "1")
		publishTest(t, db, "chat", "2")
		sideQuery(t, db.path, plant)
		problems, err := db.Problems(context.Background())
		if err != nil || !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("%s: found %q, %v", plant, problems, err)
		}
	}
}

// FTS5 takes a list of parts without its bytes for that of an empty index, and searches find nothing.
func TestASearchIndexThatHasLostTheListOfItsPartsIsFoundAndMadeAnew(t *testing.T) {
	for name, block := range map[string]string{
		"one zero byte": "x'00'", "no byte": "x''", "zeros": "zeroblob(40)", "no parts": "x'00000000FF000001000000'",
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			ctx := t.Context()
			usedTest(t, db, "a", "m")
			index, err := NewSearchIndex(db, SearchIndexOptions{})
			must(t, errors.Join(err, index.CatchUp(ctx)))
			want := func(when string, damaged bool) {
				t.Helper()
				problems, err := db.Problems(ctx)
				if err != nil || strings.Contains(strings.Join(problems, "\n"), "corebot db reindex") != damaged ||
					!damaged && len(problems) > 0 {
					t.Errorf("%s: found %q, %v", when, problems, err)
				}
			}
			want("at first", false)
			sideQuery(t, db.path, `UPDATE history_terms_data SET block = `+block+` WHERE id = 10`)
			want("damaged", true)
			_, err = index.Renew(ctx)
			must(t, err)
			want("emptied", false)
			must(t, index.CatchUp(ctx))
			want("made anew", false)
			parts := sideQuery(t, db.path, `SELECT COUNT(*) FROM history_terms_data WHERE id > 10`)
			if parts[0] == "0" {
				t.Error("nothing was indexed")
			}
		})
	}
}
