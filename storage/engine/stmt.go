package engine

import (
	"fmt"
	"time"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// Stmt is a prepared statement, and while [Stmt.Query] runs its current row.
type Stmt struct {
	conn    *Conn
	handle  uintptr
	params  int
	columns int
	text    buffer // the arguments that are text or bytes
}

// Prepare compiles one statement. Text behind its semicolon is an error.
func (c *Conn) Prepare(sql string) (*Stmt, error) {
	text, err := libc.CString(sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	out := c.tls.Alloc(2 * pointerSize)
	defer c.tls.Free(2 * pointerSize)
	tail := out + uintptr(pointerSize)
	// A statement that is kept for the life of the connection is allocated apart from short-lived memory.
	if err := c.check(sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, out,
		tail)); err != nil {
		return nil, err
	}
	s := &Stmt{conn: c, handle: pointerAt(out)}
	if rest := int(pointerAt(tail) - text); s.handle == 0 || rest != len(sql) {
		_ = s.Close() // nothing has run
		return nil, fmt.Errorf("engine: not one statement: %q", sql)
	}
	s.params = int(sqlite3.Xsqlite3_bind_parameter_count(c.tls, s.handle))
	s.columns = int(sqlite3.Xsqlite3_column_count(c.tls, s.handle))
	return s, nil
}

// Exec runs the statement to its end and says how many rows an INSERT, UPDATE or DELETE changed.
func (s *Stmt) Exec(args ...any) (changed int64, err error) {
	if err := s.bind(args); err != nil {
		return 0, err
	}
	rc := sqlite3.Xsqlite3_step(s.conn.tls, s.handle)
	for rc == sqlite3.SQLITE_ROW {
		rc = sqlite3.Xsqlite3_step(s.conn.tls, s.handle)
	}
	if err := s.conn.check(rc); err != nil {
		s.reset()
		return 0, err
	}
	changed = sqlite3.Xsqlite3_changes64(s.conn.tls, s.conn.db)
	return changed, s.reset()
}

// Query calls fn for every row, which fn reads from the statement by [Stmt.Scan]. fn must not run the statement again.
func (s *Stmt) Query(fn func(*Stmt) error, args ...any) (err error) {
	if err := s.bind(args); err != nil {
		return err
	}
	defer func() { // also when fn panics
		if e := s.reset(); err == nil {
			err = e
		}
	}()
	for {
		rc := sqlite3.Xsqlite3_step(s.conn.tls, s.handle)
		if rc != sqlite3.SQLITE_ROW {
			return s.conn.check(rc)
		}
		if err := fn(s); err != nil {
			return err
		}
	}
}

// reset makes the statement ready to run again. An error of the last step comes again from here and is known already.
func (s *Stmt) reset() error {
	rc := sqlite3.Xsqlite3_reset(s.conn.tls, s.handle)
	s.text.shrink(s.conn.tls)
	return s.conn.check(rc)
}

// Steps is how many steps of SQLite's machine all runs of the statement took: what it has cost, whatever else the
// processor did.
func (s *Stmt) Steps() int64 {
	return int64(sqlite3.Xsqlite3_stmt_status(s.conn.tls, s.handle, sqlite3.SQLITE_STMTSTATUS_VM_STEP, 0))
}

// Close finalizes the statement.
func (s *Stmt) Close() error {
	err := s.conn.check(sqlite3.Xsqlite3_finalize(s.conn.tls, s.handle))
	s.handle = 0
	s.text.free(s.conn.tls)
	return err
}

// bind sets every parameter anew, so that none keeps what an earlier run has left in the buffer.
func (s *Stmt) bind(args []any) error {
	if len(args) != s.params {
		return fmt.Errorf("engine: %d arguments for %d parameters", len(args), s.params)
	}
	if err := s.text.reserve(s.conn.tls, sizeOf(args)); err != nil {
		return err
	}
	for i, a := range args {
		rc, ok := s.bindOne(int32(i+1), a)
		if !ok {
			// naming it would allocate all of them
			return fmt.Errorf("engine: argument %d is of a type that SQLite does not have", i+1)
		}
		if err := s.conn.check(rc); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stmt) bindOne(i int32, a any) (rc int32, ok bool) {
	tls := s.conn.tls
	switch v := a.(type) {
	case nil:
		return sqlite3.Xsqlite3_bind_null(tls, s.handle, i), true
	case int64:
		return sqlite3.Xsqlite3_bind_int64(tls, s.handle, i, v), true
	case int:
		return sqlite3.Xsqlite3_bind_int64(tls, s.handle, i, int64(v)), true
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		return sqlite3.Xsqlite3_bind_int64(tls, s.handle, i, n), true
	case time.Time:
		return sqlite3.Xsqlite3_bind_int64(tls, s.handle, i, Millis(v)), true
	case string:
		p := add(&s.text, v)
		return sqlite3.Xsqlite3_bind_text(tls, s.handle, i, p, int32(len(v)), static), true
	case []byte:
		if v == nil {
			return sqlite3.Xsqlite3_bind_null(tls, s.handle, i), true
		}
		p := add(&s.text, v)
		return sqlite3.Xsqlite3_bind_blob(tls, s.handle, i, p, int32(len(v)), static), true
	}
	return 0, false
}

// static tells SQLite that the memory of an argument stays as it is until the next bind.
const static = uintptr(sqlite3.SQLITE_STATIC)

// Millis is how times are stored: unix milliseconds, and 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func sizeOf(args []any) (n int) {
	for _, a := range args {
		switch v := a.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// buffer is memory of the engine's side that holds arguments.
type buffer struct {
	at         uintptr
	used, size int
}

// keep bounds what a statement holds on to between two runs.
const keep = 64 << 10

func (b *buffer) reserve(tls *libc.TLS, n int) error {
	b.used = 0
	if n < b.size {
		return nil
	}
	b.free(tls)
	size := max(256, 2*n)
	if b.at = libc.Xmalloc(tls, types.Size_t(size)); b.at == 0 {
		return fmt.Errorf("engine: no memory for %d bytes of arguments", n)
	}
	b.size = size
	return nil
}

// add copies text into the buffer and says where it is; reserve has made the room. The address of an empty text is not
// null.
func add[T string | []byte](b *buffer, text T) uintptr {
	p := b.at + uintptr(b.used)
	b.used += copy(libc.GoBytes(p, len(text)), text)
	return p
}

func (b *buffer) shrink(tls *libc.TLS) {
	if b.size > keep {
		b.free(tls)
	}
}

func (b *buffer) free(tls *libc.TLS) {
	libc.Xfree(tls, b.at)
	*b = buffer{}
}
