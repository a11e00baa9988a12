package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// backupsName is the directory beside the database that backups are made in.
const backupsName = "backups"

// newestBackup is the path of the backup that was made last; empty if there is none.
func newestBackup(dir string) (newest string) {
	paths, err := filepath.Glob(filepath.Join(dir, backupsName, "*.db"))
	if err != nil {
		return ""
	}
	var latest time.Time
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 && info.ModTime().After(latest) {
			newest, latest = path, info.ModTime()
		}
	}
	return newest
}

// makeBackup writes a copy of the database at path to a new file and checks it: SQLite's integrity check, and the same schema
// version as the original. The copy gets its name only when it is whole and on disk; an existing file is never overwritten.
func makeBackup(ctx context.Context, path, to string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s: %w", to, os.ErrExist)
	}
	part := to + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfThere(part))
		}
	}()
	if err := copyDatabase(ctx, path, part); err != nil {
		return err
	}
	if err := verify(ctx, path, part); err != nil {
		return fmt.Errorf("check the backup: %w", err)
	}
	return putInPlace(part, to)
}

// putInPlace gives a file that is whole its name, in place of what had it, once it is on disk.
func putInPlace(part, to string) error {
	if err := syncFile(part); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return syncFile(filepath.Dir(to))
}

func copyDatabase(ctx context.Context, path, to string) (err error) {
	db, err := openReadOnly(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := makeFile(to); err != nil {
		return err
	}
	// VACUUM INTO reads one snapshot, beside a running writer too, and leaves a file with neither WAL nor free pages.
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, to); err != nil {
		return fmt.Errorf("copy the database: %w", classify(err))
	}
	return nil
}

func verify(ctx context.Context, path, backup string) (err error) {
	db, err := openReadOnly(backup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var result string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&result); err != nil {
		return classify(err)
	}
	if result != "ok" {
		return errors.New(result)
	}
	want, err := schemaVersion(ctx, path)
	if err != nil {
		return err
	}
	if got, err := schemaVersion(ctx, backup); err != nil || got != want {
		return errors.Join(err, fmt.Errorf("it has schema %d, the original %d", got, want))
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
