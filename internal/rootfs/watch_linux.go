package rootfs

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	maxWatches = 2048 // directories of a root
	watched    = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVE | unix.IN_MOVE_SELF |
		unix.IN_DELETE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	zfs = 0x2fc12fc1
)

// telling are file systems of which the system tells each change but those through mapped memory. Of a file system of
// the network it tells only what this machine changes.
var telling = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true,
	unix.F2FS_SUPER_MAGIC: true, zfs: true,
}

// watch is a queue in which the system notes changes before the call that makes them returns. Nothing waits for the
// queue: [Root.Mark] reads it.
type watch struct {
	mu     sync.Mutex
	opened bool
	closed bool
	file   int            // the queue's descriptor; -1: the system gave none
	dirs   map[int32]bool // the system's numbers of the directories
	told   uint64         // grows with what is read
}

// Mark is a moment from which the system notes changes. The zero Mark is none.
type Mark struct{ told uint64 }

// Watch has the system note changes in directories, for [Root.Mark]. It gives false unless each is noted: on some
// file systems, for more than 2,048 directories of a root, and if the system has no room.
func (r *Root) Watch(dirs []string) bool {
	w := &r.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open(r) || !w.read() {
		return false
	}
	self, err := r.at(".")
	for _, dir := range dirs {
		if err != nil || len(w.dirs) >= maxWatches {
			return false
		}
		if in, err := r.at(dir); err != nil || in.dev != self.dev {
			return false // it may be another file system
		}
		path := fmt.Sprintf("/proc/self/fd/%d/%s", r.self.Fd(), dir)
		n, err := unix.InotifyAddWatch(w.file, path, watched)
		if err != nil {
			return false
		}
		w.dirs[int32(n)] = true
	}
	return err == nil
}

// Mark is the present moment. It is the same as an earlier one if nothing has changed since in any directory that is
// watched.
func (r *Root) Mark() Mark {
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	if !r.watch.opened || !r.watch.read() {
		return Mark{}
	}
	return Mark{r.watch.told + 1}
}

// open makes the queue, once.
func (w *watch) open(r *Root) bool {
	if w.opened || w.closed {
		return w.opened && w.file >= 0
	}
	w.opened, w.file, w.dirs = true, -1, map[int32]bool{}
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(r.self.Fd()), &on); err != nil || !telling[int64(on.Type)] {
		return false
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return false
	}
	w.file = fd
	return true
}

// read takes in what the system has noted. It says false when the queue cannot be read. A queue that grows meanwhile
// leaves a rest to the next call, which then finds another moment.
func (w *watch) read() bool {
	var buf [16 << 10]byte
	for range 64 {
		if w.file < 0 {
			return false
		}
		n, err := unix.Read(w.file, buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return true
		case err != nil || n <= 0:
			return false
		}
		w.told++
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			if binary.NativeEndian.Uint32(buf[at+4:])&unix.IN_IGNORED != 0 { // the directory is gone
				delete(w.dirs, int32(binary.NativeEndian.Uint32(buf[at:])))
			}
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[at+12:]))
		}
	}
	return true
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opened && w.file >= 0 {
		_ = unix.Close(w.file) // only read from
	}
	w.file, w.opened, w.closed = -1, false, true
}
