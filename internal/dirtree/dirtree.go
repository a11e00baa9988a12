// Package dirtree copies and deletes directory trees that programs have made, and puts a tree in its place whole.
//
// Guarantees:
//
//   - Any name that a file system can have is a name here: also one that is no UTF-8, or has a newline.
//   - Any depth and any width: open files and memory do not grow with the depth of a tree that [Remove] deletes.
//     [Copy] keeps at most [maxOpen] directories open.
//   - Nothing outside of the tree is touched or read. A symbolic link is deleted as a link, and never followed.
//   - [Make] leaves the whole directory or none, also after a kill and a power cut.
//
// Limits: a tree that others change meanwhile is copied as it is found, entry by entry. Devices, sockets, pipes and
// symbolic links are not copied.
package dirtree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/corebot/corebot/internal/fault"
)

const (
	batch = 256 // names that are read at a time
	// maxOpen bounds the directories that a copy keeps open, on each side. Others are opened again by their path.
	maxOpen = 16
	// liftedPrefix begins the names of directories that [Remove] has moved to the top of the tree.
	liftedPrefix = ".corebot-deleted-"
)

// Remove deletes what a path in a directory names, with all below it, and counts what it deleted that is no directory.
// A path that names nothing is no error. It also deletes what only the rights of a directory keep: their owner can
// change them.
//
// A directory is moved to the top of the tree before it is emptied, so no path grows. A deletion that was killed leaves
// all of that in the tree, and Remove deletes it the next time.
func Remove(ctx context.Context, in *os.Root, path string) (files int64, err error) {
	info, err := in.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return 1, in.Remove(path)
	}
	top, err := enter(in, path)
	if err != nil {
		return 0, err
	}
	defer top.Close() //nolint:errcheck // nothing is written to it
	r := remover{ctx: ctx, top: top}
	if err := r.empty(top, ""); err != nil {
		return r.files, err
	}
	return r.files, in.Remove(path)
}

type remover struct {
	ctx    context.Context
	top    *os.Root
	files  int64
	lifted int // names that were tried for directories at the top
}

// empty deletes all that is in a directory of the tree: the top, or a directory there. Directories in a directory
// there go to the top, so the calls are never deeper than two.
func (r *remover) empty(at *os.Root, name string) error {
	for {
		n := 0
		if err := each(at, func(e fs.DirEntry) error {
			n++
			return errors.Join(context.Cause(r.ctx), r.one(at, name, e))
		}); err != nil || n == 0 {
			return err
		}
	}
}

// one deletes an entry of a directory, or moves it to the top.
func (r *remover) one(at *os.Root, in string, e fs.DirEntry) error {
	name := e.Name()
	if !e.IsDir() {
		err := at.Remove(name)
		if err == nil {
			r.files++
		}
		return gone(err)
	}
	if err := at.Remove(name); err == nil || errors.Is(err, fs.ErrNotExist) { // it was empty
		return nil
	}
	if in == "" {
		sub, err := enter(at, name)
		if err != nil {
			return gone(err)
		}
		defer sub.Close() //nolint:errcheck // nothing is written to it
		if err := r.empty(sub, name); err != nil {
			return err
		}
		return gone(at.Remove(name))
	}
	if err := writable(at, name); err != nil { // a directory that moves gets another parent
		return gone(err)
	}
	for {
		r.lifted++
		to := liftedPrefix + strconv.Itoa(r.lifted)
		if _, err := r.top.Lstat(to); err == nil { // an earlier deletion was cut off
			continue
		}
		err := r.top.Rename(in+"/"+name, to)
		fault.Point("dirtree", "lifted")
		return gone(err)
	}
}

// gone takes it for done that something is not there any more.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writable gives the owner of a directory all rights to it.
func writable(at *os.Root, name string) error {
	info, err := at.Lstat(name)
	if err != nil || !info.IsDir() || info.Mode()&0o700 == 0o700 {
		return err
	}
	return at.Chmod(name, info.Mode().Perm()|0o700)
}

// enter opens a directory for its deletion. An [os.Root] would follow a symbolic link: the opened directory is compared
// with the entry.
func enter(at *os.Root, name string) (*os.Root, error) {
	if err := writable(at, name); err != nil {
		return nil, err
	}
	return open(at, name)
}

// open opens a directory that is none by a link. The "/." makes the system refuse a FIFO instead of waiting for it.
func open(at *os.Root, name string) (*os.Root, error) {
	sub, err := at.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	opened, err := sub.Stat(".")
	if err == nil {
		err = sameEntry(at, name, opened)
	}
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}

func sameEntry(at *os.Root, name string, opened fs.FileInfo) error {
	entry, err := at.Lstat(name)
	if err == nil && !os.SameFile(entry, opened) {
		err = fmt.Errorf("%q has become a link, or something else, meanwhile", name)
	}
	return err
}

// each calls a function for the entries of a directory, while the entries can vanish.
func each(at *os.Root, fn func(fs.DirEntry) error) error {
	d, err := at.Open(".")
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // only read
	for {
		entries, err := d.ReadDir(batch)
		for _, e := range entries {
			if err := fn(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Copied is what [Copy] has done.
type Copied struct {
	Files int64
	Left  int64 // links, FIFOs, sockets and devices, which are not copied
}

// Copy copies the directories and regular files of a directory into an empty one, and has all of them on disk. Rights
// are those of the owner alone. An entry that vanishes meanwhile is left out.
func Copy(ctx context.Context, from, to *os.Root) (Copied, error) {
	c := copier{ctx: ctx, from: from, to: to}
	err := c.run()
	return c.Copied, err
}

type copier struct {
	Copied
	ctx      context.Context
	from, to *os.Root
	path     []string // of the directory that is copied
	stack    []level
}

// level is a directory with subdirectories that are still to be copied.
type level struct {
	from, to *os.Root // nil: opened again by the path
	left     []string
}

func (c *copier) run() error {
	defer func() {
		for _, l := range c.stack {
			l.close()
		}
	}()
	if err := c.enter(c.from, c.to, "."); err != nil {
		return err
	}
	for len(c.stack) > 0 {
		l := &c.stack[len(c.stack)-1]
		if len(l.left) == 0 {
			l.close()
			c.stack = c.stack[:len(c.stack)-1]
			c.path = c.path[:max(len(c.path)-1, 0)]
			continue
		}
		if err := c.reopen(l); err != nil {
			return err
		}
		name := l.left[len(l.left)-1]
		l.left = l.left[:len(l.left)-1]
		c.path = append(c.path, name)
		before := len(c.stack)
		if err := c.enter(l.from, l.to, name); err != nil {
			return err
		}
		if len(c.stack) == before { // it is not there any more
			c.path = c.path[:len(c.path)-1]
		}
		if at := len(c.stack) - 1 - maxOpen; at >= 0 {
			c.stack[at].close()
		}
		if l := &c.stack[before-1]; len(l.left) == 0 {
			l.close()
		}
	}
	return nil
}

func (l *level) close() {
	if l.from != nil {
		_ = errors.Join(l.from.Close(), l.to.Close()) // a directory is synced before it is closed
	}
	l.from, l.to = nil, nil
}

// reopen opens a level again that was closed, step by step: a path can be longer than the system takes.
func (c *copier) reopen(l *level) (err error) {
	if l.from != nil {
		return nil
	}
	if l.from, err = descend(c.from, c.path); err != nil {
		l.from = nil
		return err
	}
	if l.to, err = descend(c.to, c.path); err != nil {
		err = errors.Join(err, l.from.Close())
		l.from, l.to = nil, nil
	}
	return err
}

func descend(at *os.Root, path []string) (*os.Root, error) {
	at, err := at.OpenRoot(".")
	for _, name := range path {
		if err != nil {
			return nil, err
		}
		var next *os.Root
		next, err = open(at, name)
		err = errors.Join(err, at.Close())
		at = next
	}
	return at, err
}

// enter copies the files of a directory, makes its subdirectories, and puts the directory on the stack.
func (c *copier) enter(fromParent, toParent *os.Root, name string) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	from, err := open(fromParent, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	to, err := toParent.OpenRoot(name)
	if err != nil {
		return errors.Join(err, from.Close())
	}
	c.stack = append(c.stack, level{from: from, to: to})
	l := &c.stack[len(c.stack)-1]
	if err := each(from, func(e fs.DirEntry) error {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		switch {
		case e.IsDir():
			l.left = append(l.left, e.Name())
			return to.Mkdir(e.Name(), 0o700)
		case !e.Type().IsRegular():
			c.Left++
			return nil
		}
		did, err := copyFile(c.ctx, from, to, e.Name())
		if did {
			c.Files++
		}
		return gone(err)
	}); err != nil {
		return err
	}
	return Sync(to)
}

// copyFile copies a regular file, and has its bytes on disk.
func copyFile(ctx context.Context, from, to *os.Root, name string) (did bool, err error) {
	in, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not make us wait
	if err != nil {
		return false, err
	}
	defer in.Close() //nolint:errcheck // only read
	info, err := in.Stat()
	if err == nil {
		err = sameEntry(from, name, info)
	}
	if err != nil {
		return false, err
	}
	return true, Write(to, name, func(w io.Writer) error {
		_, err := io.Copy(w, reader{ctx, in})
		return err
	})
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Write makes a new file, with rights of its owner alone, and has its bytes on disk.
func Write(at *os.Root, name string, fill func(io.Writer) error) error {
	out, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = fill(out); err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// Sync has the names of a directory on disk.
func Sync(at *os.Root) error {
	d, err := at.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
