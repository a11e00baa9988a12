package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/migrations"
)

// schema is the text of everything that a migration makes.
func schema(t *testing.T, path string) []string {
	t.Helper()
	return sideQuery(t, path, `SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name`)
}

func TestMigrationsGoUpDownAndUpToTheSameSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	up := func() { must(t, migrateTo(t.Context(), path, migrations.FS, SchemaVersion())) }
	up()
	first := schema(t, path)
	must(t, migrateTo(t.Context(), path, migrations.FS, 0))
	for _, line := range schema(t, path) {
		if !strings.Contains(line, "goose_db_version") && !strings.Contains(line, "sqlite_sequence") {
			t.Errorf("the way down leaves %s", line)
		}
	}
	up()
	if again := schema(t, path); !slices.Equal(first, again) {
		t.Errorf("the schema is\n%s\nand was\n%s", strings.Join(again, "\n"), strings.Join(first, "\n"))
	}
}

func TestEveryTableIsStrict(t *testing.T) {
	dir := t.TempDir()
	wholeDatabase(t, dir)
	loose := sideQuery(t, dir, `SELECT name FROM pragma_table_list WHERE type = 'table' AND strict = 0
		AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version'`)
	if len(loose) > 0 {
		t.Errorf("not strict: %v", loose)
	}
}

// later are the real migrations and one more.
func later(t *testing.T, statement string) fstest.MapFS {
	t.Helper()
	all := onlySteps(t)
	all["9999_later.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + statement +
		"\n-- +goose Down\nDROP TABLE later;\n")}
	return all
}

func backups(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "backups", "*"))
	must(t, err)
	return found
}

func TestAMigrationOfExistingDataMakesABackupFirst(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	wholeDatabase(t, dir)
	before := schema(t, path)
	must(t, migrate(t.Context(), path, later(t, "CREATE TABLE later (x INTEGER) STRICT;"), zerolog.Nop()))
	if n := count(t, path, "later"); n != 0 {
		t.Fatalf("the new table has %d rows", n)
	}
	made := backups(t, dir)
	if len(made) != 1 {
		t.Fatalf("the backups are %v", made)
	}
	if got := schema(t, made[0]); !slices.Equal(got, before) {
		t.Errorf("the backup has the schema %v", got)
	}
	if n := count(t, made[0], "message_queue"); n != 3 {
		t.Errorf("the backup has %d messages", n)
	}
	if info, err := os.Stat(made[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup's mode: %v %v", info.Mode(), err)
	}
}

func TestANewDatabaseNeedsNoBackup(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time there is nothing to migrate
		wholeDatabaseOnce(t, dir)
	}
	if made := backups(t, dir); len(made) > 0 {
		t.Errorf("the backups are %v", made)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.part*")); err != nil || len(left) > 0 {
		t.Errorf("beside the new database stay %v, %v", left, err)
	}
}

func wholeDatabaseOnce(t *testing.T, dir string) {
	t.Helper()
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	must(t, db.Close())
}

func TestAFailingBackupStopsTheMigration(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	wholeDatabase(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, "backups"), []byte("in the way"), 0o600))
	before := fingerprint(t, dir)
	err := migrate(t.Context(), path, later(t, "CREATE TABLE later (x INTEGER) STRICT;"), zerolog.Nop())
	if err == nil || corebot.HintOf(err) != "nothing was migrated" {
		t.Fatalf("got %v with the hint %q", err, corebot.HintOf(err))
	}
	if fingerprint(t, dir) != before {
		t.Error("the file was changed")
	}
}

func TestAFailingMigrationLeavesTheDataAsItWas(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	wholeDatabase(t, dir)
	before := schema(t, path)
	if err := migrate(t.Context(), path, later(t, "CREATE TABLE later (x INTEGER) STRICT; DROP TABLE no_such_table;"),
		zerolog.Nop()); err == nil {
		t.Fatal("no error")
	}
	if after := schema(t, path); !slices.Equal(after, before) {
		t.Errorf("the schema is %v", after)
	}
	db := openTest(t, dir) // the older program goes on
	claimTest(t, db)
}

func TestADamagedBackupIsNoticed(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, FileName), filepath.Join(dir, "copy.db")
	wholeDatabase(t, dir)
	must(t, makeBackup(t.Context(), path, to))
	// A row that its index does not know: every page can be read, and only the integrity check sees it.
	root := sideQuery(t, to, `SELECT rootpage FROM sqlite_schema WHERE name = 'message_life_key'`)[0]
	page := 0
	_, err := fmt.Sscan(root, &page)
	must(t, err)
	b, err := os.ReadFile(to)
	must(t, err)
	b[(page-1)*4096+4]-- // the number of entries in the index, low byte
	must(t, os.WriteFile(to, b, 0o600))
	if err := verify(t.Context(), path, to); err == nil {
		t.Error("a damaged backup was taken for good")
	}
}

func TestABackupIsCheckedAndNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	db := openTest(t, dir)
	publishTest(t, db, "chat", "1")
	to := filepath.Join(dir, "copies", "one.db")
	must(t, makeBackup(t.Context(), path, to)) // beside a running writer
	if n := count(t, to, "message_queue"); n != 1 {
		t.Errorf("the backup has %d messages", n)
	}
	if err := makeBackup(t.Context(), path, to); err == nil {
		t.Error("a backup was overwritten")
	}
	must(t, verify(t.Context(), path, to))
	sideQuery(t, to, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (77, 1)`)
	if err := verify(t.Context(), path, to); err == nil {
		t.Error("a backup of another schema was taken for good")
	}
	left, err := filepath.Glob(filepath.Join(dir, "copies", "*.part"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v %v", left, err)
	}
}

// A newer program is this one with a further migration, which changes what is there.
func TestTheCopyFromBeforeAnUpgradeIsTheHomeOfTheProgramFromBefore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	wholeDatabase(t, dir)
	waiting := sideQuery(t, path, keeps["message_queue"])
	must(t, migrate(t.Context(), path, later(t, "CREATE TABLE later (x INTEGER) STRICT; DELETE FROM message_queue;"),
		zerolog.Nop()))
	var newer *NewerError
	if _, err := Open(t.Context(), dir, Options{}); !errors.As(err, &newer) || newer.Has != 9999 {
		t.Fatalf("the program from before opens the database: %v", err)
	}
	if _, err := Restore(t.Context(), dir, backups(t, dir)[0], nil); err != nil {
		t.Fatal(err)
	}
	if got := sideQuery(t, path, keeps["message_queue"]); len(got) == 0 || !slices.Equal(got, waiting) {
		t.Errorf("waiting are %q, and were %q", got, waiting)
	}
	db := openTest(t, dir)
	healthy(t, db)
	claimTest(t, db)
}
