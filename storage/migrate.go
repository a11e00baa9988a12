package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/migrations"
)

// SchemaVersion is the newest schema that this program knows.
func SchemaVersion() int64 { return ownVersion() }

var ownVersion = sync.OnceValue(func() int64 { return newestVersion(migrations.FS) })

func newestVersion(migrations fs.FS) int64 {
	return slices.Max(append(versions(migrations), 0))
}

// versions are the numbers of migrations, in order.
func versions(migrations fs.FS) (known []int64) {
	names, _ := fs.Glob(migrations, "*.sql") // the pattern is right, so Glob has no error
	for _, name := range names {
		// to goose, a file without a number is no migration either
		if v, err := goose.NumericComponent(name); err == nil {
			known = append(known, v)
		}
	}
	slices.Sort(known)
	return known
}

// NewerError says that the database was written by a newer Corebot.
type NewerError struct{ Has, Knows int64 }

func (e *NewerError) Error() string {
	if e.Has < e.Knows {
		return fmt.Sprintf("the database has the migration %d, which this Corebot does not know", e.Has)
	}
	return fmt.Sprintf("the database has schema %d, this Corebot knows up to %d", e.Has, e.Knows)
}

// schemaVersion reads the version of a file without changing the file; 0: the file is missing or empty.
func schemaVersion(path string, migrations fs.FS) (version int64, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return 0, nil
	}
	c, err := openToInspect(path)
	if err != nil {
		return 0, err
	}
	version, err = c.version(path, migrations)
	_ = c.Close() // it has only read, and says its last error again
	return version, err
}

var (
	countTables = &query{`SELECT COUNT(*), COUNT(*) FILTER (WHERE name = 'goose_db_version') FROM sqlite_schema
		WHERE type = 'table'`}
	selectVersions = &query{`SELECT DISTINCT version_id FROM goose_db_version ORDER BY version_id`}
)

// version is schemaVersion for a file that is open and not empty. Migrations that were written beside each other do not
// come to builds in the order of their numbers. So a database can lack a migration between those that it has. Its
// version is then the last one before the gap.
func (c *prepared) version(path string, migrations fs.FS) (int64, error) {
	var tables, ours int
	err := c.each(countTables, func(s scanner) error { return s.Scan(&tables, &ours) })
	switch {
	case err != nil:
		return 0, classify(err)
	case tables == 0: // the process that created it died before its first migration
		return 0, nil
	case ours == 0:
		return 0, corebot.WithHint(fmt.Errorf("%s is a SQLite database of another program", path),
			"it was not changed; choose another home with --home; "+wayBack(filepath.Dir(path)))
	}
	var has []int64
	err = c.each(selectVersions, func(s scanner) error {
		var v int64
		err := s.Scan(&v)
		has = append(has, v)
		return err
	})
	if err != nil {
		return 0, classify(err)
	}
	return appliedVersion(has, versions(migrations))
}

// appliedVersion is the last of the known migrations up to which a database has all. If it has one that is newer than
// all known ones, that is its version; one that is unknown between known ones is a [NewerError].
func appliedVersion(has, known []int64) (version int64, err error) {
	if len(has) == 0 {
		return 0, nil
	}
	newest := slices.Max(append(known, 0))
	if last := has[len(has)-1]; last > newest {
		return last, nil
	}
	for _, v := range has {
		if _, ok := slices.BinarySearch(known, v); !ok && v != 0 { // goose begins with 0
			return 0, newer(v, newest)
		}
	}
	for _, v := range known {
		if _, ok := slices.BinarySearch(has, v); !ok {
			break
		}
		version = v
	}
	return version, nil
}

// openCurrent opens the database of a data directory only for reading. It refuses one that has another version than
// this program's. A directory without a database is [fs.ErrNotExist].
func openCurrent(dir string) (*prepared, error) {
	version, _, c, err := inspect(dir)
	if err != nil {
		return nil, err
	}
	switch knows := SchemaVersion(); {
	case version == 0:
		return nil, corebot.WithHint(fmt.Errorf("open the database: %s: %w", filepath.Join(dir, FileName),
			fs.ErrNotExist), "there is no database yet: start Corebot once with this home")
	case version < knows:
		_ = c.Close() // it has only read
		return nil, corebot.WithHint(fmt.Errorf("the database has schema %d, this Corebot needs %d", version, knows),
			"run `corebot db migrate`, or start Corebot once")
	}
	return c, nil
}

// checkVersion refuses what openCurrent refuses.
func checkVersion(dir string) error {
	c, err := openCurrent(dir)
	return errors.Join(err, c.Close())
}

func newer(has, knows int64) error {
	return corebot.WithHint(&NewerError{Has: has, Knows: knows}, "the file was not changed; run the newer Corebot, "+
		"or go back to a backup from before the upgrade with `corebot db restore FILE`")
}

// migrate brings the file to the newest schema. It backs up existing data first and checks the backup. For a file with
// the newest schema it costs one read.
func migrate(ctx context.Context, path string, migrations fs.FS, log zerolog.Logger) error {
	version, err := schemaVersion(path, migrations)
	if err != nil {
		return err
	}
	knows := newestVersion(migrations)
	switch {
	case version > knows:
		return newer(version, knows)
	case version == knows:
		return nil
	case version == 0 && !hasContent(path):
		return create(ctx, path, migrations, knows)
	case version > 0:
		name := fmt.Sprintf("before-schema-%d-%s.db", version+1, time.Now().UTC().Format("20060102T150405.000Z"))
		backup := filepath.Join(filepath.Dir(path), backupsName, name)
		if err := makeBackup(ctx, path, backup); err != nil {
			return corebot.WithHint(fmt.Errorf("back up the database before its migration: %w", err),
				"nothing was migrated")
		}
		log.Info().Str("backup", backup).Int64("from", version).Int64("to", knows).Msg("migrating the database")
	}
	return migrateTo(ctx, path, migrations, knows)
}

// create makes a new database under another name and renames it when it is whole and on disk. So a power cut leaves no
// half database, which nobody could tell from a damaged one.
func create(ctx context.Context, path string, migrations fs.FS, version int64) error {
	part := path + ".part"
	for _, leftover := range []string{
		part, part + "-journal", part + "-wal", part + "-shm", path + "-journal",
		path + "-wal", path + "-shm",
	} {
		// the leftovers of an empty database must not be taken for the new one's
		if err := removeIfThere(leftover); err != nil {
			return fmt.Errorf("make the database: %w", err)
		}
	}
	if err := makeWhole(ctx, part, migrations); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	if has, err := schemaVersion(part, migrations); err != nil || has != version {
		if err := errors.Join(err, migrateTo(ctx, part, migrations, version)); err != nil {
			return err
		}
	}
	if hasContent(part + "-wal") {
		return fmt.Errorf("make the database: %s could not be written whole", part)
	}
	if err := putInPlace(part, path); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	// which a reader of the file under its first name leaves, and which are nobody's now
	if err := errors.Join(removeIfThere(part+"-wal"), removeIfThere(part+"-shm")); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	return nil
}

// makeWhole makes in one transaction what the migrations make one by one, as far as [wholeSchema] goes.
func makeWhole(ctx context.Context, path string, files fs.FS) error {
	statements, err := wholeSchema(files)
	if err != nil || statements == "" {
		return err
	}
	db, err := openToMigrate(path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "BEGIN IMMEDIATE;\n"+statements+"COMMIT;\n")
	return errors.Join(classify(err), db.Close())
}

// hasLine stands in the file of the whole schema for each migration that it has.
func hasLine(migration string) string { return "-- has " + migration + "\n" }

// wholeSchema gives the statements that make at once what the first migrations make. It is empty if there is no such
// file, and if the file lacks a migration that comes before its last one.
func wholeSchema(files fs.FS) (string, error) {
	text, err := fs.ReadFile(files, migrations.Whole)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	names, e := fs.Glob(files, "*.sql")
	if err := errors.Join(err, e); err != nil {
		return "", err
	}
	rest := string(text)
	for _, name := range names {
		if after, ok := strings.CutPrefix(rest, hasLine(name)); ok {
			rest = after
		} else {
			break
		}
	}
	if strings.HasPrefix(rest, "-- has ") {
		return "", nil
	}
	return rest, nil
}

func hasContent(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// migrateTo runs the migrations up or down to a version, each in a transaction of its own.
func migrateTo(ctx context.Context, path string, migrations fs.FS, version int64) (err error) {
	db, err := openToMigrate(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// a migration that the database lacks between those that it has runs first
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithAllowOutofOrder(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	has, err := provider.GetDBVersion(ctx)
	if err != nil {
		return classify(err)
	}
	if has > version {
		_, err = provider.DownTo(ctx, version)
	} else {
		_, err = provider.UpTo(ctx, version)
	}
	if err != nil {
		return fmt.Errorf("migrate the database to schema %d: %w", version, classify(err))
	}
	return nil
}

// openToMigrate opens a database, made if it is missing, with one connection.
func openToMigrate(path string) (*sql.DB, error) {
	if err := makeFile(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", fileURI(path, url.Values{"_pragma": writePragmas, "_txlock": {"immediate"}}))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// makeFile creates the database file with fixed permissions, whatever the mask of the process.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return corebot.WithHint(fmt.Errorf("make the database: %w", err), owned.Elsewhere(err, filepath.Dir(path)))
	}
	return f.Close()
}

// Vacuumed is the size of the database file before and after [Vacuum], in bytes.
type Vacuumed struct{ Before, After int64 }

// Vacuum rewrites the database of a data directory without its free pages, so that the file shrinks. It locks the
// directory: no Corebot may run there ([*LockError]). It refuses a file with another schema, and a damaged file.
//
// The disk needs room for two copies of the used pages. With less room, Vacuum does not begin. A kill at any time
// leaves the file as it was, or shrunk.
func Vacuum(ctx context.Context, dir string) (v Vacuumed, err error) {
	path := filepath.Join(dir, FileName)
	if err := checkVersion(dir); err != nil {
		return v, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := errors.Join(checkVersion(dir), CheckLog(dir)); err != nil {
		return v, err
	}
	db, err := sql.Open("sqlite", dsn(path, vacuumPragmas))
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := roomToVacuum(ctx, db, dir, DiskAt); err != nil {
		return v, err
	}
	return vacuum(ctx, db, path)
}

// vacuumPragmas are the pragmas of a write connection, except for temporary data. Here it is a copy of the whole
// database, so it must not be in memory.
var vacuumPragmas = []string{
	"temp_store(file)", "busy_timeout(5000)", "trusted_schema(off)", "cell_size_check(on)",
	"journal_mode(WAL)", "synchronous(FULL)",
}

// copies is how often the used pages are written: to a temporary file, and to the write-ahead log.
const copies = 2

// roomToVacuum refuses to begin if the disk has too little room.
func roomToVacuum(ctx context.Context, db *sql.DB, dir string, diskAt func(string) (Disk, error)) error {
	var pages, free, size int64
	err := db.QueryRowContext(ctx,
		`SELECT * FROM pragma_page_count, pragma_freelist_count, pragma_page_size`).Scan(&pages, &free, &size)
	if err != nil {
		return fmt.Errorf("read the size of the database: %w", classify(err))
	}
	disk, err := diskAt(dir)
	if err != nil {
		return err
	}
	if need := copies * (pages - free) * size; disk.Free < need {
		return corebot.WithHint(fmt.Errorf("vacuum the database: %w: %d MiB are needed and %d MiB are free",
			corebot.ErrDiskFull, need>>20, disk.Free>>20),
			"make room, or move the home to a larger disk; free pages inside the file are used again as they are")
	}
	return nil
}

func vacuum(ctx context.Context, db *sql.DB, path string) (v Vacuumed, err error) {
	before, err := os.Stat(path)
	if err != nil {
		return v, err
	}
	// The temporary copy must be on the disk that was checked. SQLite has one temporary directory for the whole
	// process, so it is reset afterwards. All other connections keep temporary data in memory.
	here := `PRAGMA temp_store_directory = '` + strings.ReplaceAll(filepath.Dir(path), `'`, `''`) + `'`
	defer func() {
		_, e := db.ExecContext(context.WithoutCancel(ctx), `PRAGMA temp_store_directory = ''`)
		err = errors.Join(err, classify(e))
	}()
	for _, statement := range []string{here, `VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return v, fmt.Errorf("%s: %w", statement, classify(err))
		}
	}
	after, err := os.Stat(path)
	if err != nil {
		return v, err
	}
	return Vacuumed{before.Size(), after.Size()}, nil
}
