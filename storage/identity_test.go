package storage

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/migrations"
)

// usedHome is a directory whose database was opened, used and closed, with two backups.
func usedHome(t *testing.T) (dir, path string) {
	t.Helper()
	dir = seeded(t)
	wholeDatabase(t, dir)
	path = filepath.Join(dir, FileName)
	must(t, os.Mkdir(filepath.Join(dir, backupsName), 0o700))
	// the newest is the one made last, not the last by name
	for i, name := range []string{"before-schema-9-x.db", "before-schema-2-y.db"} {
		backup := filepath.Join(dir, backupsName, name)
		replaceBy(t, backup, path)
		at := time.Now().Add(time.Duration(i-2) * time.Hour)
		must(t, os.Chtimes(backup, at, at))
	}
	return dir, path
}

// everything is what all files of a directory have in them.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" || strings.HasSuffix(path, "-shm") {
			return err
		}
		b, err := os.ReadFile(path)
		if len(b) > 0 || d.Name() == FileName { // SQLite leaves an empty log where it has read one that was empty
			all.WriteString(path + "\x00" + string(b) + "\x00")
		}
		return err
	}))
	return all.String()
}

// doors are the ways in which the database of a directory is opened.
func doors(t *testing.T, dir string) map[string]error {
	t.Helper()
	open := func(db *DB, err error) error {
		if err == nil {
			err = db.Close()
		}
		return err
	}
	_, vacuum := Vacuum(t.Context(), dir)
	db, err := Open(t.Context(), dir, Options{})
	reader, readErr := OpenReader(t.Context(), dir)
	return map[string]error{"Open": open(db, err), "OpenReader": open(reader, readErr), "Vacuum": vacuum}
}

// A home that had a database never goes on without it, and nothing is changed that could tell what became of it.
func TestAHomeRefusesToGoOnWithoutTheDatabaseThatItHad(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir, path string)
		says  string
	}{
		"missing": {
			func(t *testing.T, _, path string) { must(t, os.Remove(path)) },
			"is missing, and this home had a database",
		},
		"of zero bytes": {
			func(t *testing.T, _, path string) { must(t, os.Truncate(path, 0)) },
			"is empty, and this home had a database",
		},
		"cut off inside its header": {
			func(t *testing.T, _, path string) { must(t, os.Truncate(path, 60)) },
			"cut off after 60 bytes",
		},
		"cut off behind its header": {
			func(t *testing.T, _, path string) { must(t, os.Truncate(path, 4096)) },
			"damaged",
		},
		"empty, beside its log": {emptyBesideItsLog, "is empty, and this home had a database"},
		"empty, memory unreadable": {func(t *testing.T, dir, path string) {
			must(t, os.Truncate(path, 0))
			forget(t,
				dir, "{")
		}, "this home had a database"},
		"a database without tables": {
			replacedBy(`PRAGMA user_version = 7`),
			"has no tables, and this home had a database",
		},
		"of another program": {replacedBy(`CREATE TABLE songs (name TEXT)`), "another program"},
		"of another home": {
			func(t *testing.T, _, path string) { replaceBy(t, path, otherDatabase(t)) },
			"is the database of another home",
		},
		"of another home, older": {
			func(t *testing.T, _, path string) { replaceBy(t, path, olderDatabase(t, 1)) },
			"is the database of another home",
		},
		"empty, of an older version": {func(t *testing.T, dir, path string) {
			must(t, os.Truncate(path, 0))
			forget(t,
				dir, "")
		}, "before-schema-"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := usedHome(t)
			c.spoil(t, dir, path)
			before := everything(t, dir)
			for door, err := range doors(t, dir) {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want %q in it", door, err, c.says)
					continue
				}
				hint := corebot.HintOf(err)
				for _, want := range []string{"`corebot db restore " + filepath.Join(dir, backupsName,
					"before-schema-2-y.db") + "`", "`corebot db new`"} {
					if !strings.Contains(hint, want) {
						t.Errorf("%s: the hint of %v lacks %s: %s", door, err, want, hint)
					}
				}
			}
			if everything(t, dir) != before {
				t.Error("something was changed")
			}
		})
	}
}

// forget takes away what the home remembers, or writes something else in its place.
func forget(t *testing.T, dir, instead string) {
	t.Helper()
	path := filepath.Join(dir, rememberedName)
	if instead == "" {
		must(t, os.Remove(path))
		return
	}
	must(t, os.WriteFile(path, []byte(instead), 0o600))
}

// emptyBesideItsLog empties the file of a database that was killed: what was written last is in its log, which SQLite
// would delete.
func emptyBesideItsLog(t *testing.T, dir, path string) {
	t.Helper()
	must(t, os.Truncate(path, 0))
	must(t, os.WriteFile(path+"-wal", []byte("frames"), 0o600))
	forget(t, dir, "")
}

func replaceBy(t *testing.T, path, other string) {
	t.Helper()
	b, err := os.ReadFile(other)
	must(t, err)
	must(t, os.WriteFile(path, b, 0o600))
}

func replacedBy(statement string) func(*testing.T, string, string) {
	return func(t *testing.T, _, path string) {
		must(t, os.Remove(path))
		sideQuery(t, path, statement)
	}
}

func otherDatabase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	wholeDatabase(t, dir)
	return filepath.Join(dir, FileName)
}

// olderDatabase is one of an older schema that was made at a time, in seconds.
func olderDatabase(t *testing.T, madeAt int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	must(t, migrateTo(t.Context(), path, migrations.FS, 15))
	sideQuery(t, path, `UPDATE store SET created_at = ?`, madeAt*1000)
	return path
}

// Homes of older versions remember nothing, but leave other traces.
func TestTracesOfAnOlderVersionTellThatThereWasADatabase(t *testing.T) {
	for name, content := range map[string]string{
		FileName + "-wal": "frames", ballastName: "x", backupsName + "/b/manifest.json": "",
		backupsName + "/b.db": "", asidePrefix + "1/" + FileName: "", "../" + auditKeyName: "",
	} {
		dir := filepath.Join(t.TempDir(), "data")
		must(t, os.Mkdir(dir, 0o700))
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(content), 0o600))
		for door, err := range doors(t, dir) {
			if err == nil || !strings.Contains(err.Error(), "this home had a database ("+filepath.Base(path)) {
				t.Errorf("%s beside %s: %v", door, name, err)
			}
		}
	}
}

func rememberedBy(t *testing.T, dir string) (i identity) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, rememberedName))
	must(t, err)
	must(t, json.Unmarshal(b, &i))
	return i
}

func TestAHomeRemembersItsDatabaseFromTheFirstStart(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenReader(t.Context(), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new home: %v", err)
	}
	wholeDatabase(t, dir)
	first := rememberedBy(t, dir)
	if stored := sideQuery(t, dir, `SELECT identity FROM store`); stored[0] != first.ID || len(first.ID) != 36 ||
		first.ID[14] != '7' {
		t.Errorf("remembered is %+v, stored %q", first, stored)
	}
	wholeDatabase(t, dir)
	if again := rememberedBy(t, dir); again != first {
		t.Errorf("after another start it is %+v, was %+v", again, first)
	}
}

// Starts that were cut short, homes of older versions, copies of homes: what has a whole database goes on with it.
func TestAWholeDatabaseIsAdoptedWhereNothingElseIsRemembered(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir, path string){
		"cut short before the memory was written": func(t *testing.T, dir, _ string) { forget(t, dir, "") },
		"cut short before the database had an id": func(t *testing.T, dir, path string) {
			forget(t, dir, "")
			sideQuery(t, path, `UPDATE store SET identity = ''`)
		},
		"a memory that cannot be read": func(t *testing.T, dir, _ string) { forget(t, dir, "\x00\x00") },
		"a database of an older version": func(t *testing.T, dir,
			path string,
		) {
			forget(t, dir, "")
			replaceBy(t, path, olderDatabase(t, 5))
		},
		"its newest backup, put in by hand": func(t *testing.T, dir,
			path string,
		) {
			replaceBy(t, path, newestBackup(dir))
		},
		"a backup from before there were ids": func(t *testing.T, dir, path string) {
			replaceBy(t, path, olderDatabase(t, rememberedBy(t, dir).CreatedAt/1000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := usedHome(t)
			before := rememberedBy(t, dir)
			change(t, dir, path)
			db, err := Open(t.Context(), dir, Options{})
			must(t, err)
			must(t, db.Close())
			now := rememberedBy(t, dir)
			if stored := sideQuery(t, path, `SELECT identity FROM store`)[0]; now.ID == "" || stored != now.ID {
				t.Errorf("remembered is %+v, stored %q", now, stored)
			}
			if strings.Contains(name, "backup") && now != before {
				t.Errorf("the home takes its own backup for another database: %+v, was %+v", now, before)
			}
		})
	}
}

// A first start that was cut short at its worst moment leaves a home that is new.
func TestAFirstStartThatWasCutShortBeginsAnew(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, dir string){
		"an empty directory": func(*testing.T, string) {},
		"half a database": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, FileName+".part"), []byte("half"), 0o600))
		},
		"an empty file": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, FileName), nil,
				0o600))
		},
		"half a memory": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, rememberedName+".part"), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			leave(t, dir)
			wholeDatabase(t, dir)
			if n := count(t, dir, "message_life"); n != 3 {
				t.Errorf("%d messages", n)
			}
		})
	}
}

func TestRestoreGoesOnWithABackupAndKeepsWhatWasThere(t *testing.T) {
	dir, path := usedHome(t)
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	stop := runWriter(db)
	publishTest(t, db, "chat", "after the backup")
	stop()
	must(t, db.Close())
	must(t, os.WriteFile(path+"-wal", nil, 0o600))
	before, err := os.ReadFile(path)
	must(t, err)
	restored, err := Restore(t.Context(), dir, newestBackup(dir), nil)
	must(t, err)
	if kept, err := os.ReadFile(filepath.Join(restored.Aside, FileName)); err != nil || string(kept) != string(before) {
		t.Errorf("what was there is not what is kept (%v)", err)
	}
	for door, err := range doors(t, dir) {
		if err != nil {
			t.Errorf("%s: %v", door, err)
		}
	}
	if n := count(t, dir, "message_life"); n != 3 {
		t.Errorf("%d messages, want the three of the backup", n)
	}
}

func TestRestoreRefusesWhatIsNoDatabaseOfCorebotAndChangesNothing(t *testing.T) {
	dir, path := usedHome(t)
	elsewhere := t.TempDir()
	empty, songs, newer := filepath.Join(elsewhere, "empty.db"), filepath.Join(elsewhere, "songs.db"),
		filepath.Join(elsewhere, "newer.db")
	must(t, os.WriteFile(empty, nil, 0o600))
	sideQuery(t, songs, `CREATE TABLE songs (name TEXT)`)
	replaceBy(t, newer, path)
	sideQuery(t, newer, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)`, SchemaVersion()+1)
	cut := filepath.Join(elsewhere, "cut.db")
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(cut, b[:len(b)-3*4096], 0o600))
	before := everything(t, dir)
	for _, from := range []string{empty, songs, newer, cut, filepath.Join(elsewhere, "nothing.db"), elsewhere} {
		if restored, err := Restore(t.Context(), dir, from, nil); err == nil || restored.Aside != "" {
			t.Errorf("%s: %q, %v", from, restored.Aside, err)
		}
	}
	if everything(t, dir) != before {
		t.Error("something was changed")
	}
}

// The file that lies in the database's place may be what the operator wants to go on with.
func TestRestoreTakesTheFileThatIsInPlace(t *testing.T) {
	dir, path := usedHome(t)
	replaceBy(t, path, otherDatabase(t))
	other := sideQuery(t, path, `SELECT identity FROM store`)[0]
	restored, err := Restore(t.Context(), dir, path, nil)
	must(t, err)
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	must(t, db.Close())
	if now := rememberedBy(t, dir); now.ID != other || restored.Aside == "" {
		t.Errorf("remembered is %+v, want %s; aside %q", now, other, restored.Aside)
	}
}

func TestBeginAnewKeepsTheOldDatabaseAside(t *testing.T) {
	dir, path := usedHome(t)
	must(t, os.Truncate(path, 0))
	aside, err := BeginAnew(t.Context(), dir)
	must(t, err)
	for _, name := range []string{FileName, rememberedName} {
		if _, err := os.Stat(filepath.Join(aside, name)); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		db, err := Open(t.Context(), dir, Options{Log: zerolog.Nop()})
		must(t, err)
		must(t, db.Close())
	}
	if n := count(t, dir, "message_life"); n != 0 {
		t.Errorf("%d messages in a new database", n)
	}
}
