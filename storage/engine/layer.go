package engine

import (
	"fmt"
	"strings"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot/internal/ccgo"
)

// layer is a file system layer (a VFS) of one connection that writes. It is SQLite's default layer with two changes.
// The write-ahead log is a [log], and the database refuses settings under which the log would not be sound.
type layer struct {
	below   uintptr // the default layer
	name    uintptr
	self    uintptr // all but below are in C memory of our own
	logs    uintptr // methods of the log
	mains   uintptr // methods of the database
	control uintptr // of the database in the layer below
	log     log
	keep    []any // the functions that C memory points to
}

// newLayer registers a layer. SQLite finds it by its name.
func newLayer(tls *libc.TLS) (_ *layer, err error) {
	l := &layer{}
	defer func() {
		if err != nil {
			l.free(tls)
		}
	}()
	if rc := sqlite3.Xsqlite3_initialize(tls); rc != sqlite3.SQLITE_OK {
		return nil, fmt.Errorf("engine: initialize SQLite: code %d", rc)
	}
	if l.below = sqlite3.Xsqlite3_vfs_find(tls, 0); l.below == 0 {
		return nil, fmt.Errorf("engine: SQLite has no default file system layer")
	}
	if l.name, err = libc.CString(fmt.Sprintf("corebot-%p", l)); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		at   *uintptr
		size uintptr
	}{
		{&l.self, unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})},
		{&l.logs, unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})},
		{&l.mains, unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})},
		{&l.log.buffer, chunk},
	} {
		if *part.at = libc.Xmalloc(tls, types.Size_t(part.size)); *part.at == 0 {
			return nil, fmt.Errorf("engine: no memory for %d bytes of a file system layer", part.size)
		}
	}
	own := *ccgo.At[sqlite3.Tsqlite3_vfs](l.below)
	own.FpNext, own.FzName, own.FxOpen = 0, l.name, l.pointer(l.open)
	*ccgo.At[sqlite3.Tsqlite3_vfs](l.self) = own
	if rc := sqlite3.Xsqlite3_vfs_register(tls, l.self, 0); rc != sqlite3.SQLITE_OK {
		return nil, fmt.Errorf("engine: register a file system layer: code %d", rc)
	}
	return l, nil
}

// free takes the layer out again. No file may be open.
func (l *layer) free(tls *libc.TLS) {
	if l.self != 0 {
		sqlite3.Xsqlite3_vfs_unregister(tls, l.self)
	}
	for _, p := range []uintptr{l.name, l.self, l.logs, l.mains, l.log.buffer} {
		libc.Xfree(tls, p)
	}
}

func (l *layer) pointer(f any) uintptr {
	l.keep = append(l.keep, f)
	return ccgo.Pointer(f)
}

type (
	openFunc    = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	controlFunc = func(tls *libc.TLS, f uintptr, op int32, arg uintptr) int32
)

// open lets the layer below open a file, and then changes what SQLite calls for it.
func (l *layer) open(tls *libc.TLS, _, name, f uintptr, flags int32, outFlags uintptr) int32 {
	below := ccgo.At[sqlite3.Tsqlite3_vfs](l.below)
	rc := ccgo.Func[openFunc](below.FxOpen)(tls, l.below, name, f, flags, outFlags)
	if rc != sqlite3.SQLITE_OK {
		return rc
	}
	methods := &ccgo.At[sqlite3.Tsqlite3_file](f).FpMethods
	own := *ccgo.At[sqlite3.Tsqlite3_io_methods](*methods)
	switch {
	case flags&sqlite3.SQLITE_OPEN_MAIN_DB != 0 && l.control == 0:
		l.control, own.FxFileControl = own.FxFileControl, l.pointer(l.guard)
		*ccgo.At[sqlite3.Tsqlite3_io_methods](l.mains) = own
		*methods = l.mains
	case flags&sqlite3.SQLITE_OPEN_WAL != 0 && l.log.file == 0:
		l.log.below = own
		l.log.opened(tls, f)
		own.FxClose, own.FxSync = l.pointer(l.log.closed), l.pointer(l.log.sync)
		own.FxRead, own.FxWrite = l.pointer(l.log.read), l.pointer(l.log.collect)
		own.FxTruncate, own.FxFileSize = l.pointer(l.log.truncate), l.pointer(l.log.fileSize)
		*ccgo.At[sqlite3.Tsqlite3_io_methods](l.logs) = own
		*methods = l.logs
	}
	return rc
}

// pragma is what SQLite tells a layer of a pragma before it runs the pragma. The layer can refuse with a message.
type pragma struct{ message, name, value uintptr }

// guard refuses to sync less than the log needs.
func (l *layer) guard(tls *libc.TLS, f uintptr, op int32, arg uintptr) int32 {
	if op == sqlite3.SQLITE_FCNTL_PRAGMA {
		p := ccgo.At[pragma](arg)
		if p.value != 0 && strings.EqualFold(libc.GoString(p.name), "synchronous") {
			switch value := strings.ToUpper(libc.GoString(p.value)); value {
			case "FULL", "EXTRA", "2", "3":
			default:
				p.message = message(tls, "synchronous="+value+" would lose commits: only FULL and EXTRA are sound here")
				return sqlite3.SQLITE_ERROR
			}
		}
	}
	return ccgo.Func[controlFunc](l.control)(tls, f, op, arg)
}

// message is a text that SQLite frees.
func message(tls *libc.TLS, text string) uintptr {
	p := sqlite3.Xsqlite3_malloc(tls, int32(len(text)+1))
	if p != 0 {
		to := ccgo.Bytes(p, len(text)+1)
		to[copy(to, text)] = 0
	}
	return p
}
