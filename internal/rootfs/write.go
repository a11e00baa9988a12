package rootfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/corebot/corebot"
)

// Write puts data in place of a file, atomically and durably, and makes the directories that are missing.
func (r *Root) Write(path string, data []byte) error {
	return r.change(path, 0, func(*os.Root, string) ([]byte, error) { return data, nil })
}

// Create is Write for a file that must not exist yet; otherwise the error is fs.ErrExist and the file stays as it is.
// It is atomic against everyone who writes through this Root.
func (r *Root) Create(path string, data []byte) error { return r.Restore(path, data, 0) }

// Restore is Create for a file that was there before. In a directory of others the file has the rights of mode from its
// beginning; 0 means those of any new file.
func (r *Root) Restore(path string, data []byte, mode fs.FileMode) error {
	return r.change(path, mode, func(at *os.Root, name string) ([]byte, error) {
		switch _, err := at.Lstat(name); {
		case err == nil:
			return nil, fs.ErrExist
		case !errors.Is(err, fs.ErrNotExist):
			return nil, bare(err)
		}
		return data, nil
	})
}

// Update replaces a file of at most limit bytes with what fn makes of it, with no other write of this Root in between.
// A file that is missing is nil and exists is false. An error of fn is returned wrapped and nothing is written. fn must
// not write through the Root itself.
func (r *Root) Update(path string, limit int64, fn func(old []byte, exists bool) ([]byte, error)) error {
	return r.change(path, 0, func(*os.Root, string) ([]byte, error) {
		old, err := r.ReadFile(path, limit)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return fn(old, err == nil)
	})
}

// Remove takes away a plain file. One that is not there is fs.ErrNotExist.
func (r *Root) Remove(path string) error { return r.remove(path, func(string) error { return nil }) }

// RemoveIf is Remove for a file of at most limit bytes that check allows by its content, with no other write of this
// Root in between. An error of check is returned wrapped, and the file stays.
func (r *Root) RemoveIf(path string, limit int64, check func(old []byte, exists bool) error) error {
	return r.remove(path, func(clean string) error {
		old, err := r.ReadFile(clean, limit)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return check(old, err == nil)
	})
}

func (r *Root) remove(path string, check func(clean string) error) error {
	return r.locked(path, "remove", func(clean string, rm room) error {
		return r.in(clean, false, func(at *os.Root, name string) error {
			if err := replaceable(at, name); err != nil {
				return err
			}
			if err := check(clean); err != nil {
				return err
			}
			size := sizeOf(at, name)
			err := bare(at.Remove(name))
			if err == nil {
				err = syncDir(at)
			}
			rm.grown(Usage{-size, -1}, err)
			return err
		})
	})
}

// change replaces a file with what next returns, under the file's lock. A new file has the rights of mode.
func (r *Root) change(path string, mode fs.FileMode, next func(at *os.Root, name string) ([]byte, error)) error {
	return r.locked(path, "write", func(clean string, rm room) error {
		dirs := rm.missing(clean)
		if dirs > 0 {
			// before any directory is made, and the file in it
			if err := rm.admit(Usage{Entries: dirs + 1}); err != nil {
				return err
			}
		}
		return r.in(clean, true, func(at *os.Root, name string) error {
			rm.grown(Usage{Entries: dirs}, nil)
			data, err := next(at, name)
			if err != nil {
				return err
			}
			if err := r.bounded(clean, int64(len(data))); err != nil {
				return err
			}
			if err := replaceable(at, name); err != nil {
				return err
			}
			more := growth(at, name, data)
			if err := rm.admit(more); err != nil {
				return err
			}
			err = r.replace(at, name, data, mode)
			rm.grown(more, err)
			return err
		})
	})
}

// growth is what a folder holds more once a file has new contents.
func growth(at *os.Root, name string, data []byte) Usage {
	if _, err := at.Lstat(name); err != nil {
		return Usage{int64(len(data)), 1}
	}
	return Usage{Bytes: int64(len(data)) - sizeOf(at, name)}
}

// sizeOf is how many bytes a file has; one that cannot be looked at counts for none.
func sizeOf(at *os.Root, name string) int64 {
	info, err := at.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// bounded refuses a size over the limit of a file.
func (r *Root) bounded(clean string, size int64) error {
	if r.limit == nil {
		return nil
	}
	if limit := r.limit(clean); limit > 0 && size > limit {
		return corebot.WithHint(fmt.Errorf("the file %w: it would have %d bytes, the limit is %d", ErrTooLarge, size,
			limit), "keep what matters in it, and put the rest into another file")
	}
	return nil
}

// locked runs fn on the cleaned path of a file, under the file's lock and then that of its folder.
func (r *Root) locked(file, verb string, fn func(clean string, rm room) error) error {
	clean, err := Clean(file)
	if err != nil {
		return err
	}
	if clean == "." {
		return fmt.Errorf("%s %s: it %w", verb, clean, ErrNotRegular)
	}
	mu := r.lock(clean)
	mu.Lock()
	defer mu.Unlock()
	rm, leave := r.enterFolder(clean)
	defer leave()
	defer r.changes.Add(1) // also after an error: it can come behind the change
	if err := fn(clean, rm); err != nil {
		return fmt.Errorf("%s %s: %w", verb, clean, err)
	}
	return nil
}

// in runs fn on the directory and the name of a file.
func (r *Root) in(clean string, create bool, fn func(at *os.Root, name string) error) error {
	at, err := r.walk(path.Dir(clean), create)
	if err != nil {
		return err
	}
	defer at.Close()
	return fn(at, path.Base(clean))
}

// replaceable refuses to put a file in place of something that is none. It is a courtesy, not the guard: a rename
// replaces the entry itself and never follows it.
func replaceable(at *os.Root, name string) error {
	info, err := at.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return bare(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link", ErrEscape, name)
	case info.Mode().IsRegular() && info.Mode().Perm()&0o200 == 0: // a rename would not mind
		return fmt.Errorf("%w: the file is read-only", fs.ErrPermission)
	}
	return plain(info)
}

// replace writes a temporary file beside the old one and renames it into place. Contents and entry are each synced, in
// that order: after a power cut the name never stands for a half-written file.
func (r *Root) replace(at *os.Root, name string, data []byte, mode fs.FileMode) (err error) {
	temp := tempPrefix + rand.Text()
	f, err := at.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return bare(err)
	}
	defer func() {
		if err != nil {
			_ = at.Remove(temp) // best effort: a sweep takes what stays
		}
	}()
	if _, err = f.Write(data); err == nil && r.kept {
		err = likeOld(at, name, f, mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return bare(err)
	}
	if err = at.Rename(temp, name); err != nil {
		return bare(err)
	}
	return syncDir(at)
}

// syncDir makes the entries of a directory durable.
func syncDir(at *os.Root) error {
	d, err := at.Open(".")
	if err != nil {
		return bare(err)
	}
	return bare(errors.Join(d.Sync(), d.Close()))
}

// Mkdir makes a directory with those above it that are missing. One that is there stays as it is.
func (r *Root) Mkdir(dir string) error {
	if clean, err := Clean(dir); err != nil || clean == "." {
		return err
	}
	return r.locked(dir, "make the directory", func(clean string, rm room) error {
		more := Usage{Entries: rm.missing(path.Join(clean, "file"))}
		if more.Entries > 0 {
			if err := rm.admit(more); err != nil {
				return err
			}
		}
		at, err := r.walk(clean, true)
		rm.grown(more, err)
		if err == nil {
			at.Close()
		}
		return err
	})
}
