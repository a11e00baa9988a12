package vfstest

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// installed is a directory under a VFS until the test ends.
func installed(t *testing.T, o Options) (dir string) {
	t.Helper()
	dir = t.TempDir()
	v, err := Install(dir, o)
	must(t, err)
	t.Cleanup(func() { must(t, v.Close()) })
	return dir
}

// open opens a database with a table t of one column x, until the test ends.
func open(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "a.db")+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	db.SetMaxOpenConns(4)
	exec(t, db, `CREATE TABLE IF NOT EXISTS t (x INTEGER)`)
	return db
}

func exec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.Exec(statement, args...)
	must(t, err)
}

// rows counts the rows of t in a database that was laid out from files, on SQLite's usual VFS.
func rows(t *testing.T, files Files) int {
	t.Helper()
	dir := t.TempDir()
	must(t, files.WriteTo(dir))
	db := open(t, dir)
	n := 0
	must(t, db.QueryRow(`SELECT COUNT(*) FROM t`).Scan(&n))
	return n
}

func TestARecordingReplayedWholeIsWhatTheDirectoryHolds(t *testing.T) {
	r := &Recording{}
	dir := installed(t, Options{Recording: r})
	db := open(t, dir)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				if _, err := db.Exec(`INSERT INTO t VALUES (?)`, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	exec(t, db, `PRAGMA wal_checkpoint(RESTART)`)
	exec(t, db, `DELETE FROM t WHERE x = 1`)
	if r.Syncs("a.db") == 0 {
		t.Error("there was no checkpoint")
	}
	want, err := ReadFiles(dir)
	must(t, err)
	d := r.Disk()
	d.Advance(r.Len())
	if got := d.Whole(); !reflect.DeepEqual(got, want) {
		t.Errorf("replayed: %v; there: %v", sizes(got), sizes(want))
	}
}

func sizes(f Files) string {
	s := ""
	for _, name := range f.names() {
		s += fmt.Sprintf("%s %d ", name, len(f[name]))
	}
	return s
}

func TestWhatWasCommittedBeforeTheCutIsThereAfterIt(t *testing.T) {
	r := &Recording{}
	db := open(t, installed(t, Options{Recording: r}))
	committed := []int{r.Len()} // the position after so many rows
	for i := range 5 {
		exec(t, db, `INSERT INTO t VALUES (?)`, i)
		committed = append(committed, r.Len())
	}
	chance := rand.New(rand.NewPCG(1, 1))
	disk := r.Disk()
	for n, at := range committed {
		disk.Advance(at)
		for range 3 {
			if got := rows(t, disk.Cut(chance)); got != n {
				t.Errorf("%d rows were committed, %d are there", n, got)
			}
		}
	}
}

func TestAFaultIsWhatSQLiteSaysOfIt(t *testing.T) {
	for fault, want := range map[Fault]int{
		{Call: Write, Kind: Full}:     sqlite3.SQLITE_FULL,
		{Call: Write, Kind: Short}:    sqlite3.SQLITE_FULL,
		{Call: Write, Kind: IO}:       sqlite3.SQLITE_IOERR_WRITE,
		{Call: Sync, Kind: IO}:        sqlite3.SQLITE_IOERR_FSYNC,
		{Call: Sync, Kind: Full}:      sqlite3.SQLITE_IOERR_FSYNC,
		{Call: Truncate, Kind: IO}:    sqlite3.SQLITE_IOERR_TRUNCATE,
		{Call: Truncate, Kind: Full}:  sqlite3.SQLITE_FULL,
		{Call: Truncate, Kind: Short}: sqlite3.SQLITE_FULL,
	} {
		f, r := &Faults{}, &Recording{}
		db := open(t, installed(t, Options{Faults: f, Recording: r}))
		statement := `INSERT INTO t VALUES (1)`
		if fault.Call == Truncate {
			exec(t, db, statement)
			statement = `PRAGMA wal_checkpoint(TRUNCATE)`
		}
		before := r.Len()
		if _, struck := r.FirstFailure(); struck {
			t.Errorf("%+v: struck before it was armed", fault)
		}
		fault.Nth = 1
		f.Arm(fault)
		_, err := db.Exec(statement)
		var e *sqlite.Error
		if !errors.As(err, &e) || e.Code() != want {
			t.Errorf("%+v: got %v", fault, err)
		}
		if at, struck := r.FirstFailure(); !struck || at <= before || f.Fired() != 1 || f.Seen(fault.Call) == 0 {
			t.Errorf("%+v: struck at %d, %d times, of %d", fault, at, f.Fired(), f.Seen(fault.Call))
		}
		_, err = db.Exec(statement)
		must(t, err)
	}
}

func TestAStickyFaultLastsUntilItIsRelieved(t *testing.T) {
	f := &Faults{}
	db := open(t, installed(t, Options{Faults: f}))
	f.Arm(Fault{Call: Sync, Nth: 2, Kind: IO, Sticky: true})
	exec(t, db, `INSERT INTO t VALUES (1)`)
	for range 3 {
		if _, err := db.Exec(`INSERT INTO t VALUES (2)`); err == nil {
			t.Error("it was only once")
		}
	}
	f.Relieve()
	exec(t, db, `INSERT INTO t VALUES (3)`)
	if f.Fired() < 3 {
		t.Errorf("fired %d times", f.Fired())
	}
}

func TestAShortWriteLeavesItsFirstHalf(t *testing.T) {
	f := &Faults{}
	dir := installed(t, Options{Faults: f})
	db := open(t, dir)
	exec(t, db, `PRAGMA wal_checkpoint(TRUNCATE)`)
	f.Arm(Fault{Call: Write, Nth: 3, Kind: Short}) // header, frame header, page
	if _, err := db.Exec(`INSERT INTO t VALUES (1)`); err == nil {
		t.Fatal("no error")
	}
	info, err := os.Stat(filepath.Join(dir, "a.db-wal"))
	if err != nil || info.Size() != 32+24+2048 {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
}

func TestOtherDirectoriesAreLeftAlone(t *testing.T) {
	f, r := &Faults{}, &Recording{}
	installed(t, Options{Faults: f, Recording: r})
	f.Arm(Fault{Call: Write, Nth: 1, Kind: IO, Sticky: true})
	exec(t, open(t, t.TempDir()), `INSERT INTO t VALUES (1)`)
	if r.Len() > 0 || f.Seen(Write) > 0 {
		t.Errorf("%d events, %d writes", r.Len(), f.Seen(Write))
	}
}

func TestAVFSInUseIsNotTakenAway(t *testing.T) {
	dir := t.TempDir()
	v, err := Install(dir, Options{})
	must(t, err)
	db, err := sql.Open("sqlite", filepath.Join(dir, "a.db"))
	must(t, err)
	exec(t, db, `CREATE TABLE t (x)`)
	if err := v.Close(); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
	exec(t, db, `INSERT INTO t VALUES (1)`)
	must(t, db.Close())
	must(t, v.Close())
}

func TestARecordingIsUsedOnce(t *testing.T) {
	r := &Recording{}
	installed(t, Options{Recording: r})
	if v, err := Install(t.TempDir(), Options{Recording: r}); err == nil {
		t.Error("twice", v.Close())
	}
	if v, err := Install(filepath.Join(t.TempDir(), "missing"), Options{}); err == nil {
		t.Error("a directory that is not there", v.Close())
	}
}
