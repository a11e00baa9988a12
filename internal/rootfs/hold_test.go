package rootfs_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/rootfs"
)

func TestAFileThatIsHeldIsWrittenByNobodyAndReadByAll(t *testing.T) {
	dir := t.TempDir()
	root, err := rootfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // only a test's
	if err := root.Write("a", []byte("old")); err != nil {
		t.Fatal(err)
	}
	release, err := root.Hold("./a")
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- root.Write("A", []byte("new")) }() // one file to some systems
	// Files share locks, so that one of these may have to wait too, and hardly ever all four.
	others := []string{"b", "c", "d", "e"}
	done := make(chan error, len(others))
	for _, name := range others {
		go func() { done <- root.Write(name, []byte("other")) }()
	}
	if err := <-done; err != nil {
		t.Errorf("another file: %v", err)
	}
	if text, err := root.ReadFile("a", 10); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	select {
	case <-written:
		t.Fatal("it was written while it was held")
	case <-time.After(50 * time.Millisecond): // none is needed where it holds
	}
	release()
	if err := <-written; err != nil {
		t.Error(err)
	}
	for range len(others) - 1 {
		if err := <-done; err != nil {
			t.Errorf("another file: %v", err)
		}
	}
	if _, err := os.Stat(dir + "/A"); err != nil {
		t.Error(err)
	}
	if _, err := root.Hold("../a"); !errors.Is(err, rootfs.ErrEscape) {
		t.Errorf("got %v", err)
	}
}
