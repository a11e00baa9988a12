package apptest

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

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

// Alter runs a statement on the database as another program does, behind the back of the kit's store. It waits for a
// commit that is under way.
func (k *Kit) Alter(statement string, args ...any) {
	k.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, storage.FileName)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		k.t.Fatal(err)
	}
	_, err = db.Exec(statement, args...)
	if err := errors.Join(err, db.Close()); err != nil {
		k.t.Fatal(err)
	}
}
