package storage

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// query is one SQL statement. Its address is its name: prepared statements are found by it.
type query struct{ sql string }

// scanner is a row of the writer or of a reader.
type scanner interface{ Scan(dest ...any) error }

// value turns what callers pass into what the driver takes. Named string types are converted by the caller.
func value(v any) (driver.Value, error) {
	switch x := v.(type) {
	case nil, int64, string, []byte, float64:
		return x, nil
	case int:
		return int64(x), nil
	case time.Time:
		return millis(x), nil
	case bool:
		if x {
			return int64(1), nil
		}
		return int64(0), nil
	}
	return nil, fmt.Errorf("storage: no SQL value for %T", v)
}

// millis stores a time; the zero time is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromMillis reads what millis wrote.
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

// values are the columns of one row as the driver gives them.
type values []driver.Value

func (r values) Scan(dest ...any) error {
	if len(dest) != len(r) {
		return fmt.Errorf("storage: %d columns into %d places", len(r), len(dest))
	}
	for i, d := range dest {
		if err := assign(d, r[i]); err != nil {
			return fmt.Errorf("storage: column %d: %w", i, err)
		}
	}
	return nil
}

func assign(dest any, v driver.Value) error {
	ok := true
	switch d := dest.(type) {
	case *int64:
		if v == nil {
			*d = 0
			return nil
		}
		*d, ok = v.(int64)
	case *int:
		var n int64
		n, ok = v.(int64)
		*d = int(n)
	case *bool:
		var n int64
		n, ok = v.(int64)
		*d = n != 0
	case *string:
		*d, ok = v.(string)
	case *[]byte:
		if v == nil {
			*d = nil
			return nil
		}
		*d, ok = v.([]byte)
	case interface{ Scan(any) error }:
		return d.Scan(v)
	default:
		ok = false
	}
	if !ok {
		return fmt.Errorf("%T into %T", v, dest)
	}
	return nil
}
