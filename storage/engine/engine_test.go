package engine

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot/storage/seedtest"
)

func TestMain(m *testing.M) { seedtest.Main(m) }

func openTest(tb testing.TB, statements ...string) *Conn {
	tb.Helper()
	c, err := Open("file:"+filepath.Join(tb.TempDir(), "test.db"),
		[]string{"journal_mode(WAL)", "synchronous(FULL)"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	for _, s := range statements {
		exec(tb, c, s)
	}
	return c
}

func prepare(tb testing.TB, c *Conn, sql string) *Stmt {
	tb.Helper()
	s, err := c.Prepare(sql)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() }) // gives the error of its last run again
	return s
}

func exec(tb testing.TB, c *Conn, sql string, args ...any) int64 {
	tb.Helper()
	n, err := prepare(tb, c, sql).Exec(args...)
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return n
}

func scan(tb testing.TB, c *Conn, sql string, dest ...any) error {
	tb.Helper()
	rows := 0
	err := prepare(tb, c, sql).Query(func(s *Stmt) error {
		rows++
		return s.Scan(dest...)
	})
	if err == nil && rows != 1 {
		tb.Fatalf("%s gave %d rows", sql, rows)
	}
	return err
}

func TestEveryTypeComesBackAsItWentIn(t *testing.T) {
	c := openTest(t,
		`CREATE TABLE t (i INTEGER, j INTEGER, b INTEGER, at INTEGER, s TEXT, e TEXT, x BLOB, y BLOB, z BLOB,
			n INTEGER) STRICT`)
	at := time.UnixMilli(1_700_000_000_123)
	exec(t, c, `INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(-1<<63), 42, true, at, "zoë\x00\u2028", "", []byte{0, 255}, []byte{}, []byte(nil), nil)
	var i, n, ms int64
	var j int
	var b bool
	var s, e string
	var x, y, z []byte
	if err := scan(t, c, `SELECT * FROM t`, &i, &j, &b, &ms, &s, &e, &x, &y, &z, &n); err != nil {
		t.Fatal(err)
	}
	var no, some *int64
	if err := scan(t, c, `SELECT n, j FROM t`, &no, &some); err != nil || no != nil || some == nil || *some != 42 {
		t.Fatal(no, some, err)
	}
	var seen []byte
	if err := scan(t, c, `SELECT x FROM t`, func(b []byte) { seen = bytes.Clone(b) }); err != nil ||
		!bytes.Equal(seen, x) {
		t.Fatal(seen, err)
	}
	if err := scan(t, c, `SELECT s FROM t`, func([]byte) {}); err == nil {
		t.Error("a text is looked at as a blob")
	}
	if i != -1<<63 || j != 42 || !b || ms != at.UnixMilli() || s != "zoë\x00\u2028" || e != "" || n != 0 ||
		!bytes.Equal(x, []byte{0, 255}) || y == nil || len(y) != 0 || z != nil {
		t.Fatal(i, j, b, ms, s, e, x, y, z, n)
	}
}

func TestTheZeroTimeIsStoredAsZero(t *testing.T) {
	if Millis(time.Time{}) != 0 || Millis(time.UnixMilli(-5)) != -5 {
		t.Fatal("a time is stored as another")
	}
}

func TestARowThatDoesNotFitItsPlacesIsAnError(t *testing.T) {
	c := openTest(t)
	var s string
	var i int64
	var x []byte
	var b bool
	for sql, dest := range map[string]any{
		`SELECT 1`: &s, `SELECT NULL`: &s, `SELECT 'a'`: &i, `SELECT 'b'`: &x, `SELECT 1.5`: &i,
		`SELECT NULL || ''`: &b, `SELECT 2`: 7,
	} {
		if err := scan(t, c, sql, dest); err == nil {
			t.Errorf("%s went into %T", sql, dest)
		}
	}
	if err := scan(t, c, `SELECT 1, 2`, &i); err == nil {
		t.Error("two columns went into one place")
	}
}

func TestChangedRowsAreCounted(t *testing.T) {
	c := openTest(t, `CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT UNIQUE)`)
	insert := prepare(t, c, `INSERT INTO t (v) VALUES (?) ON CONFLICT (v) DO NOTHING`)
	for i, want := range []int64{1, 1, 0} {
		if n, err := insert.Exec([]string{"a", "b", "a"}[i]); err != nil || n != want {
			t.Fatalf("insert %d: %d rows, %v", i, n, err)
		}
	}
	if id := c.LastInsertID(); id != 2 {
		t.Errorf("the last row is %d", id)
	}
	if n := exec(t, c, `UPDATE t SET v = v || 'x'`); n != 2 {
		t.Errorf("%d rows were updated", n)
	}
}

func TestAFailureHasItsCodeAndLeavesTheStatementUsable(t *testing.T) {
	c := openTest(t, `CREATE TABLE t (k TEXT PRIMARY KEY)`)
	insert := prepare(t, c, `INSERT INTO t VALUES (?)`)
	for _, want := range []bool{true, false} {
		_, err := insert.Exec("a")
		var e *Error
		if want != (err == nil) || err != nil && (!errors.As(err, &e) ||
			e.Code() != sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY) {
			t.Fatalf("got %v", err)
		}
	}
	if n, err := insert.Exec("b"); err != nil || n != 1 {
		t.Fatalf("after the failure: %d, %v", n, err)
	}
}

func TestAnErrorOfTheCallerEndsTheQuery(t *testing.T) {
	c := openTest(t)
	s := prepare(t, c, `VALUES (1), (2), (3)`)
	calls, stop := 0, errors.New("enough")
	for range 2 { // and it can be run again
		if err := s.Query(func(*Stmt) error { calls++; return stop }); !errors.Is(err, stop) {
			t.Fatalf("got %v", err)
		}
	}
	if calls != 2 {
		t.Fatalf("%d rows were read", calls)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	c := openTest(t)
	s := prepare(t, c, `SELECT ?, ?`)
	for _, args := range [][]any{nil, {1}, {1, 2, 3}, {1, 2.5}, {struct{}{}, 1}} {
		if err := s.Query(func(*Stmt) error { return nil }, args...); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestOnlyOneStatementIsPrepared(t *testing.T) {
	c := openTest(t)
	for _, sql := range []string{"", " -- nothing", "SELECT 1; SELECT 2", "SELEC 1"} {
		if s, err := c.Prepare(sql); err == nil {
			_ = s.Close()
			t.Errorf("%q was prepared", sql)
		}
	}
}

func TestAFileThatCannotBeOpenedIsAnError(t *testing.T) {
	var e *Error
	if _, err := Open("file:"+filepath.Join(t.TempDir(), "no", "such", "dir.db"), nil); !errors.As(err, &e) ||
		e.Code()&0xff != sqlite3.SQLITE_CANTOPEN {
		t.Errorf("got %v", err)
	}
	if _, err := Open("file:"+filepath.Join(t.TempDir(), "x.db"), []string{"no pragma at all ("}); err == nil {
		t.Error("nonsense was taken for a pragma")
	}
}

func TestALargeArgumentIsNotKept(t *testing.T) {
	c := openTest(t)
	s := prepare(t, c, `SELECT length(?)`)
	for _, size := range []int{1, 10 * keep, 3} {
		var n int
		if err := s.Query(func(s *Stmt) error { return s.Scan(&n) }, strings.Repeat("x", size)); err != nil ||
			n != size {
			t.Fatalf("%d bytes: %d, %v", size, n, err)
		}
		if s.text.size > keep {
			t.Fatalf("%d bytes are kept", s.text.size)
		}
	}
}

func TestARunAllocatesNothingForItsArguments(t *testing.T) {
	c := openTest(t, `CREATE TABLE t (k INTEGER PRIMARY KEY, s TEXT, x BLOB)`)
	s := prepare(t, c, `INSERT INTO t (s, x) VALUES (?, ?)`)
	text, blob := strings.Repeat("x", 100), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := s.Exec(text, blob); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a run", n)
	}
}

func FuzzTextAndBytesComeBackAsTheyWentIn(f *testing.F) {
	c := openTest(f)
	s := prepare(f, c, `SELECT ?, ?`)
	f.Add("", []byte{})
	f.Add("a\x00b\xff", []byte{0})
	f.Fuzz(func(t *testing.T, text string, blob []byte) {
		var gotText string
		var gotBlob []byte
		err := s.Query(func(s *Stmt) error { return s.Scan(&gotText, &gotBlob) }, text, blob)
		if err != nil || gotText != text || !bytes.Equal(gotBlob, blob) {
			t.Fatalf("%q %q came back as %q %q, %v", text, blob, gotText, gotBlob, err)
		}
	})
}

func BenchmarkInsert(b *testing.B) {
	c := openTest(b, `CREATE TABLE t (k INTEGER PRIMARY KEY, s TEXT, x BLOB)`, `BEGIN`)
	s := prepare(b, c, `INSERT INTO t (s, x) VALUES (?, ?)`)
	text, blob := strings.Repeat("x", 40), make([]byte, 512)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Exec(text, blob); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuery(b *testing.B) {
	c := openTest(b, `CREATE TABLE t (k INTEGER PRIMARY KEY, s TEXT, n INTEGER)`,
		`INSERT INTO t VALUES (1, 'some text', 7)`)
	s := prepare(b, c, `SELECT k, s, n FROM t WHERE k = ?`)
	b.ReportAllocs()
	for b.Loop() {
		var k, n int64
		var text string
		if err := s.Query(func(s *Stmt) error { return s.Scan(&k, &text, &n) }, 1); err != nil {
			b.Fatal(err)
		}
	}
}
