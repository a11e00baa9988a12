package pack

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// exchange puts a directory in the place of another in one step. The other directory is in its old place then.
func exchange(fresh, place string) error {
	err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, place, unix.RENAME_EXCHANGE)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nothing was there
		return os.Rename(fresh, place)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // the file system does not know it
		return inTurn(os.Rename, fresh, place)
	}
	return err
}
