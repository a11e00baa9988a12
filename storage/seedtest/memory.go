package seedtest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Main runs the tests of a package [InMemory]. A TestMain calls it for a package whose tests make databases. Its tests
// start no programs from temporary directories: from memory they would start ten times slower.
func Main(m *testing.M) {
	release := InMemory()
	code := m.Run()
	release()
	os.Exit(code)
}

// InMemory has the temporary directories of this process and its children in memory until release. There a commit does
// not wait for a disk. Without such a place they stay on disk. Package vfstest proves what survives a power cut: it
// records each sync above the file system.
//
// [Disk] is for what is better on a disk, such as programs.
func InMemory() (release func()) {
	dir, release := memory(sharedMemory)
	if dir != "" {
		if err := os.Setenv("TMPDIR", dir); err != nil {
			panic(err)
		}
	}
	return release
}

// Disk is the directory for temporary files without [InMemory].
func Disk() string { return before }

// OnDisk is a new directory of one test, on disk unless all temporary directories are in memory. It is for tests in
// which a commit must take its time.
func OnDisk(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(before, "corebot-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(dir) })
	return dir
}

// before is the directory for temporary files without Main.
var before = os.TempDir()

const (
	sharedMemory = "/dev/shm"
	prefix       = "corebot-" // short, because paths of sockets are limited
	enough       = 1 << 30    // bytes that must be free
)

// memory makes a directory below parent if that is in memory, can be written, and has room. Else dir is empty. It
// removes the directories of processes that were killed: a living one holds a lock on its own.
func memory(parent string) (dir string, release func()) {
	none := func() {}
	if inMemory(before, 0) || !inMemory(parent, enough) {
		return "", none
	}
	left, _ := filepath.Glob(filepath.Join(parent, prefix+"*"))
	for _, dir := range left {
		if f := hold(dir); f != nil {
			remove(dir)
			_ = f.Close()
		}
	}
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil || os.Chmod(dir, 0o755) != nil { // others go through it, as they do through the usual one
		return "", none
	}
	f := hold(dir)
	if _, err := os.Stat(dir); f == nil || err != nil { // another process has just removed it
		return "", none
	}
	return dir, func() {
		remove(dir)
		_ = f.Close()
	}
}

func remove(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "remove what tests left in memory:", err)
	}
}

// hold locks a directory; nil: another process holds it, or it is no directory of this user.
func hold(dir string) *os.File {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// inMemory says whether a directory is in memory and has so many bytes free.
func inMemory(dir string, free uint64) bool {
	const tmpfs = 0x01021994
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && uint64(s.Type) == tmpfs && s.Bavail*uint64(s.Bsize) >= free
}
