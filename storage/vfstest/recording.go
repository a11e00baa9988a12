package vfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// verb is what an [event] did.
type verb uint8

const (
	created verb = iota // a name now stands for an inode
	deleted
	wrote
	truncated
	synced
	syncFailed
	syncedDir
	// a write or truncate that an injected fault has stopped; it changed nothing, or what a wrote before it says
	refused
)

// event is one call that changed a file, or made changes last.
type event struct {
	verb   verb
	name   string // created, deleted
	inode  int    // all but deleted and syncedDir
	offset int64  // wrote; the size of truncated
	data   []byte // wrote
}

// Recording notes, in order, the calls that changed the files of a directory. The zero value is ready for [Install],
// once. It is safe for concurrent use.
type Recording struct {
	mu     sync.Mutex
	before Files // the files as they were when the recording began: on disk for good
	events []event
	names  map[string]known // what the names stand for now
	count  int              // of inodes
	syncs  map[int]int      // of inodes
}

// known is a file under a name. The system's idea of it tells when it has been renamed.
type known struct {
	inode int
	info  fs.FileInfo
}

// Len is the position in the recording: how many calls have ended so far. When a program acknowledges something, the
// recording up to the present position has everything that the program did for it.
func (r *Recording) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// Syncs is how often the file of that name has been synced so far. SQLite syncs a database in WAL mode when it has
// checkpointed.
func (r *Recording) Syncs(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.names[name]
	if !ok {
		return 0
	}
	return r.syncs[k.inode]
}

// FirstFailure is the position after the first call that an injected fault has stopped.
func (r *Recording) FirstFailure() (position int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.events {
		if e.verb == refused || e.verb == syncFailed {
			return i + 1, true
		}
	}
	return 0, false
}

// begin takes the files of the directory for granted, except SQLite's shared memory.
func (r *Recording) begin(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names != nil {
		return errors.New("the recording has begun already")
	}
	before, err := ReadFiles(dir)
	if err != nil {
		return err
	}
	r.before, r.names, r.syncs = before, map[string]known{}, map[int]int{}
	for _, name := range before.names() {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("look at the files of the recording: %w", err)
		}
		r.names[name] = known{r.count, info}
		r.count++
	}
	return nil
}

func (r *Recording) note(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// opened gives the inode of a file, which is new if nobody has seen it before. Content that it has already came past
// SQLite.
func (r *Recording) opened(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := filepath.Base(path)
	info, err := os.Stat(path)
	if err != nil { // deleted in this moment: a file without a name
		r.count++
		return r.count - 1
	}
	if k, ok := r.names[name]; ok {
		if os.SameFile(k.info, info) {
			return k.inode
		}
		delete(r.names, name) // another file has taken its place
		r.events = append(r.events, event{verb: deleted, name: name})
	}
	if inode, renamed := r.renamed(path, info); renamed {
		return inode
	}
	inode := r.count
	r.count++
	r.names[name] = known{inode, info}
	r.events = append(r.events, event{verb: created, name: name, inode: inode})
	if content, err := os.ReadFile(path); err == nil && len(content) > 0 {
		r.events = append(r.events, event{verb: wrote, inode: inode, data: content})
	}
	return inode
}

// renamed says whether a new name belongs to a file that had another name, and notes the new name. A rename does not
// come past SQLite: the recording takes it for one whose directory was synced before anybody opened the file.
func (r *Recording) renamed(path string, info fs.FileInfo) (inode int, ok bool) {
	for old, k := range r.names {
		if _, err := os.Lstat(filepath.Join(filepath.Dir(path), old)); !errors.Is(err, fs.ErrNotExist) ||
			!os.SameFile(k.info, info) {
			continue
		}
		delete(r.names, old)
		r.names[filepath.Base(path)] = known{k.inode, info}
		r.events = append(r.events, event{verb: created, name: filepath.Base(path), inode: k.inode},
			event{verb: deleted, name: old}, event{verb: syncedDir})
		return k.inode, true
	}
	return 0, false
}

func (r *Recording) wrote(inode int, offset int64, data []byte) {
	r.note(event{verb: wrote, inode: inode, offset: offset, data: data})
}

func (r *Recording) truncated(inode int, size int64) {
	r.note(event{verb: truncated, inode: inode, offset: size})
}

func (r *Recording) refused(inode int) { r.note(event{verb: refused, inode: inode}) }

func (r *Recording) syncFailed(inode int) { r.note(event{verb: syncFailed, inode: inode}) }

func (r *Recording) synced(inode int, dir bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.syncs[inode]++
	r.events = append(r.events, event{verb: synced, inode: inode})
	if dir {
		r.events = append(r.events, event{verb: syncedDir})
	}
}

func (r *Recording) deleted(name string, dirSync bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, name)
	r.events = append(r.events, event{verb: deleted, name: name})
	if dirSync {
		r.events = append(r.events, event{verb: syncedDir})
	}
}
