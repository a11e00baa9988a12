//go:build !linux

package rootfs

import (
	"io/fs"
	"time"
)

func changed(info fs.FileInfo) time.Time { return info.ModTime() }
