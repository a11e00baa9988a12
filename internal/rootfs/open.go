package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// walk opens the directory of a cleaned path. With create, directories that are missing are made. The caller closes it.
func (r *Root) walk(dir string, create bool) (*os.Root, error) {
	at, err := r.dir.OpenRoot(".")
	if err != nil {
		return nil, bare(err)
	}
	if dir == "." {
		return at, nil
	}
	for name := range strings.SplitSeq(dir, "/") {
		next, err := enter(at, name)
		if create && errors.Is(err, fs.ErrNotExist) {
			next, err = r.makeAndEnter(at, name)
		}
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// looks bounds how often a name is opened that stands for another file each time.
const looks = 100

// errReplaced says that another file took the place of an opened one. Every write of this package does that.
var errReplaced = fmt.Errorf("%w: others put another file in its place again and again", ErrNotRegular)

// settledly opens what a name stands for, and again while others put something else in its place meanwhile.
func settledly[T any](open func() (T, error)) (found T, err error) {
	for range looks {
		if found, err = open(); !errors.Is(err, errReplaced) {
			break
		}
	}
	return found, err
}

// enter opens the directory called name, as it is in the end. See [enterOnce].
func enter(at *os.Root, name string) (*os.Root, error) {
	return settledly(func() (*os.Root, error) { return enterOnce(at, name) })
}

// enterOnce opens the directory called name. The "/." makes the system refuse a FIFO there instead of waiting for its
// writer. An os.Root would follow a symbolic link. So enterOnce compares the opened directory with the name's own
// entry, and finds a link.
func enterOnce(at *os.Root, name string) (*os.Root, error) {
	sub, err := at.OpenRoot(name + "/.")
	if err != nil {
		return nil, explain(at, name, err)
	}
	opened, err := sub.Stat(".")
	if err == nil {
		err = sameEntry(at, name, opened)
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

func (r *Root) makeAndEnter(at *os.Root, name string) (*os.Root, error) {
	err := at.Mkdir(name, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, bare(err)
	}
	made := err == nil
	if err := syncDir(at); err != nil {
		return nil, err
	}
	next, err := enter(at, name)
	if err == nil && made && r.kept {
		if err = openAsParent(at, next); err != nil {
			next.Close()
			return nil, bare(err)
		}
	}
	return next, err
}

// openFile opens a plain file for reading, by its cleaned path. The caller closes it.
func (r *Root) openFile(name string) (*os.File, fs.FileInfo, error) {
	at, err := r.walk(path.Dir(name), false)
	if err != nil {
		return nil, nil, err
	}
	defer at.Close()
	f, err := settledly(func() (opened, error) { return openPlain(at, path.Base(name)) })
	return f.File, f.info, err
}

// opened is a file with what the system said of it then.
type opened struct {
	*os.File
	info fs.FileInfo
}

func openPlain(at *os.Root, name string) (opened, error) {
	f, err := at.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not make us wait
	if err != nil {
		return opened{}, explain(at, name, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = sameEntry(at, name, info)
	}
	if err == nil {
		err = plain(info)
	}
	if err != nil {
		f.Close()
		return opened{}, bare(err)
	}
	return opened{f, info}, nil
}

// sameEntry refuses what was reached through a symbolic link: then the entry is the link, not what was opened. An entry
// of another file is [errReplaced]: a write has put it there meanwhile.
func sameEntry(at *os.Root, name string, opened fs.FileInfo) error {
	entry, err := at.Lstat(name)
	switch {
	case err != nil:
		return bare(err)
	case entry.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link", ErrEscape, name)
	case !os.SameFile(entry, opened):
		return errReplaced
	}
	return nil
}

// plain refuses everything but a regular file with one name.
func plain(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%w: it is a directory", ErrNotRegular)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is a FIFO, a device or a socket", ErrNotRegular)
	case links(info) > 1:
		return fmt.Errorf("%w: it has %d hard links", ErrNotRegular, links(info))
	}
	return nil
}

// explain finds the better word for an error of opening name. It only words the refusal; the refusal stands already.
func explain(at *os.Root, name string, err error) error {
	err = bare(err)
	entry, lerr := at.Lstat(name)
	switch {
	case lerr != nil:
		return err
	case entry.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link", ErrEscape, name)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s", ErrNotDir, name)
	case !entry.IsDir() && !entry.Mode().IsRegular():
		return plain(entry)
	}
	return err
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
