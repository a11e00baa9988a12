package engine

import (
	"fmt"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Scan reads the columns of the current row into *int64, *int, **int64, *bool, *string, *[]byte, or whatever scans an
// integer by itself. A func([]byte) looks at a blob where it lies, and must not keep it. NULL is the zero value for all
// of them but *string and *bool, for which it is an error, as is every other type than the expected one.
func (s *Stmt) Scan(dest ...any) error {
	if len(dest) != s.columns {
		return fmt.Errorf("engine: %d columns into %d places", s.columns, len(dest))
	}
	for i, d := range dest {
		if err := s.scanOne(int32(i), d); err != nil {
			return fmt.Errorf("engine: column %d: %w", i, err)
		}
	}
	return nil
}

func (s *Stmt) scanOne(i int32, dest any) error {
	kind := sqlite3.Xsqlite3_column_type(s.conn.tls, s.handle, i)
	ok := kind == sqlite3.SQLITE_INTEGER
	switch d := dest.(type) {
	case *int64:
		*d = s.integer(i)
		ok = ok || kind == sqlite3.SQLITE_NULL
	case *int:
		*d = int(s.integer(i))
		ok = ok || kind == sqlite3.SQLITE_NULL
	case **int64:
		*d = nil
		if ok {
			n := s.integer(i)
			*d = &n
		}
		ok = ok || kind == sqlite3.SQLITE_NULL
	case *bool:
		*d = s.integer(i) != 0
	case *string:
		*d = string(s.bytes(i))
		ok = kind == sqlite3.SQLITE_TEXT
	case *[]byte:
		*d = nil
		if kind != sqlite3.SQLITE_NULL {
			*d = append([]byte{}, s.bytes(i)...)
		}
		ok = kind == sqlite3.SQLITE_BLOB || kind == sqlite3.SQLITE_NULL
	case func([]byte):
		d(s.bytes(i))
		ok = kind == sqlite3.SQLITE_BLOB || kind == sqlite3.SQLITE_NULL
	case interface{ Scan(any) error }:
		if ok {
			return d.Scan(s.integer(i))
		}
		if kind == sqlite3.SQLITE_NULL {
			return d.Scan(nil)
		}
	default:
		return fmt.Errorf("no place for a value in %T", dest)
	}
	if !ok {
		return fmt.Errorf("a value of type %d for %T", kind, dest)
	}
	return nil
}

func (s *Stmt) integer(i int32) int64 { return sqlite3.Xsqlite3_column_int64(s.conn.tls, s.handle, i) }

// bytes is a text or a blob where it lies: valid until the next step.
func (s *Stmt) bytes(i int32) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.conn.tls, s.handle, i) // of a text it gives the bytes, without a conversion
	n := sqlite3.Xsqlite3_column_bytes(s.conn.tls, s.handle, i)
	if p == 0 || n == 0 {
		return nil
	}
	return libc.GoBytes(p, int(n))
}
