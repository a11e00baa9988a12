package apptest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/corebot/corebot/storage"
)

// empty is a database of the newest schema with nothing in it. Making one takes all migrations, which under the race detector is most of a
// second; hundreds of tests begin with one.
var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "corebot-apptest-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // of a test
	db, err := storage.Open(context.Background(), dir, storage.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, storage.FileName))
})

// Seed puts an empty database into a directory that has none.
func Seed(dir string) error {
	file, err := empty()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, storage.FileName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.Write(file)
		err = errors.Join(err, f.Close())
	}
	return err
}
