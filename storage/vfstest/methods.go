package vfstest

import (
	"bytes"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot/internal/ccgo"
)

type (
	plainFunc    = func(tls *libc.TLS, f uintptr) int32
	transferFunc = func(tls *libc.TLS, f, buffer uintptr, n int32, offset int64) int32
	truncateFunc = func(tls *libc.TLS, f uintptr, size int64) int32
	numberFunc   = func(tls *libc.TLS, f uintptr, n int32) int32
	resultFunc   = func(tls *libc.TLS, f, result uintptr) int32
	controlFunc  = func(tls *libc.TLS, f uintptr, op int32, arg uintptr) int32
	shmMapFunc   = func(tls *libc.TLS, f uintptr, page, size, extend int32, result uintptr) int32
	shmLockFunc  = func(tls *libc.TLS, f uintptr, offset, n, flags int32) int32
	barrierFunc  = func(tls *libc.TLS, f uintptr)
)

// ioMethods is the table of our files. Its version has no memory-mapped reads, which would need no method for their
// writes.
func (v *VFS) ioMethods() sqlite3.Tsqlite3_io_methods {
	plain := func(method func(*sqlite3.Tsqlite3_io_methods) uintptr) uintptr {
		return v.pointer(func(tls *libc.TLS, f uintptr) int32 {
			return ccgo.Func[plainFunc](method(inner(f)))(tls,
				f+headerSize)
		})
	}
	number := func(method func(*sqlite3.Tsqlite3_io_methods) uintptr) uintptr {
		return v.pointer(func(tls *libc.TLS, f uintptr, n int32) int32 {
			return ccgo.Func[numberFunc](method(inner(f)))(tls, f+headerSize, n)
		})
	}
	result := func(method func(*sqlite3.Tsqlite3_io_methods) uintptr) uintptr {
		return v.pointer(func(tls *libc.TLS, f, to uintptr) int32 {
			return ccgo.Func[resultFunc](method(inner(f)))(tls, f+headerSize, to)
		})
	}
	return sqlite3.Tsqlite3_io_methods{
		FiVersion:           2,
		FxClose:             v.pointer(v.xClose),
		FxRead:              v.pointer(xRead),
		FxWrite:             v.pointer(v.xWrite),
		FxTruncate:          v.pointer(v.xTruncate),
		FxSync:              v.pointer(v.xSync),
		FxFileSize:          result(func(m *sqlite3.Tsqlite3_io_methods) uintptr { return m.FxFileSize }),
		FxLock:              number(func(m *sqlite3.Tsqlite3_io_methods) uintptr { return m.FxLock }),
		FxUnlock:            number(func(m *sqlite3.Tsqlite3_io_methods) uintptr { return m.FxUnlock }),
		FxCheckReservedLock: result(func(m *sqlite3.Tsqlite3_io_methods) uintptr { return m.FxCheckReservedLock }),
		FxFileControl:       v.pointer(xFileControl),
		FxSectorSize:        plain(func(m *sqlite3.Tsqlite3_io_methods) uintptr { return m.FxSectorSize }),
		FxDeviceCharacteristics: plain(
			func(m *sqlite3.Tsqlite3_io_methods) uintptr { return m.FxDeviceCharacteristics }),
		FxShmMap:     v.pointer(xShmMap),
		FxShmLock:    v.pointer(xShmLock),
		FxShmBarrier: v.pointer(xShmBarrier),
		FxShmUnmap:   number(func(m *sqlite3.Tsqlite3_io_methods) uintptr { return m.FxShmUnmap }),
	}
}

// inner is the table of the wrapped VFS for a file of ours.
func inner(f uintptr) *sqlite3.Tsqlite3_io_methods {
	return ccgo.At[sqlite3.Tsqlite3_io_methods](ccgo.At[sqlite3.Tsqlite3_file](f + headerSize).FpMethods)
}

func (v *VFS) xClose(tls *libc.TLS, f uintptr) int32 {
	v.change.Lock()
	defer v.change.Unlock()
	known := v.file(f)
	rc := ccgo.Func[plainFunc](inner(f).FxClose)(tls, f+headerSize)
	if known.doDelete && known.name != "" && v.recording != nil {
		v.recording.deleted(known.name, false)
	}
	v.files.Delete(f)
	v.open.Add(-1)
	return rc
}

func xRead(tls *libc.TLS, f, buffer uintptr, n int32, offset int64) int32 {
	return ccgo.Func[transferFunc](inner(f).FxRead)(tls, f+headerSize, buffer, n, offset)
}

func (v *VFS) xWrite(tls *libc.TLS, f, buffer uintptr, n int32, offset int64) int32 {
	v.change.Lock()
	defer v.change.Unlock()
	known := v.file(f)
	fault := v.fault(known, Write)
	if fault != nil && fault.Kind != Short {
		return v.refuse(known, fault)
	}
	if fault != nil {
		n /= 2
	}
	rc := ccgo.Func[transferFunc](inner(f).FxWrite)(tls, f+headerSize, buffer, n, offset)
	if rc != sqlite3.SQLITE_OK {
		return rc
	}
	if v.records(known) {
		v.recording.wrote(known.inode, offset, bytes.Clone(ccgo.Bytes(buffer, int(n))))
	}
	if fault != nil {
		return v.refuse(known, fault)
	}
	return rc
}

func (v *VFS) xTruncate(tls *libc.TLS, f uintptr, size int64) int32 {
	v.change.Lock()
	defer v.change.Unlock()
	known := v.file(f)
	if fault := v.fault(known, Truncate); fault != nil {
		return v.refuse(known, fault)
	}
	rc := ccgo.Func[truncateFunc](inner(f).FxTruncate)(tls, f+headerSize, size)
	if rc == sqlite3.SQLITE_OK && v.records(known) {
		v.recording.truncated(known.inode, size)
	}
	return rc
}

func (v *VFS) xSync(tls *libc.TLS, f uintptr, flags int32) int32 {
	v.change.Lock()
	defer v.change.Unlock()
	known := v.file(f)
	if fault := v.fault(known, Sync); fault != nil {
		if v.records(known) {
			v.recording.syncFailed(known.inode)
		}
		return fault.code()
	}
	rc := ccgo.Func[numberFunc](inner(f).FxSync)(tls, f+headerSize, flags)
	if rc == sqlite3.SQLITE_OK && v.records(known) {
		v.recording.synced(known.inode, known.dirSync)
		known.dirSync = false
	}
	return rc
}

func xFileControl(tls *libc.TLS, f uintptr, op int32, arg uintptr) int32 {
	return ccgo.Func[controlFunc](inner(f).FxFileControl)(tls, f+headerSize, op, arg)
}

func xShmMap(tls *libc.TLS, f uintptr, page, size, extend int32, result uintptr) int32 {
	return ccgo.Func[shmMapFunc](inner(f).FxShmMap)(tls, f+headerSize, page, size, extend, result)
}

func xShmLock(tls *libc.TLS, f uintptr, offset, n, flags int32) int32 {
	return ccgo.Func[shmLockFunc](inner(f).FxShmLock)(tls, f+headerSize, offset, n, flags)
}

func xShmBarrier(tls *libc.TLS, f uintptr) {
	ccgo.Func[barrierFunc](inner(f).FxShmBarrier)(tls, f+headerSize)
}

// file finds what xOpen stored.
func (v *VFS) file(f uintptr) *file {
	known, ok := v.files.Load(f)
	if !ok {
		return &file{}
	}
	return known.(*file)
}

// refuse notes that a call fails and gives what SQLite is told.
func (v *VFS) refuse(f *file, fault *Fault) int32 {
	if v.records(f) {
		v.recording.refused(f.inode)
	}
	return fault.code()
}

func (v *VFS) records(f *file) bool { return v.recording != nil && f.name != "" }

// fault asks the injector about a call on a file of the directory.
func (v *VFS) fault(f *file, c Call) *Fault {
	if v.faults == nil || f.name == "" {
		return nil
	}
	return v.faults.next(c)
}
