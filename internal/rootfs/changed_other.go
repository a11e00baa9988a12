//go:build !linux

package rootfs

import (
	"io/fs"
	"time"
)

func Changed(info fs.FileInfo) time.Time { return info.ModTime() }
