package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// running runs the writer of a database until stop, which closes it too.
func running(t *testing.T, db *DB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- db.Run(ctx) }()
	return func() {
		cancel()
		must(t, <-ended)
		must(t, db.Close())
	}
}

// earlier is what an earlier process did with a database.
func earlier(t *testing.T, dir string, fn func(*DB)) {
	t.Helper()
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	stop := running(t, db)
	fn(db)
	stop()
}

// limitPages lets the database grow by a few pages and no more, as a full disk would.
func limitPages(t *testing.T, db *DB, more int64) {
	t.Helper()
	var pages int64
	must(t, db.conn.each(&query{`PRAGMA page_count`}, func(s scanner) error { return s.Scan(&pages) }))
	must(t, db.conn.each(&query{fmt.Sprintf("PRAGMA max_page_count = %d", pages+more)},
		func(scanner) error { return nil }))
}

// On a full disk SQLite itself rolls back the whole transaction, even at an operation's first statement. The work of
// the other operations of the batch is then gone, and they must not be told that it is there.
func TestAFullDiskInOneOperationIsNoFalseWordToTheOthers(t *testing.T) {
	dir := seeded(t)
	var d corebot.Delivery
	earlier(t, dir, func(db *DB) {
		publishTest(t, db, "a", "1")
		publishTest(t, db, "b", "warm")
		d = claimTest(t, db)
	})
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	d.Epoch++ // opening has voided the lease
	first := db.conn
	limitPages(t, db, 6) // of this connection: the writer opens another when it has lost its transaction
	published, recorded := make(chan error, 1), make(chan error, 1)
	submitted := func(n int) {
		for len(db.ops) < n {
			time.Sleep(time.Millisecond)
		}
	}
	go func() {
		_, err := NewQueue(db).Publish(context.Background(), []corebot.Message{testMessage("b", "2")}, corebot.Limits{})
		published <- err
	}()
	submitted(1)
	go func() {
		big := corebot.ToolResult{Outcome: corebot.OutcomeSuccess, Content: strings.Repeat("x", 1<<20)}
		step := corebot.Step{
			Kind: corebot.StepTool, State: corebot.StepDone, Call: &corebot.ToolCall{Tool: "x"},
			Result: &big,
		}
		recorded <- NewLedger(db).Record(context.Background(), d, step)
	}()
	submitted(2)
	stop := running(t, db)
	accepted := <-published == nil
	kept := <-recorded == nil
	stop()
	if db.conn == first {
		t.Fatal("nothing failed: the test proves nothing")
	}
	stored := sideQuery(t, dir, `SELECT COUNT(*) FROM message_life WHERE message_id = '2'`)[0] == "1"
	if accepted != stored {
		t.Errorf("accepted: %v, stored: %v", accepted, stored)
	}
	if steps := sideQuery(t, dir, `SELECT COUNT(*) FROM execution_steps`)[0]; kept != (steps == "1") {
		t.Errorf("recorded: %v, steps: %s", kept, steps)
	}
}

func TestPingCommitsOnlyUntilItIsKnownThatCommitsSucceedAgain(t *testing.T) {
	dir := seeded(t)
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	inject(db, func(sql string, _ bool) error { // of this connection; the writer opens another one after it
		if sql == commit.sql {
			return errDisk
		}
		return nil
	})
	defer running(t, db)()
	batch := func() string { return sideQuery(t, dir, `SELECT batch FROM store`)[0] }
	if _, err := NewQueue(db).Publish(t.Context(), []corebot.Message{testMessage("a", "1")},
		corebot.Limits{}); err == nil {
		t.Fatal("it was accepted on a broken disk")
	}
	failed := batch()
	must(t, db.Ping(t.Context()))
	proven := batch()
	must(t, db.Ping(t.Context()))
	if failed == proven || batch() != proven {
		t.Errorf("the batch number went from %s to %s to %s", failed, proven, batch())
	}
}

func TestAStopIsNotHeldUpByABackoffThatBeginsAfterIt(t *testing.T) {
	for name, outcome := range map[string]corebot.Outcome{
		"retry": {Verb: corebot.RetryAt, At: time.Now().Add(5 * time.Minute), Error: "x"},
		"wait":  {Verb: corebot.Wait, At: time.Now().Add(5 * time.Minute), Reason: "approval"},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			publishTest(t, db, "a", "1")
			d := claimTest(t, db)
			stop := testMessage("a", "s")
			stop.Direction, stop.Kind = corebot.Control, corebot.KindControl
			_, err := NewLedger(db).Stop(t.Context(), stop, d.Life, corebot.AuditEvent{}, func(bool) corebot.Message {
				notice := testMessage("a", "s/stop")
				notice.Direction, notice.Kind = corebot.Outbound, corebot.KindNotice
				return notice
			})
			must(t, err)
			must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: outcome}))
			if again := claimTest(t, db); !again.Stopped {
				t.Errorf("claimed again as %+v", again)
			}
		})
	}
}

func TestAClockThatWasAheadHoldsNoChatAfterARestart(t *testing.T) {
	dir := seeded(t)
	earlier(t, dir, func(db *DB) { publishTest(t, db, "a", "1") })
	sideQuery(t, dir, `UPDATE lanes SET wake_at = wake_at + 86400000`)
	db := openTest(t, dir)
	if d := claimTest(t, db); d.Message.ID != "1" || d.Lost != 0 {
		t.Errorf("claimed %+v", d)
	}
}

func TestALaneThatLostItsMessageDoesNotKeepTheWriterBusy(t *testing.T) {
	dir := seeded(t)
	earlier(t, dir, func(*DB) {})
	sideQuery(t, dir,
		`INSERT INTO lanes (direction, agent, channel, account, chat, thread, pool, depth, wake_at)
			VALUES (1, 'main', 'test', '', 'x', '', 'inbound', 1, 1)`)
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	begun := 0
	inject(db, func(sql string, after bool) error {
		if !after && sql == begin.sql {
			begun++
		}
		return nil
	})
	stop := running(t, db)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute}); err == nil {
		t.Error("a lane without a message was claimed")
	}
	stop()
	if begun > 5 {
		t.Errorf("%d transactions in a fifth of a second", begun)
	}
}
