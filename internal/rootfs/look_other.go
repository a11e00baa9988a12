//go:build !linux

package rootfs

import (
	"io/fs"
	"os"
	"time"
)

// look is what the system tells of an entry.
type look struct{ fs.FileInfo }

func (l look) isDir() bool     { return l.IsDir() }
func (l look) isRegular() bool { return l.Mode().IsRegular() }
func (l look) bytes() int64    { return l.Size() }
func (l look) time() time.Time { return Changed(l.FileInfo) }

// same: an atomic write makes another file, an edit in place another time.
func (l look) same(now look) bool {
	return os.SameFile(l.FileInfo, now.FileInfo) && l.Size() == now.Size() && l.time().Equal(now.time()) &&
		l.Mode() == now.Mode() && links(now.FileInfo) == links(l.FileInfo)
}

// at looks at an entry by its cleaned path.
func (r *Root) at(path string) (look, error) {
	info, err := r.dir.Lstat(path)
	return look{info}, err
}

func (r *Root) absent(string) bool { return false }

// Changed is when the content of a file changed last.
func Changed(info fs.FileInfo) time.Time { return info.ModTime() }
