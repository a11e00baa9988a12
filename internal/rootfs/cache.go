package rootfs

import (
	"io/fs"
	"os"
	"sync"
	"time"
)

// settled is how long a file must have been left alone when it is read, for its time of change to tell whether it changed since: within one
// step of a file system's clock (2 s at worst) it can change twice.
const settled = 2 * time.Second

// Cache keeps whole files in memory that are read often and changed seldom. What it gives is what a [Root.ReadFile] at that moment would: each
// read asks the file system whether the file is still the one that was read, of the same size and time of change, and one that was changed just
// before it was read is read again. It is safe for use by several goroutines, and made for a few paths: it forgets none.
type Cache struct {
	root  *Root
	now   func() time.Time
	mu    sync.Mutex
	files map[string]cached
}

type cached struct {
	info  fs.FileInfo
	limit int64
	data  []byte
}

// NewCache keeps files of a root.
func NewCache(r *Root) *Cache { return &Cache{root: r, now: time.Now, files: map[string]cached{}} }

// ReadFile is [Root.ReadFile]; its caller must not change what it gets.
func (c *Cache) ReadFile(path string, limit int64) ([]byte, error) {
	c.mu.Lock()
	known, ok := c.files[path]
	c.mu.Unlock()
	if ok && known.limit == limit {
		if info, err := c.root.dir.Lstat(path); err == nil && sameContent(known.info, info) {
			return known.data, nil
		}
	}
	before, statErr := c.root.dir.Lstat(path)
	data, err := c.root.ReadFile(path, limit)
	if err != nil || statErr != nil || c.now().Sub(changed(before)) < settled {
		return data, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[path] = cached{before, limit, data}
	return data, nil
}

// sameContent: an atomic write makes another file, an edit in place another time. Root takes no links, so the entry is the file.
func sameContent(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && changed(a).Equal(changed(b)) && a.Mode() == b.Mode() && links(b) <= 1
}
