package rootfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Entry is one name in a directory.
type Entry struct {
	Name    string
	Dir     bool
	Size    int64 // of a plain file, in bytes
	ModTime time.Time
}

// listBatch is how many names are read at a time.
const listBatch = 256

// List returns the plain files and directories of a directory, sorted by name; everything else, and files being written, are
// left out. It reads limit entries at most, in the order of the file system; more says that there are others.
func (r *Root) List(dir string, limit int) (entries []Entry, more bool, err error) {
	clean, err := Clean(dir)
	if err != nil {
		return nil, false, err
	}
	at, err := r.walk(clean, false)
	if err != nil {
		return nil, false, fmt.Errorf("list %s: %w", clean, err)
	}
	defer at.Close()
	err = each(at, func(info fs.FileInfo) bool {
		if strings.HasPrefix(info.Name(), tempPrefix) || !info.IsDir() && !info.Mode().IsRegular() {
			return true
		}
		if more = len(entries) >= limit; more {
			return false
		}
		entries = append(entries, entryOf(info))
		return true
	})
	if err != nil {
		return nil, false, fmt.Errorf("list %s: %w", clean, err)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries, more, nil
}

func entryOf(info fs.FileInfo) Entry {
	e := Entry{Name: info.Name(), Dir: info.IsDir(), ModTime: info.ModTime()}
	if !e.Dir {
		e.Size = info.Size()
	}
	return e
}

// each hands the entries of a directory to fn, in no order, until fn says no. Entries that vanish meanwhile are left out.
func each(at *os.Root, fn func(fs.FileInfo) bool) error {
	d, err := at.Open(".")
	if err != nil {
		return bare(err)
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(listBatch)
		for _, name := range names {
			info, err := at.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return bare(err)
			}
			if !fn(info) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return bare(err)
		}
	}
}

// sweepDepth bounds how deep a sweep goes.
const sweepDepth = 32

// Sweep removes the temporary files that a crash left behind, and says how many. Only those last changed before the given time
// are removed: younger ones may be in use.
func (r *Root) Sweep(before time.Time) (int, error) {
	removed, err := r.sweep(".", before, sweepDepth)
	if err != nil {
		return removed, fmt.Errorf("sweep temporary files: %w", err)
	}
	return removed, nil
}

func (r *Root) sweep(dir string, before time.Time, depth int) (removed int, err error) {
	at, err := r.walk(dir, false)
	if err != nil {
		return 0, err
	}
	defer at.Close()
	var below, stale []string
	err = each(at, func(info fs.FileInfo) bool {
		switch {
		case info.IsDir() && depth > 0:
			below = append(below, info.Name())
		case info.Mode().IsRegular() && strings.HasPrefix(info.Name(), tempPrefix) && info.ModTime().Before(before):
			stale = append(stale, info.Name())
		}
		return true
	})
	for _, name := range stale {
		if e := at.Remove(name); e != nil {
			err = errors.Join(err, bare(e))
			continue
		}
		removed++
	}
	for _, name := range below {
		n, e := r.sweep(path.Join(dir, name), before, depth-1)
		removed += n
		err = errors.Join(err, e)
	}
	return removed, err
}
