package seedtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/corebot/corebot/internal/needs"
)

// inSharedMemory is a directory that stands for /dev/shm, in a process whose temporary directories are on disk.
func inSharedMemory(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp(sharedMemory, "seedtest-")
	if err != nil || !inMemory(parent, enough) {
		needs.Missing(t, "memory", "no shared memory has room: ", err)
	}
	usual := before
	before = "/"
	t.Cleanup(func() {
		before = usual
		remove(parent)
	})
	return parent
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestTheDirectoriesOfKilledProcessesAreRemovedAndThoseOfLivingOnesAreNot(t *testing.T) {
	parent := inSharedMemory(t)
	killed, other := filepath.Join(parent, prefix+"1"), filepath.Join(parent, "of-somebody-else")
	for _, dir := range []string{killed, other} {
		if err := os.MkdirAll(filepath.Join(dir, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	living, release := memory(parent)
	next, releaseNext := memory(parent)
	defer releaseNext()
	if living == "" || next == "" || !exists(living) || exists(killed) || !exists(other) {
		t.Fatalf("living: %q, %v; next: %q; of a killed one: %v; of somebody else: %v",
			living, exists(living), next, exists(killed), exists(other))
	}
	if release(); exists(living) || !exists(next) {
		t.Fatal("a release did not remove its own directory alone")
	}
}

func TestTemporaryDirectoriesStayWhereNoMemoryHasRoom(t *testing.T) {
	parent := inSharedMemory(t)
	without := []string{"/proc", filepath.Join(parent, "missing")}
	if disk := t.TempDir(); !inMemory(disk, 0) {
		without = append(without, disk)
	}
	for _, dir := range without {
		if got, _ := memory(dir); got != "" {
			t.Errorf("%s gave %s", dir, got)
		}
	}
	if inMemory(parent, 1<<62) {
		t.Error("there is room for everything")
	}
	before = parent
	if got, _ := memory(parent); got != "" {
		t.Error("temporary directories that are in memory were moved")
	}
}
