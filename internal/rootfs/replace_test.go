package rootfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAReplaceThatFailsTakesItsTemporaryFileAway(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if err := (&Root{}).replace(at, "taken", []byte("x"), 0); err == nil {
		t.Error("a file took the place of a directory")
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}
