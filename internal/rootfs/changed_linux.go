package rootfs

import (
	"io/fs"
	"syscall"
	"time"
)

// Changed is when a file's content or attributes changed last. Unlike its modification time, nobody can set it.
func Changed(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}
