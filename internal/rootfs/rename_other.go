//go:build !linux

package rootfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// renameAt moves an entry. Without over it looks first: two writers of this Root never meet there, because they share
// a lock.
func renameAt(from *os.File, name string, to *os.File, as string, over bool) error {
	var there unix.Stat_t
	if !over && unix.Fstatat(int(to.Fd()), as, &there, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return fs.ErrExist
	}
	return unix.Renameat(int(from.Fd()), name, int(to.Fd()), as)
}
