package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	files map[string]*derived[T]
}

type derived[T any] struct {
	seen  look
	limit int64
	value T
}

// NewDerived makes something of files of a root.
func NewDerived[T any](r *Root, make func(path string, data []byte) T) *Derived[T] {
	return &Derived[T]{root: r, make: make, now: time.Now, files: map[string]*derived[T]{}}
}

// Get gives what is made of a file, which has at most limit bytes; a larger one is [ErrTooLarge], and is not read for
// it.
func (d *Derived[T]) Get(path string, limit int64) (value T, err error) {
	value, _, err = d.Look(path, limit)
	return value, err
}

// Seen is what a look at a file found: content that was left alone for a while, or no file. The zero Seen tells
// nothing.
type Seen struct {
	path    string
	missing bool
	found   look
}

// Look is [Derived.Get], and what tells whether it would give the same once more.
func (d *Derived[T]) Look(path string, limit int64) (value T, seen Seen, err error) {
	known, ok := d.known(path)
	if !ok && !clean(path) {
		value, err = d.read(path, limit)
		return value, seen, err
	}
	before, lookErr := d.root.at(path)
	switch {
	case errors.Is(lookErr, fs.ErrNotExist) && d.root.straight(path): // most turns look for missing files
		return value, Seen{path: path, missing: true}, fmt.Errorf("read %s: %w", path, bare(lookErr))
	case lookErr != nil:
		value, err = d.read(path, limit)
		return value, seen, err
	case ok && known.limit == limit && known.seen.same(before) && d.root.straight(path):
		return known.value, Seen{path: path, found: before}, nil
	case before.isRegular() && before.bytes() > limit:
		return value, seen, tooLarge(path, before.bytes(), limit)
	}
	if value, err = d.read(path, limit); err != nil || d.now().Sub(before.time()) < settled {
		return value, seen, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[path] = &derived[T]{before, limit, value}
	return value, Seen{path: path, found: before}, nil
}

func (d *Derived[T]) read(path string, limit int64) (value T, err error) {
	data, err := d.root.ReadFile(path, limit)
	if err != nil {
		return value, err
	}
	return d.make(path, data), nil
}

func (d *Derived[T]) known(path string) (*derived[T], bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.files[path]
	return known, ok
}

// Still says whether what was seen is still so, for one call of the system. The caller knows that each directory of the
// path is the one that it was then. It says no to what nobody can know: of the zero Seen.
func (r *Root) Still(s Seen) bool {
	if s.path == "" {
		return false
	}
	now, err := r.at(s.path)
	if s.missing {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && s.found.same(now)
}

// clean says whether a path is as [Clean] writes it.
func clean(path string) bool {
	if plainly(path) {
		return true
	}
	name, err := Clean(path)
	return err == nil && name == path
}

// plainly says of most paths that they are clean, in less time than [Clean] takes.
func plainly(path string) bool {
	start, names := 0, 1
	for i := range len(path) {
		switch c := path[i]; {
		case c == '/':
			if i-start > maxName || i == start {
				return false
			}
			start, names = i+1, names+1
		case c <= ' ', c > '~', c == '\\', c == '.' && i == start:
			return false
		}
	}
	return len(path) > start && len(path)-start <= maxName && len(path) <= MaxPath && names <= MaxDepth
}

// Missing says whether a path leads through directories to an entry that is not there. [Root.ReadFile] would find that
// out too, with three times as many calls of the system, since it opens each directory of the path.
func (r *Root) Missing(path string) bool {
	if !clean(path) {
		return false
	}
	if r.absent(path) {
		return true
	}
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if dir, err := r.at(path[:i]); err != nil || !dir.isDir() {
			return errors.Is(err, fs.ErrNotExist)
		}
	}
	_, err := r.at(path)
	return errors.Is(err, fs.ErrNotExist)
}

// Keep forgets all files but those that are wanted.
func (d *Derived[T]) Keep(wanted func(path string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.files, func(path string, _ *derived[T]) bool { return !wanted(path) })
}

// straight says whether a path leads through directories alone. A link among them may lead to the very file, and is
// refused all the same.
func (r *Root) straight(path string) bool {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if dir, err := r.at(path[:i]); err != nil || !dir.isDir() {
			return false
		}
	}
	return true
}
