package storage

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Disk is the file system that a path is on, in bytes.
type Disk struct {
	Total int64
	Free  int64 // what a user without privileges may still fill
}

// DiskAt asks the kernel about the file system of a path.
func DiskAt(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, fmt.Errorf("read the free space of %s: %w", path, err)
	}
	block := int64(s.Bsize)                                                         //nolint:unconvert // the types differ between systems
	return Disk{Total: int64(s.Blocks) * block, Free: int64(s.Bavail) * block}, nil //nolint:unconvert // the same
}

// maxFloor is the floor of a large disk.
const maxFloor = 512 << 20

// Floor is how many bytes of the disk should stay free, by what was asked for: 0 means 512 MiB or 5 %, the smaller, and a negative number
// means none.
func (d Disk) Floor(asked int64) int64 {
	if asked == 0 {
		return min(maxFloor, d.Total/20)
	}
	return max(asked, 0)
}
