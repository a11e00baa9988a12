package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"
)

// settled is how long a file must have been left alone before its time of change can tell whether it changed since.
// Within one step of a file system's clock (2 s at worst) a file can change twice.
const settled = 2 * time.Second

// Derived keeps values made of files that are read often and changed seldom. Its result is what [Root.ReadFile] and
// make would give at that moment. Each read asks the file system whether the file still has the same size and time of
// change. A file that changed just before it was read is read again. Nothing is made twice of an unchanged file.
// Several goroutines may use it. It is made for a few paths, and forgets none by itself.
type Derived[T any] struct {
	root  *Root
	make  func(path string, data []byte) T
	now   func() time.Time
	mu    sync.Mutex
	files map[string]derived[T]
}

type derived[T any] struct {
	info  fs.FileInfo
	limit int64
	value T
}

// NewDerived makes something of files of a root.
func NewDerived[T any](r *Root, make func(path string, data []byte) T) *Derived[T] {
	return &Derived[T]{root: r, make: make, now: time.Now, files: map[string]derived[T]{}}
}

// Get gives what is made of a file, which has at most limit bytes; a larger one is [ErrTooLarge], and is not read for
// it.
func (d *Derived[T]) Get(path string, limit int64) (value T, err error) {
	d.mu.Lock()
	known, ok := d.files[path]
	d.mu.Unlock()
	before, statErr := d.root.dir.Lstat(path)
	if ok && statErr == nil && known.limit == limit && sameContent(known.info, before) && d.root.straight(path) {
		return known.value, nil
	}
	if errors.Is(statErr, fs.ErrNotExist) && clean(path) && d.root.straight(path) { // most turns look for missing files
		return value, fmt.Errorf("read %s: %w", path, bare(statErr))
	}
	if statErr == nil && before.Mode().IsRegular() && before.Size() > limit {
		return value, tooLarge(path, before.Size(), limit)
	}
	data, err := d.root.ReadFile(path, limit)
	if err != nil {
		return value, err
	}
	value = d.make(path, data)
	if statErr != nil || d.now().Sub(Changed(before)) < settled {
		return value, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[path] = derived[T]{before, limit, value}
	return value, nil
}

// clean says whether a path is as [Clean] writes it.
func clean(path string) bool {
	name, err := Clean(path)
	return err == nil && name == path
}

// Missing says whether a path leads through directories to an entry that is not there. [Root.ReadFile] would find that
// out too, with three times as many calls of the system, since it opens each directory of the path.
func (r *Root) Missing(path string) bool {
	if !clean(path) {
		return false
	}
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if info, err := r.dir.Lstat(path[:i]); err != nil || !info.IsDir() {
			return errors.Is(err, fs.ErrNotExist)
		}
	}
	_, err := r.dir.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// Keep forgets all files but those that are wanted.
func (d *Derived[T]) Keep(wanted func(path string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.files, func(path string, _ derived[T]) bool { return !wanted(path) })
}

// straight says whether a path leads through directories alone. A link among them may lead to the very file, and is
// refused all the same.
func (r *Root) straight(path string) bool {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if info, err := r.dir.Lstat(path[:i]); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// sameContent: an atomic write makes another file, an edit in place another time. Root takes no links, so the entry is
// the file.
func sameContent(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && Changed(a).Equal(Changed(b)) && a.Mode() == b.Mode() &&
		links(b) <= 1
}
