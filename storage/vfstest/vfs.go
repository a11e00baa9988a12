package vfstest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot/internal/ccgo"
)

// ErrInUse says that a database is still open through a [VFS].
var ErrInUse = errors.New("a file is open through the VFS")

// Options of a [VFS]. The zero value passes everything through.
type Options struct {
	Recording *Recording // notes the calls that change files; nil: nobody does
	Faults    *Faults    // lets calls fail; nil: none does
}

// VFS is SQLite's default file system with a recording and a fault injector in front of it. It is safe for concurrent
// use.
type VFS struct {
	dir       string
	recording *Recording
	faults    *Faults
	tls       *libc.TLS
	base      uintptr    // the wrapped sqlite3_vfs
	self      uintptr    // ours, in C memory
	name      uintptr    // a C string
	table     uintptr    // our sqlite3_io_methods, in C memory
	change    sync.Mutex // held while a file is changed, so that the recording has the order of the disk
	files     sync.Map   // uintptr of SQLite's file object → *file
	open      atomic.Int64
	keep      []any // the functions that C memory points to: the garbage collector does not look there
}

// file is what the VFS knows of an open file.
type file struct {
	name     string // base name, empty if the file is none of the directory's
	inode    int
	dirSync  bool // the next sync covers the directory too
	doDelete bool // SQLite deletes it on close
}

// header precedes the wrapped VFS's own file object. It begins as every sqlite3_file does.
type header struct {
	methods uintptr
	_       uintptr // keeps what follows aligned
}

const headerSize = unsafe.Sizeof(header{})

// Install puts a VFS around SQLite's default one and makes it the default of the process, for connections that are
// opened from now on. Files directly in dir are recorded and may fail; all others pass through. Installing is global:
// tests that do so must not run in parallel with others that open databases. Call [VFS.Close] when every database is
// closed.
func Install(dir string, o Options) (*VFS, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("install a VFS: %w", err)
	}
	tls := libc.NewTLS()
	if rc := sqlite3.Xsqlite3_initialize(tls); rc != sqlite3.SQLITE_OK {
		tls.Close()
		return nil, fmt.Errorf("install a VFS: initialize SQLite: code %d", rc)
	}
	v := &VFS{dir: dir, recording: o.Recording, faults: o.Faults, tls: tls, base: sqlite3.Xsqlite3_vfs_find(tls, 0)}
	if v.recording != nil {
		if err := v.recording.begin(dir); err != nil {
			tls.Close()
			return nil, fmt.Errorf("install a VFS: %w", err)
		}
	}
	if err := v.register(); err != nil {
		v.free()
		return nil, fmt.Errorf("install a VFS: %w", err)
	}
	return v, nil
}

// register copies the wrapped VFS, replaces what opens and deletes, and makes the copy SQLite's default.
func (v *VFS) register() (err error) {
	if v.name, err = libc.CString(fmt.Sprintf("vfstest-%p", v)); err != nil {
		return err
	}
	v.self = sqlite3.Xsqlite3_malloc(v.tls, int32(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	v.table = sqlite3.Xsqlite3_malloc(v.tls, int32(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))
	if v.self == 0 || v.table == 0 {
		return errors.New("out of memory")
	}
	*ccgo.At[sqlite3.Tsqlite3_io_methods](v.table) = v.ioMethods()
	own := *ccgo.At[sqlite3.Tsqlite3_vfs](v.base)
	own.FpNext, own.FzName = 0, v.name
	own.FszOsFile += int32(headerSize)
	own.FxOpen = v.pointer(v.xOpen)
	own.FxDelete = v.pointer(v.xDelete)
	*ccgo.At[sqlite3.Tsqlite3_vfs](v.self) = own
	if rc := sqlite3.Xsqlite3_vfs_register(v.tls, v.self, 1); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("register: code %d", rc)
	}
	return nil
}

// Close takes the VFS out again; the wrapped one is the default once more. It refuses with [ErrInUse] while a database
// is open through it, since SQLite would go on calling it.
func (v *VFS) Close() error {
	if n := v.open.Load(); n > 0 {
		return fmt.Errorf("close the VFS of %s: %w: %d files", v.dir, ErrInUse, n)
	}
	sqlite3.Xsqlite3_vfs_unregister(v.tls, v.self)
	sqlite3.Xsqlite3_vfs_register(v.tls, v.base, 1)
	v.free()
	return nil
}

func (v *VFS) free() {
	libc.Xfree(v.tls, v.name)
	sqlite3.Xsqlite3_free(v.tls, v.self)
	sqlite3.Xsqlite3_free(v.tls, v.table)
	v.tls.Close()
}

type (
	openFunc   = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	deleteFunc = func(tls *libc.TLS, vfs, name uintptr, dirSync int32) int32
)

func (v *VFS) xOpen(tls *libc.TLS, _, name, f uintptr, flags int32, outFlags uintptr) int32 {
	*ccgo.At[header](f) = header{}
	inner := f + headerSize
	ccgo.At[sqlite3.Tsqlite3_file](inner).FpMethods = 0
	v.change.Lock()
	defer v.change.Unlock()
	known := &file{name: v.local(name), doDelete: flags&sqlite3.SQLITE_OPEN_DELETEONCLOSE != 0}
	rc := ccgo.Func[openFunc](ccgo.At[sqlite3.Tsqlite3_vfs](v.base).FxOpen)(tls, v.base, name, inner, flags, outFlags)
	if ccgo.At[sqlite3.Tsqlite3_file](inner).FpMethods == 0 { // SQLite will not close it
		return rc
	}
	const journals = sqlite3.SQLITE_OPEN_WAL | sqlite3.SQLITE_OPEN_MAIN_JOURNAL | sqlite3.SQLITE_OPEN_SUPER_JOURNAL
	known.dirSync = flags&journals != 0 && flags&sqlite3.SQLITE_OPEN_CREATE != 0
	if rc == sqlite3.SQLITE_OK && v.records(known) {
		known.inode = v.recording.opened(filepath.Join(v.dir, known.name))
	}
	v.files.Store(f, known)
	v.open.Add(1)
	ccgo.At[header](f).methods = v.table
	return rc
}

func (v *VFS) xDelete(tls *libc.TLS, _, name uintptr, dirSync int32) int32 {
	v.change.Lock()
	defer v.change.Unlock()
	rc := ccgo.Func[deleteFunc](ccgo.At[sqlite3.Tsqlite3_vfs](v.base).FxDelete)(tls, v.base, name, dirSync)
	if local := v.local(name); rc == sqlite3.SQLITE_OK && local != "" && v.recording != nil {
		v.recording.deleted(local, dirSync&1 != 0)
	}
	return rc
}

// local is the base name of a file of the directory, or empty.
func (v *VFS) local(name uintptr) string {
	if name == 0 { // a temporary file
		return ""
	}
	dir, base := filepath.Split(libc.GoString(name))
	if strings.TrimSuffix(dir, string(os.PathSeparator)) != v.dir {
		return ""
	}
	return base
}

// pointer is what C code calls. The function stays alive with v.
func (v *VFS) pointer(f any) uintptr {
	v.keep = append(v.keep, f)
	return ccgo.Pointer(f)
}
