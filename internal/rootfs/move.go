package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

var (
	errOntoItself = errors.New("a directory cannot become a part of itself, nor a file take its own place")
	errDirOfChat  = errors.New("a directory cannot be moved into the files of a chat, or out of them")
)

// Move gives a plain file, or a directory with all that is in it, another path, and makes the directories that are
// missing. If something is at the new path already, the error is fs.ErrExist. With over, a plain file there is replaced
// by the file that moves. The function check is asked when no other write of this Root can come between its answer and
// the move. The function can read through the Root; its error is returned wrapped.
func (r *Root) Move(from, to string, over bool, check func() error) error {
	source, err := Clean(from)
	if err != nil {
		return err
	}
	target, err := Clean(to)
	if err != nil {
		return err
	}
	defer r.lockBoth(source, target)()
	m := mover{root: r, from: source, to: target, over: over}
	defer m.enter()()
	defer r.changes.Add(1)
	if err = m.run(check); err != nil {
		return fmt.Errorf("move %s to %s: %w", source, target, err)
	}
	return nil
}

// lockBoth locks two files in an order that all share.
func (r *Root) lockBoth(a, b string) (unlock func()) {
	first, second := r.stripe(a), r.stripe(b)
	if first > second {
		first, second = second, first
	}
	r.locks[first].Lock()
	if first != second {
		r.locks[second].Lock()
	}
	return func() {
		if first != second {
			r.locks[second].Unlock()
		}
		r.locks[first].Unlock()
	}
}

// mover is one move under way.
type mover struct {
	root         *Root
	from, to     string
	over         bool
	leaves, gets room // the folders with a limit
}

// enter waits until nobody else changes the folders of the two paths, in an order that all share.
func (m *mover) enter() (leave func()) {
	q, u := m.root.quota, &m.root.usages
	from, fromDepth, limitsFrom := q.folder(m.from)
	to, toDepth, limitsTo := q.folder(m.to)
	var stripes []uint64
	if limitsFrom {
		m.leaves = room{m.root, from, fromDepth}
		stripes = append(stripes, m.root.stripe(from))
	}
	if limitsTo {
		m.gets = room{m.root, to, toDepth}
		stripes = append(stripes, m.root.stripe(to))
	}
	if len(stripes) == 2 {
		stripes[0], stripes[1] = min(stripes[0], stripes[1]), max(stripes[0], stripes[1])
		if stripes[0] == stripes[1] {
			stripes = stripes[:1]
		}
	}
	for _, s := range stripes {
		u.locks[s].Lock()
	}
	return func() {
		for _, s := range stripes {
			u.locks[s].Unlock()
		}
	}
}

func (m *mover) run(check func() error) error {
	if m.from == "." || m.to == "." || Within(m.to, m.from) || Within(m.from, m.to) {
		return errOntoItself
	}
	return m.root.in(m.from, false, func(at *os.Root, name string) error {
		info, err := at.Lstat(name)
		switch {
		case err != nil:
			return bare(err)
		case !info.IsDir():
			err = replaceable(at, name)
		case m.leaves.dir != m.gets.dir:
			err = errDirOfChat
		}
		if err == nil {
			err = check()
		}
		if err != nil {
			return err
		}
		return m.into(at, name, info)
	})
}

// bounded refuses a file that is too large for its new path: the one that moves, or any of the directory that moves.
func (m *mover) bounded(at *os.Root, name string) error {
	return fs.WalkDir(at.FS(), name, func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return bare(err)
		}
		info, err := e.Info()
		if err != nil {
			return bare(err)
		}
		return m.root.bounded(path.Join(m.to, strings.TrimPrefix(file, name)), info.Size())
	})
}

// into moves an entry of a directory to its new path.
func (m *mover) into(at *os.Root, name string, info fs.FileInfo) error {
	size := int64(0)
	if !info.IsDir() {
		size = info.Size()
	}
	if err := m.bounded(at, name); err != nil {
		return err
	}
	moved := Usage{Bytes: size, Entries: 1}
	if m.leaves.dir == m.gets.dir {
		moved = Usage{}
	}
	dirs := m.gets.missing(m.to)
	if err := m.gets.admit(Usage{moved.Bytes, moved.Entries + dirs}); err != nil {
		return err
	}
	return m.root.in(m.to, true, func(into *os.Root, as string) error {
		m.gets.grown(Usage{Entries: dirs}, nil)
		replaces := Usage{}
		if m.over && !info.IsDir() {
			if err := replaceable(into, as); err != nil {
				return err
			}
			if _, err := into.Lstat(as); err == nil {
				replaces = Usage{sizeOf(into, as), 1}
			}
		}
		err := rename(at, name, into, as, m.over && !info.IsDir())
		if err == nil {
			err = errors.Join(syncDir(into), syncDir(at))
		}
		m.gets.grown(Usage{moved.Bytes - replaces.Bytes, moved.Entries - replaces.Entries}, err)
		m.leaves.grown(Usage{-moved.Bytes, -moved.Entries}, err)
		return err
	})
}

// rename moves an entry from one directory to another, by their descriptors: no link on the way is followed.
func rename(from *os.Root, name string, to *os.Root, as string, over bool) error {
	source, err := from.Open(".")
	if err != nil {
		return bare(err)
	}
	defer source.Close()
	target, err := to.Open(".")
	if err != nil {
		return bare(err)
	}
	defer target.Close()
	return renameAt(source, name, target, as, over)
}

// RemoveDir takes away a directory with nothing in it. One that is not there is fs.ErrNotExist.
func (r *Root) RemoveDir(dir string) error {
	return r.locked(dir, "remove the directory", func(clean string, rm room) error {
		return r.in(clean, false, func(at *os.Root, name string) error {
			info, err := at.Lstat(name)
			switch {
			case err != nil:
				return bare(err)
			case !info.IsDir():
				return fmt.Errorf("%w: %s", ErrNotDir, name)
			}
			if err = at.Remove(name); err == nil {
				err = syncDir(at)
			}
			rm.grown(Usage{Entries: -1}, err)
			return bare(err)
		})
	})
}

// MissingFrom is the topmost directory that a write to a path would make; empty: all are there.
func (r *Root) MissingFrom(file string) (string, error) {
	clean, err := Clean(file)
	if err != nil {
		return "", err
	}
	top := ""
	for dir := path.Dir(clean); dir != "."; dir = path.Dir(dir) {
		_, err := r.dir.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			top = dir
			continue
		}
		if err != nil {
			err = fmt.Errorf("look for %s: %w", dir, bare(err))
		}
		return top, err
	}
	return top, nil
}
