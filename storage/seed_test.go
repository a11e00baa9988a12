package storage

import (
	"context"
	"testing"

	"github.com/corebot/corebot/storage/seedtest"
)

var empty = seedtest.New(FileName, func(dir string) error {
	db, err := Open(context.Background(), dir, Options{})
	if err != nil {
		return err
	}
	return db.Close()
})

// Seed puts an empty database into a directory that has none.
func Seed(dir string) error { return empty.Put(dir) }

// seeded is a new directory with an empty database.
func seeded(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, Seed(dir))
	return dir
}

func TestMain(m *testing.M) { seedtest.Main(m) }
