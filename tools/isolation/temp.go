package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corebot/corebot"
)

// tempPrefix is how the names of temporary directories of workers begin.
const tempPrefix = "corebot-worker-"

// temp is a temporary directory of one worker. Its maker holds a lock on it as long as the maker lives and wants it.
// The lock tells a directory in use from the leftover of a crash. The lock works across machines, containers and users
// at the same place.
type temp struct {
	path string
	lock *os.File // the directory itself
}

// makeTemp makes a temporary directory for one worker.
func (r *Runner) makeTemp() (*temp, error) {
	for range 10 { // a sweep of another Corebot may take it before it is locked
		path, err := os.MkdirTemp("", tempPrefix)
		if err != nil {
			return nil, corebot.WithHint(fmt.Errorf("make a temporary directory for a worker: %w", err),
				"set the environment variable TMPDIR to a directory that Corebot may write, and restart Corebot")
		}
		t, err := lockTemp(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !t.exists() {
			t.remove()
			continue
		}
		if r.uid != 0 {
			err = t.lock.Chown(r.uid, r.uid)
		}
		if err != nil {
			t.remove()
			return nil, fmt.Errorf("give a temporary directory to the user of workers: %w", err)
		}
		return t, nil
	}
	return nil, errors.New("make a temporary directory for a worker: another program deletes it each time")
}

func lockTemp(path string) (*temp, error) {
	lock, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock a temporary directory: %w", err)
	}
	if err := lockFile(lock, true); err != nil {
		return nil, errors.Join(fmt.Errorf("lock a temporary directory: %w", err), lock.Close(), os.Remove(path))
	}
	return &temp{path, lock}, nil
}

// exists says whether the directory is still what its name stands for.
func (t *temp) exists() bool {
	locked, err := t.lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(t.path)
	return err == nil && os.SameFile(locked, named)
}

// remove takes the directory away. A later sweep takes what remove cannot.
func (t *temp) remove() {
	_ = os.RemoveAll(t.path)
	_ = t.lock.Close()
}

// Sweep removes the temporary directories of workers whose Corebot was killed, and says how many. It never touches one
// that is in use, whoever uses it.
func (r *Runner) Sweep() (removed int, err error) {
	paths, err := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*"))
	for _, path := range paths {
		switch was, e := r.sweep(path); {
		case e != nil && !errors.Is(e, fs.ErrNotExist):
			err = errors.Join(err, fmt.Errorf("remove %s: %w", path, e))
		case was:
			removed++
		}
	}
	return removed, err
}

// sweep removes a directory unless somebody holds it, or it was made by somebody else.
func (r *Runner) sweep(path string) (removed bool, err error) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || !ownedBy(info, os.Geteuid(), r.opts.UID) {
		return false, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return false, err
	}
	t := &temp{path, dir}
	if !t.exists() || lockFile(dir, false) != nil {
		return false, dir.Close()
	}
	defer dir.Close() //nolint:errcheck // only a lock
	return true, os.RemoveAll(path)
}
