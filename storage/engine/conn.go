package engine

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"unsafe"

	"modernc.org/libc"
	_ "modernc.org/sqlite" // sets the engine up for the process, as it does for the readers
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn is a connection to one database file.
type Conn struct {
	tls   *libc.TLS
	db    uintptr
	layer *layer // of a connection that writes
}

// Open opens the file of a URI ("file:/path?…") for reading and writing, and creates a missing file. It runs the
// pragmas, such as "cache_size(-2048)", in their order.
func Open(uri string, pragmas []string) (*Conn, error) { return open(uri, pragmas, false) }

// OpenWriter is like [Open], for the only connection of all processes that writes much. Each commit is one write of the
// write-ahead log and one sync. The connection accepts no other setting of synchronous than FULL and EXTRA.
func OpenWriter(uri string, pragmas []string) (*Conn, error) { return open(uri, pragmas, true) }

func open(uri string, pragmas []string, writes bool) (_ *Conn, err error) {
	c := &Conn{tls: libc.NewTLS()}
	defer func() {
		if err != nil {
			_ = c.Close() // the first error says more
		}
	}()
	var vfs uintptr // 0 is the default
	if writes {
		if c.layer, err = newLayer(c.tls); err != nil {
			return nil, err
		}
		vfs = c.layer.name
	}
	if err := c.open(uri, vfs); err != nil {
		return nil, err
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	for _, p := range pragmas {
		if err := c.run("PRAGMA " + p); err != nil {
			return nil, fmt.Errorf("open %s: %w", pathOf(uri), err) // the first one reads the file, whatever it sets
		}
	}
	return c, nil
}

// pathOf is the file of a URI, for people.
func pathOf(uri string) string {
	path, _, _ := strings.Cut(strings.TrimPrefix(uri, "file:"), "?")
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}

// flags: the caller promises one goroutine at a time, so the connection needs no mutex.
const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_NOMUTEX |
	sqlite3.SQLITE_OPEN_URI

func (c *Conn) open(uri string, vfs uintptr) error {
	name, err := libc.CString(uri)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	out := c.tls.Alloc(pointerSize)
	defer c.tls.Free(pointerSize)
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, out, flags, vfs)
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

// Log is how many bytes of the write-ahead log are in use, and how long its file is, as far as a connection of
// [OpenWriter] knows. A checkpoint of another connection does not count until the next commit.
func (c *Conn) Log() (used, size int64) {
	if c.layer == nil {
		return 0, 0
	}
	return c.layer.log.end, c.layer.log.size
}

// InterruptWhen has the statement that runs end with an error when ctx ends. The caller calls release when the
// statement has ended.
func (c *Conn) InterruptWhen(ctx context.Context) (release func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		tls := libc.NewTLS() // that of the connection is in use
		defer tls.Close()
		sqlite3.Xsqlite3_interrupt(tls, c.db)
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// Close closes the connection. Its statements must have been closed before; otherwise it stays open.
func (c *Conn) Close() error {
	if c.db != 0 {
		if rc := sqlite3.Xsqlite3_close(c.tls, c.db); rc != sqlite3.SQLITE_OK {
			return c.check(rc)
		}
		c.db = 0
	}
	if c.layer != nil {
		c.layer.free(c.tls)
		c.layer = nil
	}
	if c.tls != nil {
		c.tls.Close()
		c.tls = nil
	}
	return nil
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
