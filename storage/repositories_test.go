package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// Counting dead letters reads each of them, and nothing bounds how many there are. So many are not counted for each
// scrape, and a count does not hold for ever.
func TestACountOfManyDeadLettersHoldsForAWhile(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	q := NewQueue(db)
	counted := func(why string) int64 {
		t.Helper()
		s, err := q.Stats(t.Context())
		must(t, err)
		if s.DeadLetters[corebot.Inbound] != s.DeadFor[Death{corebot.Inbound, why}] {
			t.Errorf("%v and %v", s.DeadLetters, s.DeadFor)
		}
		return s.DeadLetters[corebot.Inbound]
	}
	want := func(when string, n int64) {
		t.Helper()
		for range 2 {
			if got := counted("permanent"); got != n {
				t.Errorf("%s: %d, want %d", when, got, n)
			}
		}
	}
	publishTest(t, db, "a", "1")
	must(t, q.Settle(t.Context(), claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	want("few", 1)
	die := func(first, last int) {
		t.Helper()
		sideQuery(t, dir, `INSERT INTO message_life (lane_id, message_id, kind, checksum, published_at, ended_at, "end",
			reason) WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			SELECT l.lane_id, 'dead ' || i, l.kind, l.checksum, 1, 1, 'dead', l.reason
			FROM n, (SELECT * FROM message_life WHERE message_id = '1') l`, first, last)
	}
	die(2, manyDead)
	want("as many as are counted at once", manyDead)
	die(manyDead+1, manyDead+1)
	want("one more than before", manyDead+1)
	die(manyDead+2, manyDead+2)
	want("while a long count holds", manyDead+1)
	db.dead.mu.Lock()
	db.dead.at = db.dead.at.Add(-(manyDead + 1) * countHold)
	db.dead.mu.Unlock()
	if got := counted("permanent"); got != manyDead+1 {
		t.Errorf("whoever asks first after its time gets %d", got)
	}
	db.dead.beside.Wait()
	want("after its time", manyDead+2)
}

// A count of many can take seconds. It holds up nobody who asks, outlives who asked, and ends with the database.
func TestACountOfManyDeadLettersHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f deadFigure
		var began, ended atomic.Int32
		many := map[Death]int64{{corebot.Inbound, "permanent"}: manyDead + 1}
		_, err := f.read(t.Context(), func(context.Context) (map[Death]int64, error) { return many, nil })
		must(t, err)
		ask := func(want int32) {
			t.Helper()
			ctx, leave := context.WithCancel(t.Context())
			counts, err := f.read(ctx, func(ctx context.Context) (map[Death]int64, error) {
				began.Add(1)
				<-ctx.Done()
				time.Sleep(time.Second)
				ended.Add(1)
				return nil, ctx.Err()
			})
			must(t, err)
			leave()
			synctest.Wait()
			if !maps.Equal(counts, many) || began.Load() != want {
				t.Errorf("the figure is %v, and %d counts began, want %d", counts, began.Load(), want)
			}
		}
		time.Sleep((manyDead + 1) * countHold * 9 / 10)
		ask(0)
		time.Sleep((manyDead + 1) * countHold / 5)
		ask(1)
		ask(1)
		time.Sleep(time.Minute)
		if ended.Load() != 0 {
			t.Error("the count has ended with the one who asked")
		}
		f.close()
		if ended.Load() != 1 {
			t.Error("the database is closed in the middle of a count")
		}
		_, _ = f.read(t.Context(), func(context.Context) (map[Death]int64, error) {
			t.Error("a count begins when the database is closed")
			return nil, nil
		})
		synctest.Wait()
	})
}

// The next who ask learn that a count beside them has failed, until another has not.
func TestACountOfDeadLettersThatFailsIsTold(t *testing.T) {
	var f deadFigure
	many, fails := map[Death]int64{{corebot.Inbound, "permanent"}: manyDead + 1}, errors.New("damaged")
	var err error
	count := func(context.Context) (map[Death]int64, error) { return many, err }
	_, got := f.read(t.Context(), count)
	must(t, got)
	f.at = f.at.Add(-time.Hour)
	for i, want := range []error{nil, fails, nil} {
		err = []error{fails, nil, nil}[i] // of the count that begins now
		if _, got := f.read(t.Context(), count); !errors.Is(got, want) {
			t.Errorf("read %d: %v, want %v", i, got, want)
		}
		f.beside.Wait()
	}
}
