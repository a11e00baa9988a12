package rootfs

import (
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// Dirs keeps the names of the directories in one directory, by the rule of [Derived]: whoever adds, removes, renames or
// exchanges an entry changes the directory's own time. It is safe for use by several goroutines.
type Dirs struct {
	root  *Root
	dir   string
	limit int
	now   func() time.Time

	mu      sync.Mutex
	seen    look
	kept    bool // names are those of the directory as it was seen
	names   []string
	more    int
	aside   bool // there are names that are left aside
	listing uint64
}

// NewDirs lists the directories of dir, the first limit of them by name. A path that cannot be one is an error of each
// [Dirs.Names].
func NewDirs(r *Root, dir string, limit int) *Dirs {
	return &Dirs{root: r, dir: dir, limit: limit, now: time.Now}
}

// Names returns the names of the directories as they are now, sorted. The caller must not change them. The number more
// is how many there are besides. The number listing counts how often the names were read. If it is that of an earlier
// call, the names are the same, and each names the same directory. Links and special files are among them, so that
// nobody wonders where a linked directory went. A read below such a name is refused, and the error says what the name
// is. A new listing reads all names, as [Root.List] does.
func (d *Dirs) Names() (names []string, more int, listing uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, lookErr := d.root.at(d.dir)
	if lookErr == nil && d.kept && d.seen.same(before) {
		return d.names, d.more, d.listing, nil
	}
	d.kept = false
	d.listing++
	names, more, d.aside, err = d.root.dirs(d.dir, d.limit)
	if err == nil && lookErr == nil && d.now().Sub(before.time()) >= settled {
		d.kept, d.seen, d.names, d.more = true, before, names, more
	}
	return names, more, d.listing, err
}

// Aside says whether the last call of Names has left names aside: those that begin with "@".
func (d *Dirs) Aside() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.aside
}

// dirs are the names of everything in a directory but plain files, and but what is left aside.
func (r *Root) dirs(dir string, limit int) (names []string, more int, aside bool, err error) {
	err = r.inDirectory(dir, func(at *os.Root) (err error) {
		names, more, err = firstNames(at, "", limit, func(e fs.DirEntry) bool {
			if strings.HasPrefix(e.Name(), asideMark) {
				aside = true
				return false
			}
			return !e.Type().IsRegular() && nameable(e)
		})
		return err
	})
	return names, more, aside, err
}
