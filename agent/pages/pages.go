// Package pages reads the files of a workspace that stand in every prompt: who the assistant is, whom it serves, its
// memory.
//
// Guarantees:
//
//   - One bad page fails no turn and no start. [Store.Read] has no error: it leaves out a page or a part that cannot be
//     shown, and the page says so.
//   - A page in a prompt has at most [MaxBytes] bytes. Of a longer file the beginning is shown, up to the end of a
//     line.
//   - The text is valid UTF-8 without invisible characters: some providers refuse a prompt with others.
//   - The operator is told. Each fault is logged once as long as it stays the same, and [Store.Faults] lists the faults
//     that still hold.
//   - An unchanged page is not read again.
//   - A change is seen: by [Store.Read] at once, and by [Store.Glance] after at most a second. A change that was made
//     through the store's root is seen by both at once.
//
// Limit: a store remembers the faults of at most 256 pages.
package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/runes"
)

// MaxBytes is how many bytes of a file stand in a prompt, and how large the tools may make it.
const MaxBytes = 64 << 10

// maxFaults bounds what a store remembers: every chat has a page of its own.
const maxFaults = 256

// Page is a file as a prompt shows it.
type Page struct {
	Text    string
	LeftOut string // what is missing in the text, and why; empty: nothing
}

// Fault says what is wrong with a page.
type Fault struct {
	Path string // in the workspace
	What string // a sentence that names the path
	Hint string // what mends it
}

// Store reads pages of one workspace. It is safe for use by several goroutines.
type Store struct {
	root  *rootfs.Root
	log   zerolog.Logger
	often []string
	kept  *rootfs.Derived[seen]

	mu     sync.Mutex
	faults map[string]Fault

	looked   map[string]looked // by path, of pages that are read often; guarded by mu
	renewals atomic.Uint64
}

// looked is what a look at a page found.
type looked struct {
	page    Page
	at      time.Time
	changes uint64 // as of when it began
}

// seen is a page, and what is wrong with its file.
type seen struct {
	page  Page
	fault Fault
}

// New reads the pages of a workspace, and keeps those that are read often in memory. Nothing is read yet.
func New(root *rootfs.Root, log zerolog.Logger, often ...string) (*Store, error) {
	if root == nil {
		return nil, fmt.Errorf("%w: pages need a directory", corebot.ErrInvalid)
	}
	return &Store{
		root: root, log: log, often: often, kept: rootfs.NewDerived(root, shown), faults: map[string]Fault{},
		looked: map[string]looked{},
	}, nil
}

// Read gives a page as it is now. A file that is missing is an empty page.
func (s *Store) Read(path string) Page {
	got, err := s.whole(path)
	switch {
	case errors.Is(err, rootfs.ErrTooLarge):
		got = s.beginning(path)
	case errors.Is(err, fs.ErrNotExist):
		got = seen{}
	case err != nil:
		got = without(path, err)
	}
	s.note(path, got.fault)
	return got.page
}

// holds is how long a look at a page is good for a glance.
const holds = time.Second

// Glance is [Store.Read], as of a second ago at most for a page that is read often. It is as of now after a change
// through the store's root, and after [Store.Renew].
func (s *Store) Glance(path string) Page {
	if !slices.Contains(s.often, path) {
		return s.Read(path)
	}
	changes, now := s.changes(), time.Now()
	s.mu.Lock()
	last, ok := s.looked[path]
	s.mu.Unlock()
	if ok && last.changes == changes && now.Sub(last.at) < holds {
		return last.page
	}
	page := s.Read(path)
	s.mu.Lock()
	s.looked[path] = looked{page, now, changes}
	s.mu.Unlock()
	return page
}

// Renew has the next [Store.Glance] look at the file.
func (s *Store) Renew() { s.renewals.Add(1) }

// changes is another number when a look does not hold any more. Both parts of it only grow.
func (s *Store) changes() uint64 { return s.root.Changes() + s.renewals.Load() }

// whole is a page whose file has no more than a page may have.
func (s *Store) whole(path string) (seen, error) {
	if slices.Contains(s.often, path) {
		return s.kept.Get(path, MaxBytes)
	}
	if s.root.Missing(path) { // most conversations have no page
		return seen{}, fs.ErrNotExist
	}
	data, err := s.root.ReadFile(path, MaxBytes)
	if err != nil {
		return seen{}, err
	}
	return shown(path, data), nil
}

// Faults reads the pages that are read often, and again every other one that had a fault. It gives the faults that
// hold, by path.
func (s *Store) Faults() []Fault {
	s.mu.Lock()
	suspects := slices.AppendSeq(slices.Clone(s.often), maps.Keys(s.faults))
	s.mu.Unlock()
	slices.Sort(suspects)
	for _, path := range slices.Compact(suspects) {
		s.Read(path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Fault
	for _, path := range slices.Sorted(maps.Keys(s.faults)) {
		found = append(found, s.faults[path])
	}
	return found
}

// note remembers the fault of a page, or that it has none any more, and logs a change. A file that only grows is not
// logged again.
func (s *Store) note(path string, now Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.faults[path]
	switch {
	case now == before || now != (Fault{}) && !known && len(s.faults) >= maxFaults:
		return
	case now == Fault{}:
		delete(s.faults, path)
		s.log.Info().Str("page", path).Msg("a page of the prompt is whole again")
	default:
		if s.faults[path] = now; before.Hint == now.Hint {
			return
		}
		s.log.Warn().Str("page", path).Str("hint", now.Hint).Msg(now.What)
	}
}

// beginning is what a prompt shows of a file over the limit.
func (s *Store) beginning(path string) seen {
	chunk, err := s.root.ReadChunk(path, 0, MaxBytes)
	if err != nil { // the file is another one by now
		return without(path, err)
	}
	cut := chunk.Data
	if end := strings.LastIndexByte(string(cut), '\n'); end > 0 {
		cut = cut[:end+1]
	}
	got := shown(path, runes.Whole(cut))
	got.page.LeftOut = fmt.Sprintf("only the first %d bytes of %s are shown: it has %d, and the limit is %d", len(cut),
		path, chunk.Size, MaxBytes)
	got.fault = Fault{path, fmt.Sprintf("prompts have only the first %d bytes of %s: it has %d, and the limit is %d",
		len(cut), path, chunk.Size, MaxBytes), hintShorter}
	return got
}

const (
	hintShorter = "shorten the file"
	hintUTF8    = "save the file as UTF-8 text"
	hintPlain   = "put a plain file in its place, with one name (no links), that Corebot's user can read"
)

// without is a page whose file cannot be read.
func without(path string, err error) seen {
	why := strings.TrimPrefix(err.Error(), "read "+path+": ")
	if strings.HasPrefix(why, "is ") || strings.HasPrefix(why, "leads ") { // the errors of rootfs follow a subject
		why = "it " + why
	}
	return seen{
		Page{LeftOut: fmt.Sprintf("%s is left out, since it cannot be read: %s", path, why)},
		Fault{path, fmt.Sprintf("prompts are without %s, since it cannot be read: %s", path, why), hintPlain},
	}
}

// shown is a file that could be read.
func shown(path string, data []byte) seen {
	got := seen{page: Page{Text: redact.Visible(string(data))}}
	if !utf8.Valid(data) || strings.IndexByte(string(data), 0) >= 0 {
		got.page.LeftOut = path + " is not UTF-8 text: some of its characters are missing"
		got.fault = Fault{
			path, fmt.Sprintf("%s is not UTF-8 text: prompts show it without some characters", path),
			hintUTF8,
		}
	}
	return got
}
