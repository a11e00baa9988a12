//go:build unix

package isolation

import (
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// lockFile locks a file or directory until it is closed, also by the end of the process. Without wait, one that is
// locked already is an error.
func lockFile(f *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// ownedBy says whether a file belongs to one of some users.
func ownedBy(info fs.FileInfo, uids ...int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && slices.Contains(uids, int(stat.Uid))
}
