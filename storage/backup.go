package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/migrations"
)

// backupsName is the directory of the backups, beside the database.
const backupsName = "backups"

// newestBackup is the path of the newest backup; empty: there is none.
func newestBackup(dir string) (newest string) {
	paths, err := filepath.Glob(filepath.Join(dir, backupsName, "*.db"))
	if err != nil {
		return ""
	}
	var latest time.Time
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 &&
			info.ModTime().After(latest) {
			newest, latest = path, info.ModTime()
		}
	}
	return newest
}

// makeBackup writes a copy of the database at path to a new file and checks the copy: SQLite's integrity check, and the
// same schema version as the original. The copy gets its name only when it is whole and on disk. makeBackup never
// overwrites a file.
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

// putInPlace gives a whole file its final name once the file is on disk. It replaces a file that had the name.
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
	// VACUUM INTO reads one snapshot, even beside a running writer. Its result has neither WAL nor free pages.
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

// asidePrefix begins the names of the directories for replaced databases.
const asidePrefix = "set-aside-"

// Restore replaces the database of a data directory by a copy: a backup, or a file from elsewhere. It checks the copy
// first. It moves the old database to a directory of its own and returns the path; the path is "" if there was no
// database. No Corebot may run on the directory meanwhile.
//
// A kill at any time leaves the directory with its old database, its new database, or none. Without a database Corebot
// refuses the directory until Restore is run again.
func Restore(ctx context.Context, dir, from string) (aside string, err error) {
	return replace(dir, func(path string) error {
		state, err := checkFile(from)
		if err == nil && state != "" {
			err = fmt.Errorf("%s %s", from, state)
		}
		if err != nil {
			return err
		}
		version, err := schemaVersion(ctx, from)
		switch {
		case err != nil:
			return err
		case version > SchemaVersion():
			return newer(version, SchemaVersion())
		case version == 0:
			return fmt.Errorf("%s is not a database of Corebot", from)
		}
		if err := copyDatabase(ctx, from, path); err != nil {
			return err
		}
		return verify(ctx, from, path)
	})
}

// BeginAnew gives a data directory a new, empty database. It moves the old database to a directory of its own, as
// [Restore] does.
func BeginAnew(ctx context.Context, dir string) (aside string, err error) {
	return replace(dir, func(path string) error { return migrate(ctx, path, migrations.FS, zerolog.Nop()) })
}

// replace lets fill make a database under another name, moves the old database aside and renames the new one. The home
// remembers the new database when it is first opened.
func replace(dir string, fill func(path string) error) (aside string, err error) {
	if err := makeDir(dir); err != nil {
		return "", err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	room, err := os.MkdirTemp(dir, "new-database-")
	if err != nil {
		return "", corebot.WithHint(fmt.Errorf("make room for a database: %w", err),
			"make "+dir+" writable for the user who runs Corebot")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(room)) }()
	made := filepath.Join(room, FileName)
	if err := fill(made); err != nil {
		return "", fmt.Errorf("make the new database: %w", err)
	}
	if err := syncFile(made); err != nil {
		return "", err
	}
	if aside, err = setAside(dir); err != nil {
		return aside, fmt.Errorf("move the old database aside: %w", err)
	}
	return aside, putInPlace(made, filepath.Join(dir, FileName))
}

// setAside moves a database, its other files, and the home's memory of it to a directory of their own. The database
// itself goes first. After a crash in between, its remaining files are still where Corebot looks for them.
func setAside(dir string) (aside string, err error) {
	for _, name := range []string{
		FileName, FileName + "-wal", FileName + "-shm", FileName + "-journal",
		rememberedName,
	} {
		from := filepath.Join(dir, name)
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if aside == "" {
			if aside, err = os.MkdirTemp(dir, asidePrefix+time.Now().UTC().Format("20060102T150405Z")+"-"); err != nil {
				return "", err
			}
		}
		if err := os.Rename(from, filepath.Join(aside, name)); err != nil {
			return aside, err
		}
	}
	if aside == "" {
		return "", nil
	}
	return aside, errors.Join(syncFile(aside), syncFile(dir))
}
