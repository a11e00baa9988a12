package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/corebot/corebot"
)

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
