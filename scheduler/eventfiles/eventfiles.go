// Package eventfiles makes tasks of the files in a directory, so that any program on the machine can tell an agent
// something by writing a file.
//
// An event file is one JSON object:
//
//	{"type": "immediate", "chat": "main:webhook::ops", "text": "The backup failed. Say why.", "data": "disk full"}
//
// Each file has type (immediate, one-shot or periodic), chat (a key or a short form of a known one) and text. The type
// decides about at, schedule and timezone. name, context and data can stand in each. The text is the operator's word,
// like the prompt of a task that the operator adds. Data is what others said: the model sees it as data, and the turn
// is tainted.
//
// Guarantees:
//
//   - Each immediate and one-shot file becomes one task. The file goes once the task is on disk. A crash in between
//     leaves a file that is known by its inode, its times and its content, and makes no second task.
//   - A file that is taken and cannot be deleted, as in a directory that is read-only, holds up no other file. It is
//     not taken again, and is deleted once that is possible.
//   - A periodic file is its task for as long as the file is there. The task is made anew when the file changes, and
//     goes with the file.
//   - Files are taken in the order in which they were written.
//   - A file that ends in the middle of its JSON is read again until it has not changed for [settle]. A bad file moves
//     to the directory rejected, with the reason beside it; nothing is overwritten there.
//   - A file for which there is no room, because there are as many tasks as a limit allows, stays and is tried again.
//
// Only a plain file that nobody but the operator can change is read: see package owned. Files that begin with a dot or
// do not end in .json are left alone, so that a program can write one and then rename it.
package eventfiles

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/sorted"
)

// Store is what event files need of the tasks.
type Store interface {
	// CreateOnce stores a task, once for each origin. made says whether this call did.
	CreateOnce(ctx context.Context, task corebot.Task, limits corebot.TaskLimits) (has corebot.Task, made bool,
		err error)
	// OfFiles gives the repeated tasks that were made of files, by their origins behind one.
	OfFiles(ctx context.Context, after string, limit int) ([]corebot.Task, error)
	Change(ctx context.Context, id, version int64, action corebot.TaskAction, next time.Time) (corebot.Task, error)
}

// Options of a [Directory].
type Options struct {
	Path   string // of the directory; it is made if it is not there
	Owner  corebot.Principal
	Alone  corebot.OwnersChannel // what its chats are told only the owner reads
	Zone   string                // of an event that names none
	Limits corebot.TaskLimits
	// Chat finds the chat that an event names. The error is [corebot.ErrNotFound] or [corebot.ErrInvalid] if there is
	// none.
	Chat    func(ctx context.Context, name string) (corebot.Key, error)
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Directory turns files into tasks. There must be one at most for a directory.
type Directory struct {
	Options
	store  Store
	files  *prometheus.CounterVec
	known  map[string]state     // by the name of the file
	shut   map[corebot.Key]bool // chats that had no room for a task in this look
	full   bool                 // the last look left files for want of room
	stuck  bool                 // the last look left files that cannot be deleted
	unread bool                 // the last look could not read the directory
	again  time.Duration        // when to look again at what stayed; 0: nothing stayed
}

// state is what was seen of a file.
type state struct {
	is    identity
	since time.Time   // when it was first seen like this, by the clock that nobody sets
	taken bool        // it is a periodic file, and its task is there
	spent bool        // its task is there, and the file cannot be deleted
	chat  corebot.Key // that had no room for its task; zero: none is known
}

// of is the state of a file that is now seen like this. A file that was written anew is another one.
func (s state) of(is identity) state {
	switch {
	case s.is == is:
		return s
	case s.spent && s.is.inode == is.inode && s.is.size == is.size && s.is.written.Equal(is.written):
		s.is = is // only its rights have changed, as of a file that somebody makes deletable
		return s
	}
	return state{is: is, since: time.Now()}
}

// identity tells one writing of a file from every other.
type identity struct {
	inode, size     uint64
	written, change time.Time
}

func identityOf(info fs.FileInfo) identity {
	is := identity{size: uint64(info.Size()), written: info.ModTime(), change: rootfs.Changed(info)}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		is.inode = st.Ino
	}
	return is
}

// New makes a directory of event files.
func New(store Store, o Options) (*Directory, error) {
	d := &Directory{Options: o, store: store, known: map[string]state{}, files: prometheus.NewCounterVec(
		prometheus.CounterOpts{
			Name: "corebot_event_files_total", Help: "Event files by what became of them: taken, removed, rejected.",
		}, []string{"outcome"})}
	for _, outcome := range []string{taken, removed, rejected} {
		d.files.WithLabelValues(outcome)
	}
	if o.Metrics == nil {
		return d, nil
	}
	if err := o.Metrics.Register(d.files); err != nil {
		return nil, fmt.Errorf("register the metrics of event files: %w", err)
	}
	return d, nil
}

// Outcomes of a file.
const (
	taken    = "taken"    // its task is there
	removed  = "removed"  // a periodic file has gone, and its task with it
	rejected = "rejected" // it is bad; also the name of the directory for such files
)

const (
	settle       = 2 * time.Second       // a half-written file counts as bad after it has not changed for so long
	gather       = 20 * time.Millisecond // between the word of a change and the look at the directory
	without      = 5 * time.Second       // between looks where the system tells of no changes
	slow         = time.Minute           // between looks beside it: words of changes can be lost
	retry        = 10 * time.Second      // after an error or for want of room
	keptRejected = 1000                  // bad files; the oldest go
	perPage      = 500                   // tasks that are read together
	reason       = ".reason.txt"         // ends the name of the file that says why another is bad
)

// Run makes tasks of files until ctx ends. Failures are logged, and the work is tried again.
func (d *Directory) Run(ctx context.Context) error {
	words, lost, every := make(<-chan fsnotify.Event), make(<-chan error), slow
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		d.Log.Warn().Err(err).Msg("the system tells of no changes of files: event files are looked for every 5 s")
		every = without
	} else {
		defer watcher.Close() //nolint:errcheck // nothing was written
		words, lost = watcher.Events, watcher.Errors
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := time.Now()
	soon := func() {
		if at := time.Now().Add(gather); at.Before(due) {
			due = at
			timer.Reset(gather)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-words:
			soon()
			continue
		case <-lost: // such as words that came faster than they were read; the watcher waits until it has told that
			soon()
			continue
		case <-timer.C:
		}
		if err := os.MkdirAll(filepath.Join(d.Path, rejected), 0o700); err != nil {
			d.Log.Error().Err(err).Msg("the directory of event files cannot be made")
		}
		if watcher != nil { // again: the directory can be another one now
			if err := watcher.Add(d.Path); err != nil {
				d.Log.Warn().Err(err).Msg("the directory of event files cannot be watched")
			}
		}
		d.Look(ctx)
		next := every
		if d.again > 0 {
			next = min(next, d.again)
		}
		due = time.Now().Add(next)
		timer.Reset(next)
	}
}

// found is a file of the directory.
type found struct {
	name string
	is   identity
	info fs.FileInfo
}

// Look takes the files that are there now.
func (d *Directory) Look(ctx context.Context) {
	d.again = 0
	files, err := d.list()
	if err != nil {
		d.stays(retry)
		if !d.unread {
			d.Log.Error().Err(err).Msg("the directory of event files cannot be read")
		}
		d.unread = true
		return
	}
	d.unread = false
	d.shut = map[corebot.Key]bool{}
	here, over, stuck, all := map[string]state{}, error(nil), error(nil), false // all: no other can be taken either
	for _, f := range files {
		seen := d.known[f.name].of(f.is)
		if seen.spent {
			if err := d.remove(f); err != nil {
				here[f.name], stuck = seen, cmp.Or(stuck, err)
			}
			continue
		}
		if here[f.name] = seen; seen.taken || ctx.Err() != nil || all || d.shut[seen.chat] {
			continue
		}
		var stays bool
		one, left := (*ofOne)(nil), (*leftover)(nil)
		switch seen.taken, stays, err = d.take(ctx, f, seen.since); {
		case ctx.Err() != nil:
		case errors.As(err, &left):
			seen.spent, stuck = true, cmp.Or(stuck, left.why)
		case errors.As(err, &one):
			over, seen.chat = cmp.Or(over, err), one.chat
			d.stays(retry)
		case err != nil:
			over, all = cmp.Or(over, err), true
			d.stays(retry)
		case stays:
			d.stays(settle / 2)
		case !seen.taken:
			delete(here, f.name)
			continue
		}
		here[f.name] = seen
	}
	d.known = here
	if ctx.Err() == nil {
		gone, err := d.removeGone(ctx)
		switch {
		case err != nil:
			d.stays(retry)
		case gone > 0 && over != nil: // now there is room
			d.stays(gather)
		}
		over = cmp.Or(over, err)
	}
	if stuck != nil {
		d.stays(retry)
	}
	d.tell(ctx, cmp.Or(over, d.trim()), stuck)
}

func (d *Directory) stays(until time.Duration) {
	if d.again == 0 || until < d.again {
		d.again = until
	}
}

// tell logs when files begin to stay, and when none does any more. The error over is of a file that waits, and stuck is
// of one whose task is made.
func (d *Directory) tell(ctx context.Context, over, stuck error) {
	if ctx.Err() != nil {
		return
	}
	switch {
	case over != nil && !d.full:
		d.Log.Warn().Err(over).Msg("event files wait, and are tried again")
	case over == nil && d.full:
		d.Log.Info().Msg("event files are taken again")
	}
	switch {
	case stuck != nil && !d.stuck:
		d.Log.Warn().Err(stuck).Msg("event files whose tasks are made cannot be deleted; nothing waits for them")
	case stuck == nil && d.stuck:
		d.Log.Info().Msg("event files are deleted again")
	}
	d.full, d.stuck = over != nil, stuck != nil
}

// list gives the event files of the directory in the order in which they were written.
func (d *Directory) list() (files []found, err error) {
	entries, err := os.ReadDir(d.Path)
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, ".") || filepath.Ext(name) != ".json" {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it has gone meanwhile
		}
		files = append(files, found{e.Name(), identityOf(info), info})
	}
	sorted.By(files, func(a, b found) int {
		return cmp.Or(a.is.written.Compare(b.is.written), strings.Compare(a.name, b.name))
	})
	return files, err
}

// ofOne says that a file stays, and holds up no file but those of its chat.
type ofOne struct {
	chat corebot.Key // that has no room; zero: the file is bad, and cannot be set aside
	why  error
}

func (e *ofOne) Error() string { return e.why.Error() }
func (e *ofOne) Unwrap() error { return e.why }

// leftover says that the task of a file is made, and that the file cannot be deleted.
type leftover struct{ why error }

func (e *leftover) Error() string { return e.why.Error() }
func (e *leftover) Unwrap() error { return e.why }

// errRoom says that a file must wait for room.
var errRoom = errors.New("there is no room for more tasks")

// take makes the task of a file, or rejects the file. Periodic says that the file is one whose task is there now. Stays
// says that it may be half-written. With an error the file is as it was; with a [leftover] its task is made all the
// same.
func (d *Directory) take(ctx context.Context, f found, since time.Time) (isPeriodic, stays bool, err error) {
	raw, err := d.read(f)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	var e event
	if err == nil {
		e, err = parse(raw)
	}
	if halfWritten(err) && time.Since(since) < settle {
		return false, true, nil
	}
	if err != nil {
		return false, false, d.reject(f, err)
	}
	task, err := d.task(ctx, f, e, raw)
	made := false
	if err == nil {
		if d.shut[task.Key] { // an earlier file of the chat waits
			err = corebot.ErrChatHasTooMany
		} else if e.typ == periodic {
			made, err = d.keep(ctx, task)
		} else {
			_, made, err = d.store.CreateOnce(ctx, task, d.Limits)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, corebot.ErrChatHasTooMany):
		d.shut[task.Key] = true
		return false, false, &ofOne{task.Key, fmt.Errorf("%w: %w", errRoom, err)}
	case errors.Is(err, corebot.ErrOverloaded), errors.Is(err, corebot.ErrTooManyTasks):
		return false, false, fmt.Errorf("%w: %w", errRoom, err)
	case errors.Is(err, corebot.ErrInvalid), errors.Is(err, corebot.ErrTooLarge), errors.Is(err, corebot.ErrNotFound):
		return false, false, d.reject(f, err)
	default:
		return false, false, err
	}
	if made { // an earlier process can have made it
		d.files.WithLabelValues(taken).Inc()
	}
	if e.typ == periodic {
		return true, false, nil
	}
	if err := d.remove(f); err != nil {
		return false, false, &leftover{err}
	}
	return false, false, nil
}

// task makes the task of an event, with all that the file itself says.
func (d *Directory) task(ctx context.Context, f found, e event, raw []byte) (t corebot.Task, err error) {
	t, err = e.task(strings.TrimSuffix(f.name, ".json"), f.is.written, time.Now(), d.Zone)
	if err != nil {
		return t, err
	}
	if t.Key, err = d.Chat(ctx, e.chat); err != nil {
		return t, err
	}
	t.Creator, t.Overheard, t.Origin = d.Owner, !d.Alone.Is(t.Key.Channel), f.name
	if e.typ != periodic {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %s", f.is.inode, f.is.written.UnixNano(),
			f.is.change.UnixNano(), raw))
		t.Origin += ":" + hex.EncodeToString(sum[:8])
	}
	return t, nil
}

// read gives what stands in a file that only the operator can have written.
func (d *Directory) read(f found) ([]byte, error) {
	if !f.info.Mode().IsRegular() { // a symbolic link, too
		return nil, fmt.Errorf("%w: it is not a plain file", errFile)
	}
	file, info, err := owned.Open(filepath.Join(d.Path, f.name))
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if info.Size() > MaxFile {
		return nil, fmt.Errorf("%w: it has %d bytes, the limit is %d", errFile, info.Size(), MaxFile)
	}
	raw, err := io.ReadAll(io.LimitReader(file, MaxFile))
	return bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), err
}

// keep makes the task of a periodic file, in place of the one that an earlier version of the file made.
func (d *Directory) keep(ctx context.Context, want corebot.Task) (made bool, err error) {
	has, made, err := d.store.CreateOnce(ctx, want, d.Limits)
	if err != nil || same(has, want) {
		return made, err
	}
	if _, err = d.store.Change(ctx, has.ID, has.Version, corebot.TaskRemove, time.Time{}); err != nil {
		return false, err
	}
	_, made, err = d.store.CreateOnce(ctx, want, d.Limits)
	return made, err
}

// same says whether a task is the one that a file describes. Its due times are its own.
func same(has, want corebot.Task) bool {
	return has.Key == want.Key && has.Schedule == want.Schedule && has.Prompt == want.Prompt && has.Data == want.Data &&
		has.Name == want.Name && has.Context == want.Context && has.Creator == want.Creator &&
		has.Taint == want.Taint &&
		has.Damaged == nil
}

// removeGone removes the tasks of periodic files that are not there any more.
func (d *Directory) removeGone(ctx context.Context) (gone int, err error) {
	for after := ""; ; {
		tasks, err := d.store.OfFiles(ctx, after, perPage)
		if err != nil || len(tasks) == 0 {
			return gone, err
		}
		for _, t := range tasks {
			if after = t.Origin; d.known[t.Origin].taken {
				continue
			}
			if _, err := os.Lstat(filepath.Join(d.Path, t.Origin)); !errors.Is(err, fs.ErrNotExist) {
				continue // it has just come, or cannot be looked at
			}
			if _, err := d.store.Change(ctx, t.ID, 0, corebot.TaskRemove, time.Time{}); err != nil {
				return gone, err
			}
			gone++
			d.files.WithLabelValues(removed).Inc()
		}
	}
}
