package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// ErrFull is in the error of a change for which a folder has no room; the error is a [*Full].
var ErrFull = errors.New("has no room")

// Quota limits what each folder of one directory holds, all its subdirectories included. Zero means no limit.
type Quota struct {
	Dir     string // cleaned, such as [ChatsDir]
	Bytes   int64  // of all plain files of a folder together
	Entries int    // files, directories and links of a folder together

	BytesKey, EntriesKey string // the settings that raise the limits, for hints

	Shared bool // what the folders hold is counted although nothing may limit one by itself: see [Share]
}

func (q Quota) limits() bool { return q.Bytes > 0 || q.Entries > 0 || q.Shared }

// folder is the folder that a cleaned path leads into, and how many names of the path lead to the folder.
func (q Quota) folder(clean string) (dir string, names int, ok bool) {
	if !q.limits() || !Within(clean, q.Dir) {
		return "", 0, false
	}
	parts := strings.Split(clean, "/")
	names = strings.Count(q.Dir, "/") + 2
	if len(parts) < names {
		return "", 0, false
	}
	return strings.Join(parts[:names], "/"), names, true
}

// Full is a folder that has no room for a change, or somebody who has no room in all folders together.
type Full struct {
	Folder    string
	Who       string // who takes too much in all folders together; empty: the folder itself has no room
	Need      Usage  // what the folder would hold, or what he would take
	Limit     Usage  // zero: no limit
	OverBytes int64  // how many bytes too many; zero or less: the bytes have room
	OverCount int    // how many entries too many; zero or less: the entries have room
}

func newFull(dir string, need, limit Usage) *Full {
	e := &Full{Folder: dir, Need: need, Limit: limit}
	if limit.Entries > 0 {
		e.OverCount = need.Entries - limit.Entries
	}
	if limit.Bytes > 0 {
		e.OverBytes = need.Bytes - limit.Bytes
	}
	return e
}

func (e *Full) Error() string {
	what := "the folder " + e.Folder
	if e.Who != "" {
		what = "the workspace, for files of " + e.Who + " in all chats together,"
	}
	if e.OverCount > 0 {
		return fmt.Sprintf("%s %v: it would have %d files and directories, the limit is %d", what, ErrFull,
			e.Need.Entries, e.Limit.Entries)
	}
	return fmt.Sprintf("%s %v: it would have %d bytes, the limit is %d", what, ErrFull, e.Need.Bytes, e.Limit.Bytes)
}

func (e *Full) Is(target error) bool { return target == ErrFull }

// check refuses a change after which a folder holds more than a limit.
func (q Quota) check(dir string, holds, more Usage) error {
	e := newFull(dir, Usage{holds.Bytes + more.Bytes, holds.Entries + more.Entries}, Usage{q.Bytes, q.Entries})
	switch {
	case e.OverCount > 0:
		return corebot.WithHint(e, q.hint(q.EntriesKey))
	case e.OverBytes > 0:
		return corebot.WithHint(e, q.hint(q.BytesKey))
	}
	return nil
}

// mostEntries is how many entries of a folder a walk looks at, and one more.
func (q Quota) mostEntries() int {
	if q.Entries == 0 {
		return usageWalked
	}
	return q.Entries
}

func (q Quota) hint(key string) string {
	return fmt.Sprintf("write less, or make files there shorter; an operator removes files there, or raises %s", key)
}

// Usage is what a folder holds.
type Usage struct {
	Bytes   int64
	Entries int
}

const (
	usagesKept   = 4_096            // folders whose usage is known; any of them is forgotten for one more
	usageHolds   = 10 * time.Minute // then a folder is measured again, for what others changed in it
	usageDoubted = 5 * time.Second  // a usage that is older refuses no change before the folder was measured again
	usageWalked  = 100_000          // entries of a folder that are looked at, where entries have no limit
	usageDepth   = 64               // directories inside one another: a walk holds each of them open
)

// usages are what folders hold, as far as it is known.
type usages struct {
	now   func() time.Time
	locks [stripes]sync.Mutex // one change of a folder at a time

	mu     sync.Mutex
	known  map[string]usage // by the folded path of the folder
	shares map[string]Share // likewise
}

type usage struct {
	Usage
	measured time.Time
}

func (u *usages) get(dir string) (usage, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known, ok := u.known[Fold(dir)]
	return known, ok && u.now().Sub(known.measured) < usageHolds
}

func (u *usages) set(dir string, holds usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := Fold(dir)
	if _, ok := u.known[key]; !ok && len(u.known) >= usagesKept {
		for other := range maps.Keys(u.known) {
			delete(u.known, other)
			break
		}
	}
	u.known[key] = holds
}

func (u *usages) forget(dir string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, Fold(dir))
}

// room is a folder while one change of it is made.
type room struct {
	root  *Root
	dir   string // empty: nothing limits the change
	depth int    // names of dir
}

// enterFolder waits until nobody else changes the folder of a cleaned path. The caller leaves it.
func (r *Root) enterFolder(clean string) (rm room, leave func()) {
	dir, depth, ok := r.quota.folder(clean)
	if !ok {
		return room{}, func() {}
	}
	mu := &r.usages.locks[r.stripe(dir)]
	mu.Lock()
	return room{r, dir, depth}, mu.Unlock
}

// admit refuses a change that the folder has no room for. A change that lets nothing grow costs no walk.
func (rm room) admit(more Usage) error {
	if rm.dir == "" || more.Bytes <= 0 && more.Entries <= 0 {
		return nil
	}
	known, ok := rm.root.usages.get(rm.dir)
	if ok {
		err := rm.check(known.Usage, more)
		if err == nil || rm.root.usages.now().Sub(known.measured) < usageDoubted {
			return err
		}
	}
	holds, err := rm.measure()
	if err != nil {
		return err
	}
	return rm.check(holds, more)
}

// check refuses what the quota of the folder or the share of its user has no room for.
func (rm room) check(holds, more Usage) error {
	err := rm.root.quota.check(rm.dir, holds, more)
	if s, ok := rm.root.usages.share(rm.dir); ok && err == nil {
		err = s.check(rm.dir, holds, more)
	}
	return err
}

// grown notes a change that was made. After one that failed nobody knows what is there.
func (rm room) grown(more Usage, err error) {
	if rm.dir == "" {
		return
	}
	known, ok := rm.root.usages.get(rm.dir)
	if err != nil || !ok || known.Entries > rm.root.quota.mostEntries() { // the last walk did not see everything
		rm.root.usages.forget(rm.dir)
		return
	}
	known.Bytes, known.Entries = known.Bytes+more.Bytes, known.Entries+more.Entries
	rm.root.usages.set(rm.dir, known)
}

// missing is how many directories of the folder a write to a cleaned path makes.
func (rm room) missing(clean string) int {
	if rm.dir == "" {
		return 0
	}
	parts := strings.Split(path.Dir(clean), "/")
	for i := rm.depth; i < len(parts); i++ {
		if _, err := rm.root.dir.Lstat(strings.Join(parts[:i+1], "/")); errors.Is(err, fs.ErrNotExist) {
			return len(parts) - i
		}
	}
	return 0
}

// measure walks the folder. A folder that has more entries than its limit is not walked to its end.
func (rm room) measure() (Usage, error) {
	var holds Usage
	err := rm.root.weigh(rm.dir, rm.root.quota.mostEntries(), &holds)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return holds, corebot.WithHint(fmt.Errorf("measure %s: %w", rm.dir, err),
			"an operator looks into that folder, and removes what Corebot cannot read or what is nested too deep")
	}
	rm.root.usages.set(rm.dir, usage{holds, rm.root.usages.now()})
	return holds, nil
}

// weigh adds what is in a directory, until there are more than most entries. It follows no link, and passes over what
// vanishes meanwhile.
func (r *Root) weigh(dir string, most int, holds *Usage) error {
	at, err := r.walk(dir, false)
	if err != nil {
		return err
	}
	defer at.Close()
	return weigh(at, most, usageDepth, holds)
}

func weigh(at *os.Root, most, depth int, holds *Usage) error {
	if depth == 0 {
		return fmt.Errorf("%w: it has more than %d directories inside one another", ErrTooLarge, usageDepth)
	}
	var below []string
	err := each(at, func(info fs.FileInfo) bool {
		holds.Entries++
		switch {
		case info.Mode().IsRegular():
			holds.Bytes += info.Size()
		case info.IsDir():
			below = append(below, info.Name())
		}
		return holds.Entries <= most
	})
	for _, name := range below {
		if err != nil || holds.Entries > most {
			break
		}
		sub, e := enter(at, name)
		if e == nil {
			e = errors.Join(weigh(sub, most, depth-1, holds), sub.Close())
		}
		if !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, ErrEscape) && !errors.Is(e, ErrNotDir) {
			err = e
		}
	}
	return err
}

// Admits says whether the folder of a path is within its limits: it is a [*Full] if others have made it hold more.
// Ask it before another process writes there, and call [Root.Changed] afterwards.
func (r *Root) Admits(path string) error {
	clean, err := Clean(path)
	if err != nil {
		return err
	}
	rm, leave := r.enterFolder(clean)
	defer leave()
	if rm.dir == "" {
		return nil
	}
	holds, err := rm.measure()
	if err != nil {
		return err
	}
	return rm.check(holds, Usage{})
}

// Changed says that another process may have changed the folder of a path: it is measured before the next change.
func (r *Root) Changed(path string) {
	r.foreign.Add(1)
	r.changes.Add(1)
	clean, err := Clean(path)
	if err != nil {
		return
	}
	if dir, _, ok := r.quota.folder(clean); ok {
		r.usages.forget(dir)
	}
}
