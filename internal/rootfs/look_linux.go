package rootfs

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// look is what one call of the system tells of an entry. Two looks that are equal saw the same file with the same
// content, if the file had been left alone for a while: see [settled]. A second name for the file changes its time.
type look struct {
	dev, ino uint64
	size     int64
	changed  unix.Timespec
	mode     uint32
}

func (l look) isDir() bool        { return l.mode&unix.S_IFMT == unix.S_IFDIR }
func (l look) isRegular() bool    { return l.mode&unix.S_IFMT == unix.S_IFREG }
func (l look) bytes() int64       { return l.size }
func (l look) time() time.Time    { return time.Unix(l.changed.Unix()) }
func (l look) same(now look) bool { return l == now }

// at looks at an entry. The path is cleaned, and its last name is not followed if it is a link. Links among its
// directories are followed, out of the root too: whoever acts on the look also asks whether the path is straight. An
// [os.Root] would open each directory of the path, which takes three times as many calls.
func (r *Root) at(path string) (look, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(int(r.self.Fd()), path, &st, unix.AT_SYMLINK_NOFOLLOW) // after Close: of no descriptor
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return look{}, &fs.PathError{Op: "fstatat", Path: path, Err: err}
		default:
			return look{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, changed: st.Ctim, mode: st.Mode}, nil
		}
	}
}

// absent says, for one call of the system, that a path leads through directories to an entry that is not there. It says
// no of anything else, and if the system cannot tell: the call is younger than some systems, and some sandboxes forbid
// it.
func (r *Root) absent(path string) bool {
	fd, err := unix.Openat2(int(r.self.Fd()), path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err == nil {
		_ = unix.Close(fd) // nothing was written
	}
	return errors.Is(err, unix.ENOENT)
}

// Changed is when a file's content or attributes changed last. Unlike its modification time, nobody can set it.
func Changed(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}
