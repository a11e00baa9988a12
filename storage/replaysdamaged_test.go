package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// spoilSecondLeaf writes over the second page of the leaves of a table whose root has only leaves below it.
func spoilSecondLeaf(t *testing.T, dir, table string) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(dir, FileName))
	must(t, err)
	page := file[(rootOf(t, dir, table)-1)*pageBytes:][:pageBytes]
	if page[0] != 5 || binary.BigEndian.Uint16(page[3:]) < 3 {
		t.Fatalf("the root is of kind %d with %d children", page[0], binary.BigEndian.Uint16(page[3:]))
	}
	cell := binary.BigEndian.Uint16(page[12+2:])
	spoilPage(t, dir, int64(binary.BigEndian.Uint32(page[cell:])))
}

// withDamagedLetters is a home with dead letters, some of which stand on a damaged page.
func withDamagedLetters(t *testing.T, all int) (dir string) {
	t.Helper()
	dir = seeded(t)
	earlier(t, dir, func(db *DB) {
		for n := range all {
			deadLetter(t, db, fmt.Sprint("c", n), fmt.Sprintf("%03d", n), "permanent")
		}
	})
	spoilSecondLeaf(t, dir, "message_life")
	return dir
}

func TestADamagedPageHoldsUpNoLetterOnAnotherPage(t *testing.T) {
	const all = 120
	db := openTest(t, withDamagedLetters(t, all))
	got, err := NewDeadLetters(db).ReplayAll(t.Context(), corebot.DeadLetterFilter{}, false)
	must(t, err)
	if got.Done < all/2 || got.Left == 0 || got.Done+got.Left != all {
		t.Errorf("of %d letters: %+v", all, got)
	}
	if got.Why == nil || !strings.Contains(got.Why.Error(), "corebot db check") {
		t.Errorf("why: %v", got.Why)
	}
	if n := count(t, db.path, "message_queue"); n != got.Done {
		t.Errorf("%d of %d replayed messages wait for their turn", n, got.Done)
	}
}

// TestARunningReplayPassesOverADamagedPage: the loop of the running Corebot does the same, and comes to its end.
func TestARunningReplayPassesOverADamagedPage(t *testing.T) {
	const all = 120
	dir := withDamagedLetters(t, all)
	db := openTest(t, dir)
	letters := NewDeadLetters(db)
	f := corebot.DeadLetterFilter{Reason: "permanent"}
	began, err := letters.BeginReplay(t.Context(), f, false, time.Microsecond)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- letters.RunReplays(ctx) }()
	var now corebot.Replaying
	for end := time.Now().Add(20 * time.Second); now.EndedAt.IsZero() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
		list, err := letters.Replays(t.Context(), 1)
		must(t, err)
		now = list[0]
	}
	stop()
	must(t, <-ended)
	if now.ID != began.ID || now.EndedAt.IsZero() || now.Left == 0 || now.Done+now.Left != all {
		t.Errorf("the replay is %+v", now)
	}
}

// TestALetterWhoseReplayFailsForDamageStays: what can be read of a letter may not be all that its replay touches.
func TestALetterWhoseReplayFailsForDamageStays(t *testing.T) {
	t.Run("the body", func(t *testing.T) {
		dir := seeded(t)
		earlier(t, dir, func(db *DB) {
			long := []corebot.Message{longMessage("damaged", "long")}
			_, err := NewQueue(db).Publish(t.Context(), long, corebot.Limits{})
			must(t, err)
			ends(t, db, claimTest(t, db), diesAgain)
			deadLetter(t, db, "a", "well", "permanent")
		})
		breakOverflow(t, dir)
		got, err := NewDeadLetters(openTest(t, dir)).ReplayAll(t.Context(), corebot.DeadLetterFilter{}, false)
		if err != nil || got.Done != 1 || got.Left != 1 || got.Why == nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("the journal", func(t *testing.T) {
		dir := seeded(t)
		earlier(t, dir, func(db *DB) {
			deadLetter(t, db, "a", "1", "permanent")
			deadLetter(t, db, "b", "2", "permanent")
		})
		spoilPage(t, dir, rootOf(t, dir, "sqlite_autoindex_execution_steps_1"))
		db := openTest(t, dir)
		got, err := NewDeadLetters(db).ReplayAll(t.Context(), corebot.DeadLetterFilter{}, false)
		if err != nil || got.Done != 0 || got.Left != 2 || got.Why == nil {
			t.Errorf("%+v, %v", got, err)
		}
		if n := count(t, db.path, "message_queue"); n != 0 { // half a replay would wait there
			t.Errorf("%d messages wait", n)
		}
	})
}

// TestADamagedTableOfReplaysIsToldOnce: nothing can go on, and the log is not flooded.
func TestADamagedTableOfReplaysIsToldOnce(t *testing.T) {
	dir := seeded(t)
	earlier(t, dir, func(db *DB) {
		_, err := NewDeadLetters(db).BeginReplay(t.Context(), corebot.DeadLetterFilter{}, false, time.Hour)
		must(t, err)
	})
	root := rootOf(t, dir, "replays")
	spoilPage(t, dir, root)
	db := openTest(t, dir)
	var log bytes.Buffer
	db.log = zerolog.New(&log)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- NewDeadLetters(db).RunReplays(ctx) }()
	for range 3 { // each signal makes it look again
		time.Sleep(20 * time.Millisecond)
		signal(db.replaying)
	}
	time.Sleep(20 * time.Millisecond)
	stop()
	must(t, <-ended)
	if n := strings.Count(log.String(), "the replay of dead letters waits"); n != 1 {
		t.Errorf("it was told %d times:\n%s", n, log.String())
	}
}
