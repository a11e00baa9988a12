package vfstest

import (
	"sync"

	sqlite3 "modernc.org/sqlite/lib"
)

// Call is a kind of call that can fail.
type Call uint8

const (
	Write Call = iota
	Sync
	Truncate
)

func (c Call) String() string { return [...]string{"write", "sync", "truncate"}[c] }

// Kind is how a call fails.
type Kind uint8

const (
	Full  Kind = iota // no space left on the device: nothing is written
	IO                // input/output error: nothing is written
	Short             // the first half is written, then there is no space left; for other calls the same as Full
)

func (k Kind) String() string { return [...]string{"full", "io", "short"}[k] }

// Fault is a call that will fail.
type Fault struct {
	Call   Call
	Nth    int // of the calls of this kind since [Faults.Arm], from 1
	Kind   Kind
	Sticky bool // every call that can fail does so from then on, until [Faults.Relieve]; otherwise only this one
}

// code is what SQLite's own VFS returns for such a failure. A sync on a full disk is an input/output error to it.
func (f *Fault) code() int32 {
	if f.Kind != IO && f.Call != Sync {
		return sqlite3.SQLITE_FULL
	}
	return [...]int32{sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE}[f.Call]
}

// Faults lets calls fail. The zero value lets none fail and counts. It is safe for concurrent use.
type Faults struct {
	mu    sync.Mutex
	armed *Fault
	seen  [3]int
	fired int
}

// Arm begins to count anew and plans a failure.
func (f *Faults) Arm(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.seen, f.fired = &fault, [3]int{}, 0
}

// Relieve ends all failures. What was counted stays.
func (f *Faults) Relieve() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = nil
}

// Fired is how many calls have failed since [Faults.Arm].
func (f *Faults) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Seen is how many calls of a kind there were since [Faults.Arm], failed ones included.
func (f *Faults) Seen(c Call) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[c]
}

// next counts a call and says how it fails, or nil.
func (f *Faults) next(c Call) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[c]++
	if f.armed == nil {
		return nil
	}
	broken := f.armed.Sticky && f.fired > 0
	hit := c == f.armed.Call && f.seen[c] == f.armed.Nth
	if !broken && !hit {
		return nil
	}
	f.fired++
	return &Fault{Call: c, Kind: f.armed.Kind}
}
