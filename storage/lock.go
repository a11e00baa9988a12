package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/swap"
)

// LockError says that another process holds the data directory.
type LockError struct {
	Dir string
	PID int // 0: the holder did not write it
}

func (e *LockError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is in use by another Corebot", e.Dir)
	}
	return fmt.Sprintf("%s is in use by another Corebot, process %d", e.Dir, e.PID)
}

// dirLock is an advisory lock on a file of the data directory. The kernel releases it when the process dies, in
// whatever way.
type dirLock struct{ file *os.File }

// lockDir locks a data directory. It ends a swap that a crash has cut short, so that whoever has the lock sees all old
// or all new.
func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("lock the data directory: %w", err),
			"make "+dir+" writable for the user who runs Corebot, or choose another home with --home")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := &LockError{Dir: dir, PID: readPID(f)}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		return nil, errors.Join(corebot.WithHint(holder,
			"stop that process first, or give this one a home of its own with --home"), f.Close())
	}
	if err := writePID(f); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	if err := swap.Finish(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("end the restore that was cut short: %w", err), f.Close())
	}
	return &dirLock{f}, nil
}

// readPID only informs people. The lock does not depend on it.
func readPID(f io.ReaderAt) int {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Close releases the lock. It leaves the file: without it two processes could lock two files of one name.
func (l *dirLock) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

func makeDir(dir string) error {
	if err := owned.Check(dir); errors.Is(err, owned.ErrNotOurs) { // before anything is created in it
		return fmt.Errorf("the data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return corebot.WithHint(fmt.Errorf("make the data directory: %w", err), owned.Elsewhere(err, filepath.Dir(dir)))
	}
	return ours(dir)
}

// ours refuses a data directory, or a file of the database, that others can change. A user who can write there can
// give himself a role.
func ours(dir string) error {
	for _, name := range []string{"", "lock", FileName, FileName + "-wal", FileName + "-shm"} {
		if err := owned.Check(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("the data directory: %w", err)
		}
	}
	return nil
}
