// Package rootfs reads and writes the files of one directory, and nothing outside it, whatever path it is given.
//
// Guarantees:
//
//   - No path leads out. Paths are relative, free of "..", and are walked one directory at a time through [os.Root]
//     handles. A symbolic link anywhere in a path is refused. Each opened file is compared with its name's entry, so
//     nothing is checked first and used later.
//   - Only plain files are touched: no FIFO, device or socket. A file with a second hard link is refused, because it
//     would be a file of somewhere else too. Files are opened non-blocking and judged by their handle.
//   - Writing is atomic and durable. A reader sees the old file or the new one. After a write returned, the new file
//     survives a power cut.
//   - Two changes of one file through one [Root] never lose one another: [Root.Update] reads and writes under a lock.
//     All writers must share the Root.
//   - A write never makes a folder hold more than its [Quota], or its user take more than his [Share] allows. Writes of
//     other processes are measured before a refusal, after [Root.Changed] or [Root.Hold], and every ten minutes.
//
// Limits: every read names its cap; a path has at most [MaxPath] bytes and [MaxDepth] names; a listing has a cap. Files
// are 0600 and directories 0700, except in a directory of others: see [NewOthers]. On systems without inode link
// counts in the standard library (Windows) the hard link rule is not enforced.
package rootfs

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
)

// Errors that callers decide on, beside fs.ErrNotExist, fs.ErrExist and fs.ErrPermission. They are compared with
// errors.Is.
var (
	ErrEscape     = errors.New("leads out of the workspace")
	ErrBadName    = errors.New("is not a usable path")
	ErrNotRegular = errors.New("is not a plain file")
	ErrNotDir     = errors.New("is not a directory")
	ErrTooLarge   = errors.New("is too large")
)

// stripes is how many locks the files of a root share: more than the turns that write at one time.
const stripes = 64

// Root is one directory. It is safe for use by several goroutines.
type Root struct {
	dir   *os.Root
	self  *os.File                // the directory once more, for looks
	limit func(path string) int64 // nil: none has a limit
	kept  bool                    // files keep their rights and owners: see [NewOthers]
	seed  maphash.Seed
	locks [stripes]sync.Mutex

	changes atomic.Uint64
	foreign atomic.Uint64
	watch   watch
	quota   Quota
	usages  usages
}

// NewBounded is [New] for a directory in which some files and folders have a limit.
//
// A write that would make a file longer than its limit is [ErrTooLarge] and changes nothing. The limit is in bytes, for
// a cleaned path; zero means none. Limit must be a pure function. A write that would make a folder hold more than the
// quota is [ErrFull] and changes no file.
func NewBounded(dir string, limit func(path string) int64, q Quota) (*Root, error) {
	r, err := New(dir)
	if err == nil {
		r.limit, r.quota = limit, q
	}
	return r, err
}

// New opens a directory that exists. Close ends it.
func New(dir string) (*Root, error) {
	const hint = "check that the directory exists and that the user that runs Corebot may read, write and enter it"
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("open the directory %s: %w", dir, bare(err)), hint)
	}
	self, err := itself(root)
	if err != nil {
		root.Close()
		return nil, corebot.WithHint(fmt.Errorf("read the directory %s: %w", dir, bare(err)), hint)
	}
	return &Root{dir: root, self: self, seed: maphash.MakeSeed(), usages: usages{
		now: time.Now, known: map[string]usage{},
		shares: map[string]Share{},
	}}, nil
}

// itself opens the directory of a root, which can be read.
func itself(root *os.Root) (*os.File, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	if _, err = f.Readdirnames(1); err != nil && !isEOF(err) {
		f.Close()
		return nil, err
	}
	return f, nil
}

// NewOthers is [New] for a directory that is not Corebot's own. A file that is written keeps its mode, owner and group;
// if its owner or group cannot be kept, the write fails. A new file or directory is as open as its directory, but never
// open to writers who are neither its owner nor of its group.
func NewOthers(dir string) (*Root, error) {
	r, err := New(dir)
	if err == nil {
		r.kept = true
	}
	return r, err
}

// Info tells of the directory itself.
func (r *Root) Info() (fs.FileInfo, error) { return r.dir.Stat(".") }

// Changes is another number after each change that was made through the Root, and after [Root.Changed].
func (r *Root) Changes() uint64 { return r.changes.Load() }

// Foreign is another number after each [Root.Changed].
func (r *Root) Foreign() uint64 { return r.foreign.Load() }

// Close releases the directory. Later calls of any method fail with os.ErrClosed.
func (r *Root) Close() error {
	r.watch.close()
	_ = r.self.Close() // only looked through
	return r.dir.Close()
}

// lock serializes the writers of one file. Names that a case-folding file system takes for one share a lock.
func (r *Root) lock(path string) *sync.Mutex {
	return &r.locks[r.stripe(path)]
}

func (r *Root) stripe(path string) uint64 { return maphash.String(r.seed, Fold(path)) % stripes }

// bare takes the name off an error of package os: it is the name of one step of a walk, not the path that was asked
// for.
func bare(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	if le := (*os.LinkError)(nil); errors.As(err, &le) {
		return le.Err
	}
	return err
}
