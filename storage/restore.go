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

// asidePrefix begins the names of the directories that databases are moved to when another takes their place.
const asidePrefix = "set-aside-"

// Restore puts a copy of a database in the place of a data directory's own: a backup, or what was found elsewhere.
// The copy is checked first. What was there is moved to a directory of its own, whose path is given; it is "" when
// nothing was there. No Corebot may run on the directory meanwhile.
//
// It may be killed at any time: the directory then has its old database, its new one, or none; with none it is
// refused until Restore is run again.
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

// BeginAnew gives a data directory a new, empty database. What was there is moved to a directory of its own, as with
// [Restore].
func BeginAnew(ctx context.Context, dir string) (aside string, err error) {
	return replace(dir, func(path string) error { return migrate(ctx, path, migrations.FS, zerolog.Nop()) })
}

// replace has fill make a database under another name, moves the old one aside and gives the new one its place. The
// home remembers the new one when it is first opened.
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

// setAside moves a database, all that belongs to it, and the memory of it to a directory of their own. The database
// itself goes first: a crash that comes between leaves its traces where they are looked for.
func setAside(dir string) (aside string, err error) {
	for _, name := range []string{FileName, FileName + "-wal", FileName + "-shm", FileName + "-journal", rememberedName} {
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
