package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// A row without an id would be for everybody whom a channel cannot name.
func TestTheTableOfGrantsTakesNoneWithoutAnID(t *testing.T) {
	db := openTest(t, t.TempDir())
	err := db.write(t.Context(), "test", func(t *tx) error {
		_, err := t.exec(upsertGrant, "test", "", "", "", "admin", "nobody", t.now)
		return err
	})
	if err == nil {
		t.Error("it is there")
	}
}

// turnTest runs one turn of a chat that leaves entries in its history.
func turnTest(t *testing.T, db *DB, chat, id string, r corebot.Result) corebot.Delivery {
	t.Helper()
	publishTest(t, db, chat, id)
	d := claimTest(t, db)
	r.Outcome = corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	must(t, NewLedger(db).Commit(context.Background(), d, r))
	return d
}

func said(texts ...string) []corebot.HistoryEntry {
	var entries []corebot.HistoryEntry
	for _, text := range texts {
		entries = append(entries, corebot.HistoryEntry{
			Speaker: corebot.SpeakerUser,
			Sender:  corebot.Principal{Channel: "test", ID: "ada"}, Parts: corebot.TextPart(text),
			At: time.UnixMilli(5),
		})
	}
	return entries
}

func TestALifeTellsWhatItsMessageDoesNow(t *testing.T) {
	db := openTest(t, t.TempDir())
	q := NewQueue(db)
	ctx := context.Background()
	state := func(id, want string) corebot.Life {
		t.Helper()
		lives, err := NewLives(db).Find(ctx, id)
		must(t, err)
		if len(lives) != 1 || lives[0].State != want {
			t.Fatalf("message %s: %+v, want %q", id, lives, want)
		}
		return lives[0]
	}
	publishTest(t, db, "a", "1")
	publishTest(t, db, "a", "2")
	state("1", "ready")
	state("2", "waiting behind others")
	d := claimTest(t, db)
	state("1", "running")
	must(t, q.Settle(ctx, d, corebot.Outcome{Verb: corebot.Wait, At: time.Now(), Reason: "approval"}))
	if l := state("1", "waiting: approval"); l.WakeAt.IsZero() || l.Attempts != 0 {
		t.Errorf("got %+v", l)
	}
	must(t, q.Settle(ctx, claimTest(t, db), corebot.Outcome{Verb: corebot.RetryAt, At: time.Now(), Error: "no"}))
	if l := state("1", "waiting: backoff"); l.Attempts != 1 || l.LastError != "no" {
		t.Errorf("got %+v", l)
	}
	must(t, q.Settle(ctx, claimTest(t, db), corebot.Outcome{Verb: corebot.Done, End: corebot.EndRefused}))
	state("1", "refused")
	state("2", "ready")
	must(t, q.Settle(ctx, claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	state("2", "dead")
	publishTest(t, db, "b", "1")
	if lives, err := NewLives(db).Find(ctx, "1"); err != nil || len(lives) != 2 {
		t.Errorf("two chats used the id: %v, %v", lives, err)
	}
	if _, err := NewLives(db).Get(ctx, 4711); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestStatsCountWhatIsThere(t *testing.T) {
	db := openTest(t, t.TempDir())
	q := NewQueue(db)
	ctx := context.Background()
	if s, err := q.Stats(ctx); err != nil || len(s.Pools) != 0 || !s.OldestUnanswered.IsZero() {
		t.Fatalf("of nothing: %+v, %v", s, err)
	}
	turnTest(t, db, "answered", "0", corebot.Result{History: said("x"), Replies: []corebot.Message{{
		ID: "0/1/0", Direction: corebot.Outbound, Kind: corebot.KindReply, Key: testKey("answered"),
		Parts: corebot.TextPart("hi"),
	}}})
	for _, chat := range []string{"dead", "backoff", "runs", "waits", "waits"} {
		publishTest(t, db, chat, fmt.Sprint(chat, time.Now()))
	}
	must(t, q.Settle(ctx, claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "test"}))
	backoff := claimTest(t, db)
	must(t, q.Settle(ctx, backoff, corebot.Outcome{Verb: corebot.RetryAt, At: time.Now().Add(time.Hour)}))
	claimTest(t, db)
	s, err := q.Stats(ctx)
	must(t, err)
	if got, want := s.Pools[corebot.InboundPool], (PoolStats{Depth: 4, Lanes: 3, Leased: 1, Waiting: 1}); got != want {
		t.Errorf("inbound: %+v, want %+v", got, want)
	}
	if got, want := s.Pools[corebot.OutboundPool("test")], (PoolStats{Depth: 1, Lanes: 1}); got != want {
		t.Errorf("outbound: %+v, want %+v", got, want)
	}
	if s.DeadLetters[corebot.Inbound] != 1 || s.Chats != 1 || !s.OldestUnanswered.Equal(backoff.PublishedAt) {
		t.Errorf("got %+v, the oldest is of %v", s, backoff.PublishedAt)
	}
}

// Counting dead letters reads each of them, and nothing bounds how many there are. So a long count is not made for each
// scrape, and it does not hold for ever.
func TestALongCountOfDeadLettersHoldsForAWhile(t *testing.T) {
	db := openTest(t, t.TempDir())
	q := NewQueue(db)
	die := func(chat string) {
		publishTest(t, db, chat, "1")
		must(t, q.Settle(t.Context(), claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	}
	want := func(when string, n int64) {
		t.Helper()
		for range 2 {
			s, err := q.Stats(t.Context())
			must(t, err)
			if s.DeadLetters[corebot.Inbound] != n || s.DeadFor[Death{corebot.Inbound, "permanent"}] != n {
				t.Errorf("%s: %v %v, want %d", when, s.DeadLetters, s.DeadFor, n)
			}
		}
	}
	die("a")
	want("a short count", 1)
	die("b")
	want("another one", 2)
	db.dead.took = time.Minute // as of tens of millions
	die("c")
	want("while a long count holds", 2)
	db.dead.at = db.dead.at.Add(-20 * time.Minute)
	want("after its time", 3)
}
