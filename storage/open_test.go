package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// wholeDatabase makes a database with some messages in it and closes it.
func wholeDatabase(t *testing.T, dir string) {
	t.Helper()
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- db.Run(ctx) }()
	for _, id := range []string{"1", "2", "3"} {
		publishTest(t, db, "chat", id)
	}
	stop()
	must(t, errors.Join(<-ended, db.Close()))
}

func TestOpenRefusesWhatItMustNotTouchAndLeavesEveryByte(t *testing.T) {
	overwrite := func(content string) func(*testing.T, string) {
		return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(content), 0o600)) }
	}
	changed := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			wholeDatabase(t, filepath.Dir(path))
			b, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, change(b), 0o600))
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		says  string
	}{
		"a text file": {
			overwrite("Dear diary, this is a long text and surely not a database.\n"),
			"not a SQLite database",
		},
		"a file of one byte":        {overwrite("S"), "not a SQLite database"},
		"a header and nothing else": {overwrite(string(header)), "damaged"},
		"a header and garbage":      {overwrite(string(header) + strings.Repeat("garbage!", 1000)), "damaged"},
		"a directory": {
			func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
			"not a regular file",
		},
		"another program's database": {func(t *testing.T, path string) {
			sideQuery(t, path,
				`CREATE TABLE songs (name TEXT)`)
		}, "another program"},
		"a database cut short": {changed(func(b []byte) []byte { return b[:4096] }), "damaged"},
		"a database with a broken schema": {changed(func(b []byte) []byte {
			copy(b[100:],
				bytes.Repeat([]byte{0xa5}, 3000))
			return b
		}), "damaged"},
		"a database with a broken page": {changed(func(b []byte) []byte {
			for page := 1; page < len(b)/4096; page++ {
				copy(b[page*4096:], bytes.Repeat([]byte{0xa5}, 64))
			}
			return b
		}), "damaged"},
		"a newer schema": {func(t *testing.T, path string) {
			wholeDatabase(t, filepath.Dir(path))
			sideQuery(t, path, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)`, SchemaVersion()+1)
		}, "schema"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			c.spoil(t, path)
			before := fingerprint(t, dir)
			for _, open := range []func() (*DB, error){
				func() (*DB, error) { return Open(t.Context(), dir, Options{}) },
				func() (*DB, error) { return OpenReader(t.Context(), dir) },
			} {
				db, err := open()
				if err == nil {
					if db.conn == nil && name == "a database with a broken page" {
						_ = db.Close()
						continue // a reader need not look at every page
					}
					t.Fatal("opened", db.Close())
				}
				if !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error says %q, want %q in it", err, c.says)
				}
				if corebot.HintOf(err) == "" {
					t.Errorf("no hint with %q", err)
				}
			}
			if after := fingerprint(t, dir); after != before {
				t.Error("the file was changed")
			}
		})
	}
}

// fingerprint hashes the database's file, or says that it is a directory.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, FileName)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "directory"
	}
	b, err := os.ReadFile(path)
	must(t, err)
	sum := sha256.Sum256(b)
	return string(sum[:])
}

func TestANewerSchemaIsNamed(t *testing.T) {
	dir := t.TempDir()
	wholeDatabase(t, dir)
	sideQuery(t, dir, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)`, SchemaVersion()+7)
	_, err := Open(t.Context(), dir, Options{})
	var newer *NewerError
	if !errors.As(err, &newer) || newer.Has != SchemaVersion()+7 || newer.Knows != SchemaVersion() {
		t.Fatalf("got %v", err)
	}
}

func TestAHomeThatCannotBeWrittenSaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{filepath.Join(file, "home"), file, "/proc/corebot"} {
		_, err := Open(t.Context(), dir, Options{})
		if err == nil || !strings.Contains(corebot.HintOf(err), "--home") {
			t.Errorf("%s: %v (hint %q)", dir, err, corebot.HintOf(err))
		}
	}
}

func TestAMissingDatabaseIsNoReaders(t *testing.T) {
	_, err := OpenReader(t.Context(), t.TempDir())
	if !errors.Is(err, os.ErrNotExist) || corebot.HintOf(err) == "" {
		t.Fatalf("got %v", err)
	}
}

func TestAReaderBesideADaemonReadsAndNeverWrites(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	publishTest(t, db, "chat", "1")
	reader, err := OpenReader(t.Context(), dir)
	must(t, err)
	defer reader.Close() //nolint:errcheck // read only
	lives, err := NewLives(reader).Find(t.Context(), "1")
	if err != nil || len(lives) != 1 {
		t.Fatalf("found %v, %v", lives, err)
	}
	_, err = NewQueue(reader).Publish(t.Context(), []corebot.Message{testMessage("chat", "2")}, corebot.Limits{})
	if !errors.Is(err, corebot.ErrClosed) {
		t.Fatalf("a reader published: %v", err)
	}
	if _, err := reader.reader.one(t.Context(), &query{`DELETE FROM message_queue RETURNING 1`},
		[]any{new(int64)}); err == nil {
		t.Fatal("a reader's connection can write")
	}
	publishTest(t, db, "chat", "2")
}

func TestADirectoryWithStrangeLettersIsAPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a?mode=ro#b%20c ü")
	wholeDatabase(t, dir)
	if n := len(sideQuery(t, dsn(filepath.Join(dir, FileName), nil), `SELECT 1 FROM message_life`)); n != 3 {
		t.Fatalf("%d messages are where they belong", n)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	openTest(t, dir)
	for name, want := range map[string]os.FileMode{
		"": 0o700, FileName: 0o600, FileName + "-wal": 0o600,
		"lock": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%q has mode %o, want %o", name, got, want)
		}
	}
}

func TestASecondOpenIsToldWhoHoldsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	_, err = Open(t.Context(), dir, Options{})
	var held *LockError
	if !errors.As(err, &held) || held.PID != os.Getpid() || held.Dir != dir || corebot.HintOf(err) == "" {
		t.Fatalf("got %v", err)
	}
	must(t, db.Close())
	db, err = Open(t.Context(), dir, Options{})
	must(t, err)
	must(t, db.Close())
}

// holdVariable makes a run of this test binary a process that holds a data directory until it is killed.
const holdVariable = "COREBOT_TEST_HOLD"

func TestAnotherProcessHoldsTheDirectoryUntilItDies(t *testing.T) {
	if dir := os.Getenv(holdVariable); dir != "" {
		hold(t, dir)
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestAnotherProcessHoldsTheDirectoryUntilItDies$")
	child.Env = append(os.Environ(), holdVariable+"="+dir)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	defer child.Process.Kill() //nolint:errcheck // it is dead by then, unless the test failed
	if _, err := io.ReadFull(out, make([]byte, len("held"))); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), dir, Options{})
	var held *LockError
	if !errors.As(err, &held) || held.PID != child.Process.Pid {
		t.Fatalf("got %v, want process %d", err, child.Process.Pid)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	db := openTest(t, dir)
	if d := claimTest(t, db); d.Message.ID != "1" || d.Lost != 1 {
		t.Fatalf("the claim of the killed process came back as %+v", d)
	}
}

// hold claims a message and waits to be killed.
func hold(t *testing.T, dir string) {
	db := openTest(t, dir)
	publishTest(t, db, "chat", "1")
	claimTest(t, db)
	_, err := os.Stdout.WriteString("held")
	must(t, err)
	time.Sleep(time.Hour)
}
