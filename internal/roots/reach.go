package roots

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// ErrMissing is in the error for an open directory that is not there now.
var ErrMissing = errors.New("is not there")

// kernels are where files of the kernel are: some of them show what is in the memory of Corebot.
var kernels = []string{"/proc", "/sys"}

// look says where a directory really is, and refuses one that reaches closed paths.
func look(path string, closed []string) (real string, info fs.FileInfo, err error) {
	if real, err = filepath.EvalSymlinks(path); err == nil {
		info, err = os.Stat(real)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = corebot.WithHint(fmt.Errorf("the directory %s %w", path, ErrMissing),
			"make it or mount it, or take it out of tools.roots")
	case err != nil:
		err = fmt.Errorf("the directory %s: %w", path, err)
	case !info.IsDir():
		err = corebot.WithHint(fmt.Errorf("%w: %s is not a directory", corebot.ErrInvalid, path),
			"name the directory that the file is in")
	}
	if err != nil {
		// A missing directory can still have a name in a closed one.
		if reaches := reachesAny(path, nil, closed); reaches != nil {
			return "", nil, reaches
		}
		return "", nil, err
	}
	if err := reachesAny(real, info, closed); err != nil {
		return "", nil, err
	}
	return real, info, nil
}

// reachesAny refuses a directory that has a closed path in it, or is in one.
func reachesAny(real string, info fs.FileInfo, closed []string) error {
	for _, kernel := range kernels {
		if real == kernel || within(real, kernel) {
			return fmt.Errorf("%w: %s is of the kernel", corebot.ErrInvalid, real)
		}
	}
	for _, path := range closed {
		at, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			at, err = path, nil
		}
		if err != nil {
			return fmt.Errorf("look for %s: %w", path, err)
		}
		switch {
		case real == at, within(at, real), isOneOf(info, at):
			return corebot.WithHint(fmt.Errorf("%w: %s has %s in it, which is Corebot's own", corebot.ErrInvalid, real,
				path), "name the directories in it that Corebot is to reach")
		case within(real, at):
			return corebot.WithHint(fmt.Errorf("%w: %s is in %s, which is Corebot's own", corebot.ErrInvalid, real,
				path), "files of the workspace need no setting; name a directory of yours")
		}
	}
	return nil
}

// isOneOf says whether a directory is another name of a path, or of a directory around the path. A bind mount gives
// such a name.
func isOneOf(info fs.FileInfo, path string) bool {
	for ; info != nil; path = filepath.Dir(path) {
		if at, err := os.Stat(path); err == nil && os.SameFile(at, info) {
			return true
		}
		if path == filepath.Dir(path) {
			break
		}
	}
	return false
}

// Disk opens the directories of a list. All agents of a process share one, so that their writers share locks. It is
// safe for use by several goroutines.
type Disk struct {
	list   List
	closed []string

	mu   sync.Mutex
	open map[string]opened // by the path of the directory
}

type opened struct {
	root *rootfs.Root
	info fs.FileInfo
}

// NewDisk opens nothing yet. The closed paths are those of [NewList].
func NewDisk(list List, closed ...string) *Disk {
	return &Disk{list: list, closed: closed, open: map[string]opened{}}
}

// List gives the directories. A nil Disk has none.
func (d *Disk) List() List {
	if d == nil {
		return List{}
	}
	return d.list
}

// Check says why a directory cannot be reached now.
func (d *Disk) Check(dir Dir) error {
	_, err := d.at(dir)
	return err
}

// Where says where a directory is now, without links.
func (d *Disk) Where(dir Dir) (string, error) {
	if err := d.Check(dir); err != nil {
		return "", err
	}
	real, _, err := look(dir.Path, d.closed)
	return real, err
}

// at opens a directory, or gives the one that is open if it is still the one of that name.
func (d *Disk) at(dir Dir) (*rootfs.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	real, info, err := look(dir.Path, d.closed)
	if err != nil {
		return nil, err
	}
	if was, ok := d.open[dir.Path]; ok && os.SameFile(was.info, info) {
		return was.root, nil
	}
	root, err := rootfs.NewOthers(real)
	if err != nil {
		return nil, err
	}
	if now, err := root.Info(); err != nil || !os.SameFile(now, info) {
		return nil, errors.Join(fmt.Errorf("open %s: it was exchanged meanwhile", dir.Path), err, root.Close())
	}
	// The last one is left to those who still use it: its descriptor is closed when nobody does.
	d.open[dir.Path] = opened{root, info}
	return root, nil
}

// Close releases the directories.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []error
	for _, o := range d.open {
		all = append(all, o.root.Close())
	}
	clear(d.open)
	return errors.Join(all...)
}

// Reach is what the tools of one agent reach: its workspace and the open directories.
type Reach struct {
	workspace *rootfs.Root
	disk      *Disk
}

// NewReach joins a workspace and a disk.
func NewReach(workspace *rootfs.Root, disk *Disk) *Reach { return &Reach{workspace, disk} }

// Only is the reach of a workspace and nothing else.
func Only(workspace *rootfs.Root) *Reach { return NewReach(workspace, nil) }

// Workspace gives the workspace alone.
func (r *Reach) Workspace() *rootfs.Root { return r.workspace }

// List gives the open directories.
func (r *Reach) List() List { return r.disk.List() }

// Find says what a path means; see [List.Find].
func (r *Reach) Find(path string) (Place, error) { return r.disk.List().Find(path) }

// At opens what a path leads into. The second result is the path in there, which methods of the root take.
func (r *Reach) At(path string) (*rootfs.Root, Place, error) {
	p, err := r.Find(path)
	if err != nil {
		return nil, p, err
	}
	root, err := r.rootOf(p)
	return root, p, err
}

func (r *Reach) rootOf(p Place) (*rootfs.Root, error) {
	if p.InWorkspace() {
		return r.workspace, nil
	}
	return r.disk.at(p.Dir)
}

// Writable is [Reach.At] for a place that is to be changed. Policy refuses to change what is open for reading only;
// this is a second wall behind it.
func (r *Reach) Writable(path string) (*rootfs.Root, Place, error) {
	root, p, err := r.At(path)
	if err == nil && !p.InWorkspace() && !p.Dir.Write {
		return nil, p, fmt.Errorf("%s is open for reading only: %w", p.Dir.Path, fs.ErrPermission)
	}
	return root, p, err
}
