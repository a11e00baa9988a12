package dirtree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

const elsewhere = "name a directory that is not there yet, or delete it first"

// Make makes a directory with what a function writes into it. The directory appears when all of that is on disk, and
// not at all if anything fails. A path where something is already, if only an empty directory, is refused.
//
// Until then the directory has a hidden name beside its path. The next call for the same path deletes the remains
// of a killed process there. Two calls for one path at a time are refused.
func Make(ctx context.Context, dir string, fill func(at *os.Root) error) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	parent, name := filepath.Split(dir)
	if err := free(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return corebot.WithHint(err, "name a directory in a place where you can write")
	}
	above, err := os.OpenRoot(parent)
	if err != nil {
		return err
	}
	defer above.Close() //nolint:errcheck // it is synced
	part := "." + name + ".part"
	lock, err := begin(ctx, above, part)
	if err != nil {
		return fmt.Errorf("begin %s: %w", dir, err)
	}
	defer lock.Close() //nolint:errcheck // nothing was written to it
	defer func() {
		if err != nil { // also after a cancellation, which is mostly why
			_, gone := Remove(context.WithoutCancel(ctx), above, part)
			err = errors.Join(err, gone)
		}
	}()
	at, err := above.OpenRoot(part)
	if err != nil {
		return err
	}
	defer at.Close() //nolint:errcheck // it is synced
	if err := fill(at); err != nil {
		return err
	}
	if err := errors.Join(context.Cause(ctx), Sync(at)); err != nil {
		return err
	}
	fault.Point("dirtree", "made")
	if err := free(dir); err != nil {
		return err
	}
	if err := above.Rename(part, name); err != nil {
		return corebot.WithHint(fmt.Errorf("put %s in place: %w", dir, err), elsewhere)
	}
	fault.Point("dirtree", "placed")
	return Sync(above)
}

// free refuses a path where something is.
func free(dir string) error {
	switch _, err := os.Lstat(dir); {
	case err == nil:
		return corebot.WithHint(fmt.Errorf("%s: %w", dir, fs.ErrExist), elsewhere)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// begin makes and locks an empty directory. The kernel releases the lock when the process ends, in whatever way.
func begin(ctx context.Context, above *os.Root, part string) (lock *os.File, err error) {
	err = above.Mkdir(part, 0o700)
	left := errors.Is(err, fs.ErrExist)
	if err != nil && !left {
		return nil, corebot.WithHint(err, "name a directory in a place where you can write")
	}
	at, err := open(above, part)
	if err != nil {
		return nil, err
	}
	defer at.Close() //nolint:errcheck // nothing is written to it
	if lock, err = at.Open("."); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
			lock = nil
		}
	}()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return lock, corebot.WithHint(fmt.Errorf("%q is being written: %w", part, err),
			"another process makes the same directory: wait for it, or name another one")
	}
	info, err := lock.Stat()
	if err == nil {
		err = sameEntry(above, part, info) // another process can have put it in place meanwhile
	}
	if err == nil && left {
		err = (&remover{ctx: ctx, top: at}).empty(at, "")
	}
	return lock, err
}
