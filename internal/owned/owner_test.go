package owned_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/corebot/corebot/internal/owned"
)

func TestTheOwnerOfADirectoryIsWhomTheKernelNames(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		if uid, ok := owned.Owner(path); !ok || uid != os.Geteuid() {
			t.Errorf("owner of %s: %d, %v", path, uid, ok)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), file} {
		if uid, ok := owned.Owner(path); ok {
			t.Errorf("%s has the owner %d", path, uid)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if uid, ok := owned.Owner(link); !ok || uid != 12345 {
		t.Errorf("owner after chown: %d, %v", uid, ok)
	}
}
