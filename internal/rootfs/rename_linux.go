package rootfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// renameAt moves an entry. Without over, the kernel refuses to replace anything; where its file system cannot, a look
// comes first.
func renameAt(from *os.File, name string, to *os.File, as string, over bool) error {
	if over {
		return unix.Renameat(int(from.Fd()), name, int(to.Fd()), as)
	}
	err := unix.Renameat2(int(from.Fd()), name, int(to.Fd()), as, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	var there unix.Stat_t
	if unix.Fstatat(int(to.Fd()), as, &there, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return fs.ErrExist
	}
	return unix.Renameat(int(from.Fd()), name, int(to.Fd()), as)
}
