package engine

import (
	"fmt"
	"unsafe"

	"modernc.org/libc"
	_ "modernc.org/sqlite" // sets the engine up for the process, as it does for the readers
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn is a connection to one database file.
type Conn struct {
	tls *libc.TLS
	db  uintptr
}

// Open opens the file of a URI ("file:/path?…") for reading and writing, and creates a missing file. It runs the
// pragmas, such as "synchronous(FULL)", in their order. The argument vfs names the file system layer; "" is the usual
// layer.
func Open(uri, vfs string, pragmas []string) (_ *Conn, err error) {
	c := &Conn{tls: libc.NewTLS()}
	defer func() {
		if err != nil {
			_ = c.Close() // the first error says more
		}
	}()
	if err := c.open(uri, vfs); err != nil {
		return nil, err
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	for _, p := range pragmas {
		if err := c.run("PRAGMA " + p); err != nil {
			return nil, fmt.Errorf("PRAGMA %s: %w", p, err)
		}
	}
	return c, nil
}

// flags: the caller promises one goroutine at a time, so the connection needs no mutex.
const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_NOMUTEX |
	sqlite3.SQLITE_OPEN_URI

func (c *Conn) open(uri, vfs string) error {
	name, err := libc.CString(uri)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	var layer uintptr
	if vfs != "" {
		if layer, err = libc.CString(vfs); err != nil {
			return err
		}
		defer libc.Xfree(c.tls, layer)
	}
	out := c.tls.Alloc(pointerSize)
	defer c.tls.Free(pointerSize)
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, out, flags, layer)
	c.db = pointerAt(out) // also after an error: it holds the message and must be closed
	return c.check(rc)
}

// run executes a statement that has no arguments, to its end.
func (c *Conn) run(sql string) error {
	s, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	err = s.Query(func(*Stmt) error { return nil })
	if e := s.Close(); err == nil {
		err = e
	}
	return err
}

// LastInsertID is the rowid that the last insert of the connection wrote.
func (c *Conn) LastInsertID() int64 { return sqlite3.Xsqlite3_last_insert_rowid(c.tls, c.db) }

// InTransaction says whether a transaction is open.
func (c *Conn) InTransaction() bool { return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// Close closes the connection. Its statements must have been closed before.
func (c *Conn) Close() error {
	var err error
	if c.db != 0 {
		err = c.check(sqlite3.Xsqlite3_close_v2(c.tls, c.db))
		c.db = 0
	}
	if c.tls != nil {
		c.tls.Close()
		c.tls = nil
	}
	return err
}

// check turns a result code into an [Error] with what the connection says of it.
func (c *Conn) check(rc int32) error {
	switch rc {
	case sqlite3.SQLITE_OK, sqlite3.SQLITE_ROW, sqlite3.SQLITE_DONE:
		return nil
	}
	text := libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		if more := libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db)); more != text {
			text += ": " + more
		}
	}
	return &Error{code: int(rc), text: text}
}

// Error is what SQLite says of a failed call.
type Error struct {
	code int
	text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.text, e.code) }

// Code is SQLite's extended result code; its lowest byte is the primary one.
func (e *Error) Code() int { return e.code }

const pointerSize = int(unsafe.Sizeof(uintptr(0)))

// pointerAt reads a pointer that the engine has written.
func pointerAt(p uintptr) (v uintptr) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), pointerSize), libc.GoBytes(p, pointerSize))
	return v
}
