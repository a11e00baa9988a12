package tools

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// maxBoundEntries is how many files and directories a directory may have, at any depth, in which a call that waits for
// an approval works.
const maxBoundEntries = 1000

// errTooMuch: more than can be compared.
var errTooMuch = errors.New("has too much in it to be compared")

// Directory implements [Contents] for the directories of a workspace. Nothing is left out: a name that no tool could
// read is one that a program can, and a link is what it says, not what is there.
func (f *Files) Directory(dir string) (string, error) {
	all := survey{sum: sha256.New(), left: maxBoundFile}
	if err := all.of(f.workspace, dir); err != nil {
		return "", fmt.Errorf("compare the directory %s: %w", dir, err)
	}
	return all.String(), nil
}

// Empty implements [Contents] for the directories of a workspace.
func (f *Files) Empty(dir string) (bool, error) {
	at, err := openDir(f.workspace, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look into the directory %s: %w", dir, err)
	}
	defer at.Close() //nolint:errcheck // only read
	names, err := namesIn(at, 1)
	return len(names) == 0, err
}

// survey adds up everything below a directory, by name, within limits.
type survey struct {
	sum     hash.Hash
	entries int // seen
	files   int // of them, all but directories
	left    int64
}

func (s *survey) String() string {
	files := fmt.Sprintf("%d files", s.files)
	if s.files == 1 {
		files = "1 file"
	}
	return fmt.Sprintf("%s, sha256:%x", files, s.sum.Sum(nil))
}

// of surveys a directory. One that is missing is as one that is empty: it is made for the first program.
func (s *survey) of(workspace *os.Root, dir string) error {
	at, err := openDir(workspace, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.Close() //nolint:errcheck // only read
	return s.walk(at, ".", 0)
}

func (s *survey) walk(at *os.Root, dir string, depth int) error {
	names, err := namesIn(at, maxBoundEntries-s.entries+1)
	if err != nil {
		return err
	}
	if s.entries += len(names); s.entries > maxBoundEntries || depth > rootfs.MaxDepth {
		return tooMuch()
	}
	for _, name := range names {
		if err := s.add(at, name, path.Join(dir, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// add notes one entry, and what is below it. The quotes keep names apart that have any bytes in them.
func (s *survey) add(at *os.Root, name, full string, depth int) error {
	info, err := at.Lstat(name)
	if err != nil {
		return err
	}
	what := info.Mode().Type().String() // of a FIFO or a socket nothing else can be compared
	switch {
	case info.IsDir():
		what = "directory"
	case info.Mode().IsRegular():
		what, err = s.content(at, name, info)
	case info.Mode()&fs.ModeSymlink != 0:
		what, err = at.Readlink(name)
		what = fmt.Sprintf("link %q", what)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.sum, "%q %s\n", full, what)
	if !info.IsDir() {
		s.files++
		return nil
	}
	below, err := openDir(at, name)
	if err != nil {
		return err
	}
	defer below.Close() //nolint:errcheck // only read
	return s.walk(below, full, depth+1)
}

// content is the hash of a file, and whether it can be run.
func (s *survey) content(at *os.Root, name string, entry fs.FileInfo) (string, error) {
	f, err := at.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO that came meanwhile must not make us wait
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := same(f, entry); err != nil {
		return "", err
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, s.left+1))
	if err != nil {
		return "", err
	}
	if s.left -= n; s.left < 0 {
		return "", tooMuch()
	}
	kind := "file"
	if entry.Mode().Perm()&0o111 != 0 {
		kind = "program"
	}
	return fmt.Sprintf("%s %x", kind, h.Sum(nil)), nil
}

// openDir opens a directory that is no link. The "/." makes the system refuse what is no directory instead of waiting
// at a FIFO.
func openDir(at *os.Root, name string) (*os.Root, error) {
	entry, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	dir, err := at.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(entry, opened) {
		err = fmt.Errorf("%s is a link, or was exchanged meanwhile", name)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// same refuses what was reached by a name that stands for something else by now.
func same(f *os.File, entry fs.FileInfo) error {
	opened, err := f.Stat()
	if err == nil && !os.SameFile(entry, opened) {
		err = fmt.Errorf("%s was exchanged meanwhile", entry.Name())
	}
	return err
}

// namesIn gives the names of a directory, sorted. It reads few more than limit: with so many it ends.
func namesIn(at *os.Root, limit int) (names []string, err error) {
	d, err := at.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // only read
	for len(names) < limit {
		some, err := d.Readdirnames(limit - len(names))
		names = append(names, some...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

func tooMuch() error {
	return corebot.WithHint(fmt.Errorf("it %w: more than %d files and directories, more than %d MiB, or deeper than %d",
		errTooMuch, maxBoundEntries, maxBoundFile>>20, rootfs.MaxDepth),
		"have the operator remove from it what is no longer needed, or ask in another chat, which has a directory "+
			"of its own")
}
