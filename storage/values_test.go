package storage

import "fmt"

// values are a row as a test makes it up.
type values []any

func (v values) Scan(dest ...any) error {
	if len(dest) != len(v) {
		return fmt.Errorf("%d columns into %d places", len(v), len(dest))
	}
	for i, d := range dest {
		ok := false
		switch d := d.(type) {
		case *int64:
			*d, ok = v[i].(int64)
		case *int:
			var n int64
			n, ok = v[i].(int64)
			*d = int(n)
		case *string:
			*d, ok = v[i].(string)
		case interface{ Scan(any) error }:
			if err := d.Scan(v[i]); err != nil {
				return err
			}
			ok = true
		}
		if !ok {
			return fmt.Errorf("column %d: %T into %T", i, v[i], d)
		}
	}
	return nil
}
