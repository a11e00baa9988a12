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
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/migrations"
)

// SchemaVersion is the newest schema that this program knows.
func SchemaVersion() int64 { return newestVersion(migrations.FS) }

func newestVersion(migrations fs.FS) int64 {
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil || len(names) == 0 { // an error is of the pattern, and this one is none
		return 0
	}
	var version int64
	for _, name := range names {
		if v, err := goose.NumericComponent(name); err == nil { // what has no number is no migration, to goose neither
			version = max(version, v)
		}
	}
	return version
}

// NewerError says that the database was written by a newer Corebot.
type NewerError struct{ Has, Knows int64 }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the database has schema %d, this Corebot knows up to %d", e.Has, e.Knows)
}

// schemaVersion reads the version of a file without changing it: 0 for one that is missing or empty.
func schemaVersion(ctx context.Context, path string) (version int64, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return 0, nil
	}
	db, err := openReadOnly(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var tables, ours int
	err = db.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(*) FILTER (WHERE name = 'goose_db_version') FROM sqlite_schema WHERE type = 'table'`).Scan(&tables, &ours)
	switch {
	case err != nil:
		return 0, classify(err)
	case tables == 0: // the process that made it died before its first migration
		return 0, nil
	case ours == 0:
		return 0, corebot.WithHint(fmt.Errorf("%s is a SQLite database of another program", path), "it was not changed; choose another home with --home. "+wayBack(filepath.Dir(path)))
	}
	err = db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version`).Scan(&version)
	return version, classify(err)
}

// checkVersion refuses a data directory whose database this program cannot read as it is. One that has none yet is [fs.ErrNotExist].
func checkVersion(ctx context.Context, dir string) error {
	version, _, err := inspect(ctx, dir)
	switch knows := SchemaVersion(); {
	case err != nil:
		return err
	case version == 0:
		return corebot.WithHint(fmt.Errorf("open the database: %s: %w", filepath.Join(dir, FileName), fs.ErrNotExist), "there is no database yet: start Corebot once with this home")
	case version < knows:
		return corebot.WithHint(fmt.Errorf("the database has schema %d, this Corebot needs %d", version, knows), "run `corebot db migrate`, or start Corebot once")
	}
	return nil
}

func newer(has, knows int64) error {
	return corebot.WithHint(&NewerError{Has: has, Knows: knows}, "the file was not changed; run the newer Corebot, or go back to a backup from before the upgrade with `corebot db restore FILE`")
}

// migrate brings the file to the newest schema of the migrations. Existing data is backed up first, and the backup is checked; the migration of a
// file that is up to date costs one read.
func migrate(ctx context.Context, path string, migrations fs.FS, log zerolog.Logger) error {
	version, err := schemaVersion(ctx, path)
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
			return corebot.WithHint(fmt.Errorf("back up the database before its migration: %w", err), "nothing was migrated")
		}
		log.Info().Str("backup", backup).Int64("from", version).Int64("to", knows).Msg("migrating the database")
	}
	return migrateTo(ctx, path, migrations, knows)
}

// create makes a new database under another name and gives it its own when it is whole and on disk: a power cut leaves none
// rather than a half, which nobody could tell from a damaged one.
func create(ctx context.Context, path string, migrations fs.FS, version int64) error {
	part := path + ".part"
	for _, leftover := range []string{part, part + "-journal", part + "-wal", part + "-shm", path + "-journal", path + "-wal", path + "-shm"} {
		if err := removeIfThere(leftover); err != nil { // what an empty database leaves beside it must not be taken for the new one's
			return fmt.Errorf("make the database: %w", err)
		}
	}
	if err := migrateTo(ctx, part, migrations, version); err != nil {
		return err
	}
	if hasContent(part + "-wal") {
		return fmt.Errorf("make the database: %s could not be written whole", part)
	}
	if err := putInPlace(part, path); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	return nil
}

func hasContent(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// migrateTo runs the migrations up or down to a version, each in a transaction of its own.
func migrateTo(ctx context.Context, path string, migrations fs.FS, version int64) (err error) {
	if err := makeFile(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", fileURI(path, url.Values{"_pragma": writePragmas, "_txlock": {"immediate"}}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations)
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

// makeFile makes the database with permissions of its own, not those of the process's mask.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return corebot.WithHint(fmt.Errorf("make the database: %w", err), owned.Elsewhere(err, filepath.Dir(path)))
	}
	return f.Close()
}

// Vacuumed says what [Vacuum] did: the size of the database file, in bytes.
type Vacuumed struct{ Before, After int64 }

// Vacuum writes the database of a data directory anew without the pages that are free, so that the file shrinks. It locks the directory:
// no Corebot may run there ([*LockError]). A file of another schema, or one that is damaged, is refused.
//
// The disk needs room for two copies of what is in use; if there is less, nothing is begun. It may be killed at any time: the file then is as
// it was, or shrunk.
func Vacuum(ctx context.Context, dir string) (v Vacuumed, err error) {
	path := filepath.Join(dir, FileName)
	if err := checkVersion(ctx, dir); err != nil {
		return v, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := checkVersion(ctx, dir); err != nil {
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

// vacuumPragmas are those of a connection that writes, but for its temporary data, which is a copy of the whole database: not in memory.
var vacuumPragmas = []string{"temp_store(file)", "busy_timeout(5000)", "trusted_schema(off)", "cell_size_check(on)", "journal_mode(WAL)", "synchronous(FULL)"}

// copies are how often what is in use is written: to a temporary file, and to the write-ahead log.
const copies = 2

// roomToVacuum refuses to begin what the disk cannot hold.
func roomToVacuum(ctx context.Context, db *sql.DB, dir string, diskAt func(string) (Disk, error)) error {
	var pages, free, size int64
	err := db.QueryRowContext(ctx, `SELECT * FROM pragma_page_count, pragma_freelist_count, pragma_page_size`).Scan(&pages, &free, &size)
	if err != nil {
		return fmt.Errorf("read the size of the database: %w", classify(err))
	}
	disk, err := diskAt(dir)
	if err != nil {
		return err
	}
	if need := copies * (pages - free) * size; disk.Free < need {
		return corebot.WithHint(fmt.Errorf("vacuum the database: %w: %d MiB are needed and %d MiB are free", corebot.ErrDiskFull, need>>20, disk.Free>>20),
			"make room, or move the home to a larger disk; free pages inside the file are used again as they are")
	}
	return nil
}

func vacuum(ctx context.Context, db *sql.DB, path string) (v Vacuumed, err error) {
	before, err := os.Stat(path)
	if err != nil {
		return v, err
	}
	// The copy is made on the disk whose room was looked at. The directory of temporary files is SQLite's for the whole process, so it is
	// put back; every other connection keeps its temporary data in memory.
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
