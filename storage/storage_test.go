package storage

import (
	"context"
	"testing"
)

// openTest opens the database of a directory with a running writer, until the test ends.
func openTest(t testing.TB, dir string) *DB {
	t.Helper()
	db, err := Open(context.Background(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
