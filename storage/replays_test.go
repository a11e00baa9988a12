package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// endsAgain answers or gives up every ready message.
func endsAgain(t *testing.T, db *DB, o corebot.Outcome) (n int) {
	t.Helper()
	for {
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 100, corebot.ClaimOptions{Lease: time.Minute})
		stop()
		if err != nil || len(ds) == 0 {
			return n
		}
		for _, d := range ds {
			must(t, NewQueue(db).Settle(t.Context(), d, o))
			n++
		}
	}
}

var diesAgain = corebot.Outcome{Verb: corebot.Dead, Reason: "permanent", Error: "it failed again"}

// runsOfAll are the runs of all messages, by their ids.
func runsOfAll(t *testing.T, db *DB) (runs []string) {
	t.Helper()
	return sideQuery(t, db.path, `SELECT message_id || ' ' || run FROM message_life WHERE kind = 'prompt' ORDER BY id`)
}

func TestAReplayThatWasKilledGoesOnAndReplaysEachLetterOnce(t *testing.T) {
	const letters = 2*changeChunk + 7
	dir := seeded(t)
	var r corebot.Replaying
	earlier(t, dir, func(db *DB) {
		for i := range letters {
			deadLetter(t, db, fmt.Sprint("c", i), fmt.Sprintf("%03d", i), "permanent")
		}
		var err error
		r, err = NewDeadLetters(db).BeginReplay(t.Context(), corebot.DeadLetterFilter{Reason: "permanent"}, false, 0)
		must(t, err)
		r, err = NewDeadLetters(db).StepReplay(t.Context(), r.ID)
		if err != nil || r.Done != changeChunk || !r.EndedAt.IsZero() {
			t.Fatalf("after a step it is %+v: %v", r, err)
		}
		// The replayed letters die again before the process ends. The next process must not replay it again.
		if n := endsAgain(t, db, diesAgain); n != changeChunk {
			t.Fatalf("%d messages died again", n)
		}
	})
	db := openTest(t, dir)
	again, err := NewDeadLetters(db).BeginReplay(t.Context(), corebot.DeadLetterFilter{Reason: "permanent"}, false, 0)
	if err != nil || again.ID != r.ID || !again.BeganAt.Equal(r.BeganAt) {
		t.Fatalf("the second start is %+v: %v", again, err)
	}
	all, err := NewDeadLetters(db).ReplayAll(t.Context(), corebot.DeadLetterFilter{Reason: "permanent"}, false)
	if err != nil || all.Done != letters || all.Left != 0 {
		t.Fatalf("replayed %+v: %v", all, err)
	}
	for _, run := range runsOfAll(t, db) {
		if !strings.HasSuffix(run, " 2") {
			t.Errorf("message and run: %s", run)
		}
	}
	healthy(t, db)
}

// A worker that read its portion before another worker replayed it changes nothing. This holds also for a letter that
// has died again after the clock was set back.
func TestAPortionThatAnotherReplayedIsNotReplayedAgain(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	id := deadLetter(t, db, "a", "1", "poison")
	deadLetter(t, db, "b", "2", "poison")
	began, err := letters.BeginReplay(t.Context(), corebot.DeadLetterFilter{}, false, 200*time.Millisecond)
	must(t, err)
	slow := replaying{Replaying: began}
	portion, err := letters.nextOf(t.Context(), slow)
	must(t, err)
	if _, err := letters.StepReplay(t.Context(), began.ID); err != nil || endsAgain(t, db, diesAgain) == 0 {
		t.Fatal(err)
	}
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		if _, err := t.exec(&query{`UPDATE message_life SET ended_at = 1 WHERE "end" = 'dead'`}); err != nil {
			return err
		}
		if _, err := t.exec(&query{`UPDATE replays SET next_at = 0, ended_at = 0`}); err != nil {
			return err
		}
		_, _, err := letters.stepTx(t, slow, portion)
		return err
	}))
	if life := lifeOf(t, db, id); life.Run != 2 || life.End != corebot.EndDead {
		t.Errorf("it has run %d times", life.Run)
	}
}

// TestALetterThatDiedWhileTheClockWasAheadIsReplayedAndDropped: its death is later than now, and it is dead all the
// same.
func TestALetterThatDiedWhileTheClockWasAheadIsReplayedAndDropped(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	id := deadLetter(t, db, "a", "1", "poison")
	deadLetter(t, db, "b", "2", "poison")
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		_, err := t.exec(&query{`UPDATE message_life SET ended_at = ? WHERE "end" = 'dead'`}, t.now.Add(time.Hour))
		return err
	}))
	all, err := letters.ReplayAll(t.Context(), corebot.DeadLetterFilter{Chat: "a"}, false)
	if err != nil || all.Done != 1 || lifeOf(t, db, id).Run != 2 {
		t.Errorf("replayed %+v, %v", all, err)
	}
	if n, err := letters.Purge(t.Context(), corebot.DeadLetterFilter{}); err != nil || n != 1 {
		t.Errorf("dropped %d, %v", n, err)
	}
}

func TestTwoOperatorsAtOnceReplayEachLetterOnce(t *testing.T) {
	const letters = 3 * changeChunk
	db := openTest(t, t.TempDir())
	for i := range letters {
		deadLetter(t, db, fmt.Sprint("c", i), fmt.Sprintf("%03d", i), "permanent")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := NewDeadLetters(db).ReplayAll(t.Context(), corebot.DeadLetterFilter{Channel: "test"}, false)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, run := range runsOfAll(t, db) {
		if !strings.HasSuffix(run, " 2") {
			t.Errorf("message and run: %s", run)
		}
	}
	healthy(t, db)
}

func TestOneReplayOfManyIsOpenUntilItIsStopped(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	deadLetter(t, db, "a", "1", "poison")
	open, err := letters.BeginReplay(t.Context(), corebot.DeadLetterFilter{Reason: "poison"}, false, time.Second)
	must(t, err)
	for name, other := range map[string]struct {
		f     corebot.DeadLetterFilter
		fresh bool
	}{
		"filter": {corebot.DeadLetterFilter{}, false}, "fresh": {corebot.DeadLetterFilter{Reason: "poison"}, true},
	} {
		if _, err := letters.BeginReplay(t.Context(), other.f, other.fresh, 0); err == nil ||
			!strings.Contains(corebot.HintOf(err), fmt.Sprint("stop ", open.ID)) {
			t.Errorf("with another %s: %v", name, err)
		}
	}
	stopped, err := letters.StopReplay(t.Context(), open.ID)
	if err != nil || !stopped.Stopped || stopped.EndedAt.IsZero() {
		t.Fatalf("stopped: %+v %v", stopped, err)
	}
	if _, err := letters.StopReplay(t.Context(), open.ID); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("stopped twice: %v", err)
	}
	if r, err := letters.StepReplay(t.Context(), open.ID); err != nil || r.Done != 0 {
		t.Errorf("a stopped replay went on: %+v %v", r, err)
	}
	if r, err := letters.ReplayAll(t.Context(), corebot.DeadLetterFilter{}, false); err != nil || r.Done != 1 {
		t.Errorf("the next: %+v %v", r, err)
	}
	for i := range maxReplays + 3 {
		if _, err := letters.ReplayAll(t.Context(), corebot.DeadLetterFilter{Chat: fmt.Sprint(i)}, false); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := letters.Replays(t.Context(), 1000); err != nil || len(all) != maxReplays {
		t.Errorf("%d replays are remembered: %v", len(all), err)
	}
}

func TestAReplayAtOnceSaysThatAnotherCommandHasTakenItOver(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	deadLetter(t, db, "a", "1", "poison")
	deadLetter(t, db, "a", "2", "poison")
	begun, err := letters.BeginReplay(t.Context(), corebot.DeadLetterFilter{}, false, 0)
	must(t, err)
	_, err = letters.BeginReplay(t.Context(), corebot.DeadLetterFilter{}, false, time.Hour)
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if all, err := letters.finish(ctx, begun); err == nil || all.Done != 1 ||
		!strings.Contains(err.Error(), "rate of another command") {
		t.Errorf("with a rate: %+v %v", all, err)
	}
	_, err = letters.StopReplay(t.Context(), begun.ID)
	must(t, err)
	if all, err := letters.finish(ctx, begun); err == nil || all.Done != 1 ||
		!strings.Contains(err.Error(), "was stopped") {
		t.Errorf("stopped: %+v %v", all, err)
	}
}

func TestAReplayKeepsItsRateAlsoWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		letters := NewDeadLetters(s.DB)
		for i := range 100 {
			deadLetter(t, s.DB, "a", fmt.Sprintf("%03d", i), "poison")
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		wg.Go(func() { _ = letters.RunReplays(ctx) })
		synctest.Wait()
		r, err := letters.BeginReplay(ctx, corebot.DeadLetterFilter{}, false, 100*time.Millisecond)
		must(t, err)
		want := func(least, most int) {
			t.Helper()
			synctest.Wait()
			if r, err = letters.StepReplay(ctx, r.ID); err != nil || r.Done < least || r.Done > most {
				t.Fatalf("it is %+v, want %d to %d letters: %v", r, least, most, err)
			}
		}
		time.Sleep(time.Second)
		want(10, 15)
		s.step(-time.Hour)
		time.Sleep(clockLook)
		want(50, 100)
		time.Sleep(clockLook)
		want(100, 100)
		if r.EndedAt.IsZero() {
			t.Errorf("in the end it is %+v", r)
		}
	})
}

func TestAReplayWithARateWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		letters := NewDeadLetters(db)
		for i := range 6 {
			deadLetter(t, db, fmt.Sprint("c", i), fmt.Sprint("m", i), "poison")
		}
		db.limits.TotalDepth = 4
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		wg.Go(func() { _ = letters.RunReplays(ctx) })
		r, err := letters.BeginReplay(ctx, corebot.DeadLetterFilter{}, false, time.Millisecond)
		must(t, err)
		time.Sleep(time.Minute)
		r, err = letters.StepReplay(ctx, r.ID)
		if err != nil || r.Done != 4 || r.Left != 0 || r.Why == "" || !r.EndedAt.IsZero() {
			t.Fatalf("with a full queue it is %+v: %v", r, err)
		}
		must(t, NewQueue(db).Settle(ctx, take(t, db, corebot.InboundPool),
			corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
		must(t, NewQueue(db).Settle(ctx, take(t, db, corebot.InboundPool),
			corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
		time.Sleep(2 * roomPause)
		if r, err = letters.StepReplay(ctx, r.ID); err != nil || r.Done != 6 || r.EndedAt.IsZero() {
			t.Fatalf("with room it is %+v: %v", r, err)
		}
	})
}

func TestDeadLettersAreFoundByWhatWasSaidAndByTheirError(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	for i := range 12 {
		deadLetter(t, db, fmt.Sprint("c", i%3), fmt.Sprintf("m%02d", i), "poison")
	}
	deadReply(t, db, "c0", "r")
	for _, c := range []struct {
		f    corebot.DeadLetterFilter
		want int
	}{
		{corebot.DeadLetterFilter{Text: "TEXT of M0"}, 10},
		{corebot.DeadLetterFilter{Text: "text of m0", Chat: "c0"}, 4},
		{corebot.DeadLetterFilter{Text: "text of m0", Limit: 3}, 3},
		{corebot.DeadLetterFilter{Text: "text", Error: "no such CHAT"}, 1},
		{corebot.DeadLetterFilter{Error: "it failed"}, 12},
		{corebot.DeadLetterFilter{Text: "%"}, 0},
	} {
		got, err := letters.List(t.Context(), c.f)
		if err != nil || len(got) != c.want {
			t.Errorf("%+v lists %d, want %d: %v", c.f, len(got), c.want, err)
		}
		var paged []corebot.DeadLetter
		for next := ""; ; {
			page, after, err := letters.Page(t.Context(), c.f, next, 5)
			must(t, err)
			if paged, next = append(paged, page...), after; next == "" {
				break
			}
		}
		if c.f.Limit == 0 && len(paged) != c.want {
			t.Errorf("%+v has %d in pages, want %d", c.f, len(paged), c.want)
		}
	}
	if n, err := letters.Purge(t.Context(), corebot.DeadLetterFilter{Text: "of m11"}); n != 1 || err != nil {
		t.Errorf("purged %d: %v", n, err)
	}
	if r, err := letters.ReplayAll(t.Context(), corebot.DeadLetterFilter{Text: "of m1"}, false); err != nil ||
		r.Done != 1 || lifeOf(t, db, 11).Run != 2 {
		t.Errorf("replayed %+v: %v", r, err)
	}
	if _, err := letters.BeginReplay(t.Context(), corebot.DeadLetterFilter{Text: strings.Repeat("x", 1001)}, false,
		0); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("a long text: %v", err)
	}
}

func TestDeadLettersAreCounted(t *testing.T) {
	db := openTest(t, t.TempDir())
	for i := range 5 {
		deadLetter(t, db, fmt.Sprint("c", i), fmt.Sprint("m", i), []string{"poison", "attempts"}[i%2])
	}
	deadReply(t, db, "c0", "r")
	count := func(f corebot.DeadLetterFilter, by corebot.DeadBy) string {
		got, err := NewDeadLetters(db).Count(t.Context(), f, by)
		must(t, err)
		text := fmt.Sprint(got.Total, got.Others)
		for _, g := range got.Groups {
			text += fmt.Sprintf(" | %d %s %s%s%s", g.Count, g.Direction, g.Reason, g.Cause, g.Chat)
			if g.LastID == 0 || g.Oldest.After(g.Newest) || g.Oldest.IsZero() {
				t.Errorf("a group is %+v", g)
			}
		}
		return text
	}
	for _, c := range []struct {
		f    corebot.DeadLetterFilter
		by   corebot.DeadBy
		want string
	}{
		{corebot.DeadLetterFilter{}, corebot.DeadByReason, "6 0 | 3 inbound poison | 2 inbound attempts | " +
			"1 outbound permanent"},
		{corebot.DeadLetterFilter{Text: "m1"}, corebot.DeadByReason, "1 0 | 1 inbound attempts"},
		{corebot.DeadLetterFilter{Reason: "poison"}, corebot.DeadByCause, "3 0 | 3 inbound poisonit failed"},
		{corebot.DeadLetterFilter{Chat: "c0"}, corebot.DeadByChat, "2 0 | 1 outbound main:test::c0 | " +
			"1 inbound main:test::c0"},
	} {
		if got := count(c.f, c.by); got != c.want {
			t.Errorf("by %s: %s, want %s", c.by, got, c.want)
		}
	}
}
