package rootfs

import (
	"io/fs"
	"os"
	"sync"
	"time"
)

// Dirs keeps the names of the directories in one directory, by the rule of [Cache]: whoever adds, removes, renames or
// exchanges an entry changes the directory's own time. It is safe for use by several goroutines.
type Dirs struct {
	root  *Root
	dir   string
	limit int
	now   func() time.Time

	mu    sync.Mutex
	info  fs.FileInfo // nil: nothing is kept
	names []string
	more  int
}

// NewDirs lists the directories of dir, the first limit of them by name. A path that cannot be one is an error of each
// [Dirs.Names].
func NewDirs(r *Root, dir string, limit int) *Dirs {
	return &Dirs{root: r, dir: dir, limit: limit, now: time.Now}
}

// Names returns the names of the directories as they are now, sorted. The caller must not change them. The number more
// is how many there are besides. The flag anew says that the names may differ from the last call's. Links and special
// files are among them, so that nobody wonders where a linked directory went. A read below such a name is refused, and
// the error says what the name is. A new listing reads all names, as [Root.List] does.
func (d *Dirs) Names() (names []string, more int, anew bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, statErr := d.root.dir.Lstat(d.dir)
	if statErr == nil && d.info != nil && sameDir(d.info, before) {
		return d.names, d.more, false, nil
	}
	d.info = nil
	names, more, err = d.root.dirs(d.dir, d.limit)
	if err == nil && statErr == nil && d.now().Sub(Changed(before)) >= settled {
		d.info, d.names, d.more = before, names, more
	}
	return names, more, true, err
}

func sameDir(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && Changed(a).Equal(Changed(b)) && a.Mode() == b.Mode()
}

// dirs are the names of everything in a directory but plain files.
func (r *Root) dirs(dir string, limit int) (names []string, more int, err error) {
	err = r.inDirectory(dir, func(at *os.Root) (err error) {
		names, more, err = firstNames(at, "", limit, func(e fs.DirEntry) bool {
			return !e.Type().IsRegular() &&
				nameable(e)
		})
		return err
	})
	return names, more, err
}
