package rootfs

import (
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

const (
	listBatch = 256     // names that are read at a time
	listMost  = 300_000 // names of a directory that are looked at
)

// List returns the plain files and directories of a directory, sorted by name, at most limit of them. It begins behind
// a name, or at the first one if the name is empty. more is how many there are besides. Special files, files that are
// being written, and names that no path can have are left out. List reads all names, however few are wanted. A
// directory of more than 300,000 names, which takes a second, is [ErrTooLarge].
func (r *Root) List(dir, after string, limit int) (entries []Entry, more int, err error) {
	err = r.inDirectory(dir, func(at *os.Root) (err error) {
		var names []string
		if names, more, err = firstNames(at, after, limit, listed); err != nil {
			return err
		}
		for _, name := range names {
			info, err := at.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) { // it has vanished meanwhile
				continue
			}
			if err != nil {
				return bare(err)
			}
			entries = append(entries, entryOf(info))
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return entries, more, nil
}

// inDirectory runs fn on a directory; an error says that it was to be listed.
func (r *Root) inDirectory(dir string, fn func(at *os.Root) error) error {
	clean, err := Clean(dir)
	if err != nil {
		return err
	}
	at, err := r.walk(clean, false)
	if err != nil {
		return fmt.Errorf("list %s: %w", clean, err)
	}
	defer at.Close()
	if err := fn(at); err != nil {
		return fmt.Errorf("list %s: %w", clean, err)
	}
	return nil
}

// firstNames gives the first names of a directory behind one that are wanted, and how many more there are. It holds few
// more than it gives.
func firstNames(at *os.Root, after string, limit int, wanted func(fs.DirEntry) bool) (names []string, more int,
	err error,
) {
	d, err := at.Open(".")
	if err != nil {
		return nil, 0, bare(err)
	}
	defer d.Close()
	cut := func() {
		slices.Sort(names)
		if over := len(names) - limit; over > 0 {
			names, more = names[:limit], more+over
		}
	}
	for seen := 0; ; {
		batch, err := d.ReadDir(listBatch)
		for _, e := range batch {
			if e.Name() > after && wanted(e) {
				names = append(names, e.Name())
			}
		}
		switch seen += len(batch); {
		case errors.Is(err, io.EOF):
			cut()
			return names, more, nil
		case err != nil:
			return nil, 0, bare(err)
		case seen > listMost:
			return nil, 0, fmt.Errorf("%w: it has more than %d names", ErrTooLarge, listMost)
		case len(names) > 2*limit+listBatch:
			cut()
		}
	}
}

func listed(e fs.DirEntry) bool { return nameable(e) && (e.IsDir() || e.Type().IsRegular()) }

// nameable says whether a path can have the name.
func nameable(e fs.DirEntry) bool {
	name, err := Clean(e.Name())
	return err == nil && name == e.Name()
}

func entryOf(info fs.FileInfo) Entry {
	e := Entry{Name: info.Name(), Dir: info.IsDir(), ModTime: info.ModTime()}
	if !e.Dir {
		e.Size = info.Size()
	}
	return e
}

// each hands the entries of a directory to fn, in no order, until fn says no. Entries that vanish meanwhile are left
// out.
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

// Sweep removes the temporary files that a crash left behind, and says how many. Only those last changed before the
// given time are removed: younger ones may be in use.
func (r *Root) Sweep(before time.Time) (int, error) {
	removed, err := r.sweep(".", before, MaxDepth)
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
