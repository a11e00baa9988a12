package owned

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountOf is the mount that a path is on. Kernels before 5.8 do not tell.
func mountOf(path string) (id uint64, ok bool) {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &stat)
	return stat.Mnt_id, err == nil && stat.Mask&unix.STATX_MNT_ID != 0
}

// isMapped says whether a user exists in the user namespace of this process. All others are shown as one number there.
func isMapped(uid int) bool {
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil || strings.TrimSpace(string(overflow)) != strconv.Itoa(uid) {
		return true
	}
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return true
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, count int
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &count); err == nil && inside <= uid &&
			uid-inside < count {
			return true
		}
	}
	return false
}
