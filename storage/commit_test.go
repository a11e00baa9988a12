package storage

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

var errDisk = errors.New("the disk said no")

// openFaulty opens a database and lets its first COMMIT fail, before it happens or after.
func openFaulty(t *testing.T, dir string, commitHappens bool, then func(*DB)) *DB {
	t.Helper()
	db, err := Open(context.Background(), dir, Options{})
	must(t, err)
	inject(db, func(sql string, after bool) error {
		if sql == commit.sql && after == commitHappens {
			if then != nil {
				then(db)
			}
			return errDisk
		}
		return nil
	})
	runTest(t, db)
	return db
}

func publishOne(db *DB, id string) (corebot.Receipt, error) {
	r, err := NewQueue(db).Publish(context.Background(), []corebot.Message{testMessage("chat", id)},
		corebot.Limits{TotalDepth: 2})
	if err != nil {
		return corebot.Receipt{}, err
	}
	return r[0], r[0].Err
}

func TestACommitThatFailedAndDidNotHappenIsAnError(t *testing.T) {
	dir := seeded(t)
	db := openFaulty(t, dir, false, nil)
	if _, err := publishOne(db, "1"); !errors.Is(err, errDisk) || errors.Is(err, corebot.ErrCommitUnknown) {
		t.Fatalf("got %v", err)
	}
	if n := count(t, dir, "message_life"); n != 0 {
		t.Fatalf("%d messages are stored", n)
	}
	for _, id := range []string{"1", "2"} { // the store goes on, and its totals are right
		if r, err := publishOne(db, id); err != nil || r.Duplicate {
			t.Fatalf("publish %s: %+v, %v", id, r, err)
		}
	}
	if _, err := publishOne(db, "3"); !errors.Is(err, corebot.ErrOverloaded) {
		t.Fatalf("got %v", err)
	}
}

func TestACommitThatFailedAndHappenedIsASuccess(t *testing.T) {
	dir := seeded(t)
	db := openFaulty(t, dir, true, nil)
	if r, err := publishOne(db, "1"); err != nil || r.Duplicate {
		t.Fatalf("got %+v, %v", r, err)
	}
	if r, err := publishOne(db, "1"); err != nil || !r.Duplicate {
		t.Fatalf("again: %+v, %v", r, err)
	}
	if _, err := publishOne(db, "2"); err != nil {
		t.Fatal(err)
	}
	if _, err := publishOne(db, "3"); !errors.Is(err, corebot.ErrOverloaded) {
		t.Fatalf("the totals forgot a message: %v", err)
	}
}

func TestACommitThatCannotBeLookedUpIsUnknown(t *testing.T) {
	for _, happens := range []bool{false, true} {
		dir := seeded(t)
		there := filepath.Join(dir, FileName)
		db := openFaulty(t, dir, happens, func(db *DB) { db.path = there + "/gone" })
		if _, err := publishOne(db, "1"); !errors.Is(err, corebot.ErrCommitUnknown) {
			t.Fatalf("got %v", err)
		}
		if _, err := publishOne(db, "2"); err == nil || errors.Is(err, corebot.ErrCommitUnknown) {
			t.Fatalf("without a file: %v", err)
		}
		db.path = there // the writer looks at it with the next operation
		if r, err := publishOne(db, "1"); err != nil || r.Duplicate != happens {
			t.Fatalf("when the file is back: %+v, %v", r, err)
		}
	}
}

func TestAClaimWhoseCommitFailedLeavesItsLaneReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		db, err := Open(context.Background(), dir, Options{})
		must(t, err)
		armed := false
		inject(db, func(sql string, after bool) error {
			if sql == leaseLane.sql && !after {
				armed = true
			}
			if sql == commit.sql && !after && armed {
				return errDisk
			}
			return nil
		})
		runTest(t, db)
		publishTest(t, db, "chat", "1")
		if _, err := NewQueue(db).Claim(context.Background(), corebot.InboundPool, 9,
			corebot.ClaimOptions{Lease: time.Hour}); !errors.Is(err, errDisk) {
			t.Fatalf("got %v", err)
		}
		asked := time.Now()
		if d := claimTest(t, db); d.Epoch != 1 || time.Since(asked) > failurePause {
			t.Fatalf("epoch %d after %v", d.Epoch, time.Since(asked))
		}
	})
}

func TestABrokenDiskDoesNotMakeTheWriterSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(context.Background(), seeded(t), Options{})
		must(t, err)
		tries, broken := 0, true
		inject(db, func(sql string, after bool) error {
			if sql != begin.sql || after || !broken {
				return nil
			}
			tries++
			broken = tries < 1000
			return errDisk
		})
		runTest(t, db)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1,
			corebot.ClaimOptions{Lease: time.Hour}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait() // the writer sleeps; what it counted may be read
		if tries < 2 || tries > 12 {
			t.Fatalf("%d tries in ten seconds", tries)
		}
		broken = false
		publishTest(t, db, "chat", "1")
		claimTest(t, db)
	})
}

// fullDisk is what SQLite says on a disk that is full.
func fullDisk(t *testing.T) error {
	t.Helper()
	side, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "small.db")+"?_pragma=max_page_count(2)")
	must(t, err)
	defer side.Close() //nolint:errcheck // a test's own connection
	_, err = side.Exec(`CREATE TABLE t (x BLOB); INSERT INTO t VALUES (zeroblob(100000))`)
	if err == nil {
		t.Fatal("the small database took it")
	}
	return err
}

func TestAFullDiskIsATypedErrorAndPassesWithItsCause(t *testing.T) {
	full := fullDisk(t)
	db, err := Open(context.Background(), seeded(t), Options{})
	must(t, err)
	inject(db, func(sql string, after bool) error {
		if sql == insertBody.sql && !after {
			return full
		}
		return nil
	})
	runTest(t, db)
	if _, err := publishOne(db, "1"); !errors.Is(err, corebot.ErrDiskFull) {
		t.Fatalf("got %v", err)
	}
	full = nil
	if r, err := publishOne(db, "1"); err != nil || r.Duplicate {
		t.Fatalf("with room again: %+v, %v", r, err)
	}
}

func TestACommitIsSynced(t *testing.T) {
	db := openTest(t, t.TempDir())
	var mode string
	var level int64
	must(t, db.write(context.Background(), "look", func(x *tx) error {
		_, err := x.one(&query{`PRAGMA journal_mode`}, []any{&mode})
		if err != nil {
			return err
		}
		_, err = x.one(&query{`PRAGMA synchronous`}, []any{&level})
		return err
	}))
	if mode != "wal" || level < 2 {
		t.Fatalf("the journal mode is %s, synchronous is %d", mode, level)
	}
}
