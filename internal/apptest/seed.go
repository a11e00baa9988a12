package apptest

import (
	"context"

	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/storage/seedtest"
)

var empty = seedtest.New(storage.FileName, func(dir string) error {
	db, err := storage.Open(context.Background(), dir, storage.Options{})
	if err != nil {
		return err
	}
	return db.Close()
})

// Seed puts an empty database into a directory that has none.
func Seed(dir string) error { return empty.Put(dir) }
