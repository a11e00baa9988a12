// Package ccgo reads what C code that was translated to Go keeps in its own memory: structures and pointers to
// functions. SQLite is such code (modernc.org/sqlite/lib).
package ccgo

import "unsafe"

// At is the structure at an address of C memory.
func At[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// Bytes are n bytes at an address of C memory.
func Bytes(p uintptr, n int) []byte { return unsafe.Slice(At[byte](p), n) }

// Func is the Go function that a C function pointer stands for.
func Func[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// Pointer is the C function pointer for a Go function. The garbage collector does not look into C memory: the caller
// must keep f alive for as long as C code can call it.
func Pointer(f any) uintptr { return (*[2]uintptr)(unsafe.Pointer(&f))[1] }
