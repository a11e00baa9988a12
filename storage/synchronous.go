package storage

import (
	"context"
	"fmt"
)

var selectSynchronous = &query{`PRAGMA synchronous`}

// Synchronous reads back from the write connection how it syncs: "OFF", "NORMAL", "FULL" or "EXTRA". Guarantee G1 needs FULL. It
// is for those who report figures: a figure without its durability says nothing.
func (db *DB) Synchronous(ctx context.Context) (string, error) {
	var level int
	err := db.write(ctx, "synchronous", func(t *tx) error {
		_, err := t.one(selectSynchronous, []any{&level})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read how the database syncs: %w", err)
	}
	names := [...]string{"OFF", "NORMAL", "FULL", "EXTRA"}
	if level < 0 || level >= len(names) {
		return "", fmt.Errorf("read how the database syncs: SQLite says %d", level)
	}
	return names[level], nil
}
