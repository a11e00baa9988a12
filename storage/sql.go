package storage

import (
	"fmt"
	"time"
)

// query is one SQL statement. Its address is its name: prepared statements are found by it.
type query struct{ sql string }

// scanner is a row of the writer or of a reader.
type scanner interface{ Scan(dest ...any) error }

// fromMillis reads what [engine.Millis] wrote.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// moment scans a stored time.
type moment struct{ to *time.Time }

func (m moment) Scan(v any) error {
	ms, ok := v.(int64)
	if !ok && v != nil {
		return fmt.Errorf("storage: a time is stored as %T", v)
	}
	*m.to = fromMillis(ms)
	return nil
}
