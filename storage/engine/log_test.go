package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage/vfstest"
)

const full = "synchronous(FULL)"

// openWriter opens a database with a table t, whose writes a recording notes and faults can fail.
func openWriter(t *testing.T, o vfstest.Options, pragmas ...string) (c *Conn, path string) {
	t.Helper()
	dir := t.TempDir()
	v, err := vfstest.Install(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	path = filepath.Join(dir, "test.db")
	if c, err = OpenWriter("file:"+path, append([]string{"journal_mode(WAL)", full}, pragmas...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	exec(t, c, `CREATE TABLE t (k INTEGER PRIMARY KEY, x BLOB)`)
	return c, path
}

// beside is a connection that another part of the program has to the same file.
func beside(t *testing.T, path string) *Conn {
	t.Helper()
	c, err := Open("file:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func length(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestACommitIsOneWriteAndOneSync(t *testing.T) {
	r := &vfstest.Recording{}
	c, _ := openWriter(t, vfstest.Options{Recording: r})
	before := r.Len()
	exec(t, c, `INSERT INTO t (x) VALUES (zeroblob(100000))`) // 25 pages and more
	if calls := r.Len() - before; calls != 2 {
		t.Errorf("it took %d calls", calls)
	}
	before = r.Len()
	exec(t, c, `INSERT INTO t (x) VALUES (zeroblob(300000))`) // more than one write can hold
	if calls := r.Len() - before; calls != 4 {
		t.Errorf("a long one took %d calls", calls)
	}
}

func TestTheLogHasItsLengthBeforeItsFrames(t *testing.T) {
	c, path := openWriter(t, vfstest.Options{})
	lengths := map[int64]int{}
	for range 200 {
		exec(t, c, `INSERT INTO t (x) VALUES (zeroblob(4000))`)
		used, size := c.Log()
		if size != length(t, path+"-wal") || used > size || used == 0 {
			t.Fatalf("%d bytes of %d are used; the file has %d", used, size, length(t, path+"-wal"))
		}
		lengths[size]++
	}
	if len(lengths) > 4 {
		t.Errorf("in 200 commits the file grew often: %v", lengths)
	}
}

func TestTheLogBeginsAnewOverItsOldFrames(t *testing.T) {
	c, path := openWriter(t, vfstest.Options{})
	exec(t, c, `INSERT INTO t (x) VALUES (zeroblob(500000))`)
	exec(t, beside(t, path), `PRAGMA wal_checkpoint(RESTART)`)
	exec(t, c, `INSERT INTO t (x) VALUES (zeroblob(1))`)
	if used, size := c.Log(); used > 20000 || size < 500000 || size != length(t, path+"-wal") {
		t.Errorf("%d bytes of %d are used", used, size)
	}
	exec(t, beside(t, path), `PRAGMA wal_checkpoint(TRUNCATE)`)
	exec(t, c, `INSERT INTO t (x) VALUES (zeroblob(1))`)
	if used, size := c.Log(); used > 20000 || size != length(t, path+"-wal") || size < step {
		t.Errorf("after another connection has emptied it, %d bytes of %d are used", used, size)
	}
}

func TestAWriterRefusesToSyncLess(t *testing.T) {
	c, path := openWriter(t, vfstest.Options{})
	for _, level := range []string{"NORMAL", "normal", "OFF", "1", "0", "on", "true", "4"} {
		for _, sql := range []string{"PRAGMA synchronous = " + level, "PRAGMA main.synchronous(" + level + ")"} {
			if err := c.run(sql); err == nil || !strings.Contains(err.Error(), "FULL") {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	for _, level := range []string{"FULL", "extra", "3", "2"} {
		if err := c.run("PRAGMA synchronous = " + level); err != nil {
			t.Error(err)
		}
	}
	var level int
	if err := scan(t, c, `PRAGMA synchronous`, &level); err != nil || level != 2 {
		t.Errorf("it is %d, %v", level, err)
	}
	if _, err := OpenWriter("file:"+path, []string{"synchronous(NORMAL)"}); err == nil {
		t.Error("a writer was opened that syncs less")
	}
	bare, err := OpenWriter("file:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := bare.Prepare(`PRAGMA synchronous`)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Query(func(s *Stmt) error { return s.Scan(&level) }); err != nil || level != 2 {
		t.Errorf("without a setting it is %d, %v", level, err)
	}
	if err := bare.Close(); err == nil {
		t.Error("it was closed under a statement")
	}
	if err := errors.Join(s.Close(), bare.Close()); err != nil {
		t.Error(err)
	}
}

// deeds changes the table at random, and a copy of it in memory. A small cache makes SQLite write pages before the
// commit, read them again, and write them anew.
type deeds struct {
	c     *Conn
	dice  *rand.Rand
	table map[int64][]byte // as committed
}

// transaction does some deeds and commits them, or takes them back.
func (d *deeds) transaction() error {
	next := map[int64][]byte{}
	for k, x := range d.table {
		next[k] = x
	}
	err := d.c.run(`BEGIN IMMEDIATE`)
	for range d.dice.IntN(12) {
		if err != nil {
			break
		}
		k, x := d.dice.Int64N(40), bytes.Repeat([]byte{byte(d.dice.Uint32())}, d.dice.IntN(20000))
		if d.dice.IntN(3) == 0 {
			delete(next, k)
			err = d.run(`DELETE FROM t WHERE k = ?`, k)
		} else {
			next[k] = x
			err = d.run(`INSERT OR REPLACE INTO t VALUES (?, ?)`, k, x)
		}
		if err == nil && d.dice.IntN(4) == 0 {
			err = d.compare(d.c, next)
		}
	}
	if err == nil && d.dice.IntN(4) > 0 {
		if err = d.c.run(`COMMIT`); err == nil {
			d.table = next
		}
	}
	if d.c.InTransaction() {
		if e := d.c.run(`ROLLBACK`); err == nil {
			err = e
		}
	}
	return err
}

func (d *deeds) run(sql string, args ...any) error {
	s, err := d.c.Prepare(sql)
	if err != nil {
		return err
	}
	_, err = s.Exec(args...)
	_ = s.Close() // gives the same error again
	return err
}

// errDiffers says that a connection reads something else than was written.
type errDiffers struct{ error }

func (d *deeds) compare(c *Conn, want map[int64][]byte) error {
	s, err := c.Prepare(`SELECT k, x FROM t`)
	if err != nil {
		return err
	}
	rows := 0
	err = s.Query(func(s *Stmt) error {
		var k int64
		var x []byte
		if err := s.Scan(&k, &x); err != nil {
			return errDiffers{err}
		}
		if rows++; !bytes.Equal(x, want[k]) {
			return errDiffers{fmt.Errorf("row %d differs", k)}
		}
		return nil
	})
	_ = s.Close()
	if err == nil && rows != len(want) {
		err = errDiffers{fmt.Errorf("%d rows instead of %d", rows, len(want))}
	}
	return err
}

func TestEveryConnectionReadsWhatWasCommitted(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c, path := openWriter(t, vfstest.Options{}, "cache_size(3)", "wal_autocheckpoint(50)")
			other := beside(t, path)
			d := &deeds{c, rand.New(rand.NewPCG(seed, 1)), map[int64][]byte{}}
			for range 60 {
				must(t, d.transaction())
				must(t, d.compare(other, d.table))
			}
			var verdict string
			if err := scan(t, other, `PRAGMA integrity_check`, &verdict); err != nil || verdict != "ok" {
				t.Error(verdict, err)
			}
		})
	}
}

func TestAfterAFailedWriteNothingElseIsRead(t *testing.T) {
	failed, seeds := 0, long.Or(uint64(9), 60) // three calls fail in three ways each
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			faults := &vfstest.Faults{}
			c, path := openWriter(t, vfstest.Options{Faults: faults}, "cache_size(3)", "wal_autocheckpoint(50)")
			other := beside(t, path)
			d := &deeds{c, rand.New(rand.NewPCG(seed, 2)), map[int64][]byte{}}
			faults.Arm(vfstest.Fault{
				Call: vfstest.Call(seed % 3), Nth: 1 + d.dice.IntN(30), Kind: vfstest.Kind(seed / 3 % 3),
				Sticky: seed%2 == 0,
			})
			for range 40 {
				err := d.transaction()
				if errors.As(err, new(errDiffers)) {
					t.Fatal(err)
				}
				if err != nil {
					failed++
					faults.Relieve()
				}
				must(t, d.compare(c, d.table))
				must(t, d.compare(other, d.table))
			}
		})
	}
	if failed < int(seeds/2) {
		t.Errorf("only %d transactions have failed", failed)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
