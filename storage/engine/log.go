package engine

import (
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot/internal/ccgo"
)

const (
	// chunk bounds a write. SQLite's own file system layer keeps 17 bits of a length.
	chunk = 124 << 10
	// step is how much room for frames the log gets at once.
	step = 1 << 20
)

// log is the write-ahead log of a connection that writes. SQLite writes each frame by two calls, and mostly behind the
// end of the file. So a commit of 40 pages is 80 writes, and its sync must also store the new length. The log collects
// the writes of a commit and writes them at once, over bytes that the file has already: zeros, or old frames. SQLite
// tells frames from both by their salts and checksums.
//
// What is collected is in the file when a sync returns. SQLite syncs a commit before it shows the commit to other
// connections, but only with synchronous=FULL or EXTRA. So the log refuses every other setting ([log.control]).
// Every other access to collected bytes writes them out first. A write that fails keeps the bytes. So SQLite finds in
// the file what it has written, or gets an error.
type log struct {
	below sqlite3.Tsqlite3_io_methods // of the file in SQLite's own layer
	file  uintptr                     // 0: the log is not open

	buffer  uintptr // of one chunk, in C memory
	pending int     // bytes of the buffer that are not in the file yet
	at      int64   // their place in the file

	end  int64 // behind the last frame
	size int64 // of the file
}

type (
	plainFunc    = func(tls *libc.TLS, f uintptr) int32
	transferFunc = func(tls *libc.TLS, f, buffer uintptr, n int32, offset int64) int32
	truncateFunc = func(tls *libc.TLS, f uintptr, size int64) int32
	numberFunc   = func(tls *libc.TLS, f uintptr, n int32) int32
	resultFunc   = func(tls *libc.TLS, f, result uintptr) int32
)

// opened takes over a file that SQLite's own layer has opened.
func (l *log) opened(tls *libc.TLS, f uintptr) {
	l.file, l.pending, l.end = f, 0, 0
	l.measure(tls)
}

// measure reads the size of the file. A size that cannot be read costs room or time, and nothing else.
func (l *log) measure(tls *libc.TLS) {
	if ccgo.Func[resultFunc](l.below.FxFileSize)(tls, l.file, l.buffer) == sqlite3.SQLITE_OK {
		l.size = *ccgo.At[int64](l.buffer)
	}
}

// closed drops what is pending: it belongs to a transaction that was not committed.
func (l *log) closed(tls *libc.TLS, f uintptr) int32 {
	l.file = 0
	return ccgo.Func[plainFunc](l.below.FxClose)(tls, f)
}

func (l *log) collect(tls *libc.TLS, _, from uintptr, n int32, offset int64) int32 {
	if l.pending > 0 && (offset != l.at+int64(l.pending) || l.pending+int(n) > chunk) {
		if rc := l.flush(tls); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	if offset == 0 { // the header: the log begins anew, and another connection can have truncated the file
		l.end = 0
		l.measure(tls)
	}
	l.end = max(l.end, offset+int64(n))
	if n > chunk { // larger than any page
		return l.write(tls, from, n, offset)
	}
	if l.pending == 0 {
		l.at = offset
	}
	l.pending += copy(ccgo.Bytes(l.buffer, chunk)[l.pending:], ccgo.Bytes(from, int(n)))
	return sqlite3.SQLITE_OK
}

// flush writes what is pending.
func (l *log) flush(tls *libc.TLS) int32 {
	if l.pending == 0 {
		return sqlite3.SQLITE_OK
	}
	rc := l.write(tls, l.buffer, int32(l.pending), l.at)
	if rc != sqlite3.SQLITE_OK {
		return rc
	}
	end := l.at + int64(l.pending)
	l.pending = 0
	if end > l.size {
		l.size = end
		l.grow(tls)
	}
	return sqlite3.SQLITE_OK
}

func (l *log) write(tls *libc.TLS, from uintptr, n int32, offset int64) int32 {
	return ccgo.Func[transferFunc](l.below.FxWrite)(tls, l.file, from, n, offset)
}

// grow makes room for the next frames. They can do without, so an error counts for nothing.
func (l *log) grow(tls *libc.TLS) {
	clear(ccgo.Bytes(l.buffer, chunk))
	for to := (l.size/step + 1) * step; l.size < to; {
		n := min(chunk, to-l.size)
		if l.write(tls, l.buffer, int32(n), l.size) != sqlite3.SQLITE_OK {
			return
		}
		l.size += n
	}
}

func (l *log) sync(tls *libc.TLS, f uintptr, flags int32) int32 {
	if rc := l.flush(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return ccgo.Func[numberFunc](l.below.FxSync)(tls, f, flags)
}

func (l *log) read(tls *libc.TLS, f, to uintptr, n int32, offset int64) int32 {
	if offset < l.at+int64(l.pending) && l.at < offset+int64(n) {
		if rc := l.flush(tls); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	return ccgo.Func[transferFunc](l.below.FxRead)(tls, f, to, n, offset)
}

func (l *log) truncate(tls *libc.TLS, f uintptr, size int64) int32 {
	if rc := l.flush(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	rc := ccgo.Func[truncateFunc](l.below.FxTruncate)(tls, f, size)
	if rc == sqlite3.SQLITE_OK {
		l.size, l.end = size, min(l.end, size)
	}
	return rc
}

func (l *log) fileSize(tls *libc.TLS, f, to uintptr) int32 {
	if rc := l.flush(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return ccgo.Func[resultFunc](l.below.FxFileSize)(tls, f, to)
}
