package owned

import (
	"os"
	"path/filepath"
	"syscall"
)

// Owner gives the user to whom a directory belongs, as the kernel says. ok is false if the directory is missing. It is
// also false if the user namespace of this process does not know the owner: all unknown users share one number there.
func Owner(dir string) (uid int, ok bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return 0, false
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return 0, false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known || !isMapped(int(stat.Uid)) {
		return 0, false
	}
	return int(stat.Uid), true
}
