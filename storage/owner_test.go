package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corebot/corebot/internal/owned"
)

func TestADatabaseThatOthersCanChangeIsOpenedByNobody(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	earlier(t, dir, func(*DB) {})
	// nothing shuts others out
	must(t, errors.Join(os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755), os.Chmod(filepath.Dir(dir), 0o755),
		os.Chmod(dir, 0o711)))
	for _, name := range []string{"", FileName, "lock"} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		must(t, err)
		must(t, os.Chmod(path, info.Mode().Perm()|0o020))
		if db, err := Open(t.Context(), dir, Options{}); !errors.Is(err, owned.ErrNotOurs) {
			t.Errorf("%q was opened: %v, %v", name, db, err)
		}
		if db, err := OpenReader(t.Context(), dir); !errors.Is(err, owned.ErrNotOurs) {
			t.Errorf("%q was opened for reading: %v, %v", name, db, err)
		}
		must(t, os.Chmod(path, info.Mode().Perm()))
	}
	open := filepath.Join(filepath.Dir(dir), "open")
	must(t, errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)))
	if _, err := Open(t.Context(), filepath.Join(open, "data"), Options{}); !errors.Is(err, owned.ErrNotOurs) {
		t.Errorf("a directory in one that everyone can write: %v", err)
	}
	if _, err := os.Stat(filepath.Join(open, "data")); err == nil {
		t.Error("it was made all the same")
	}
	openTest(t, dir)
}
