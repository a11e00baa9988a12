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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/sorted"
)

// Store is what event files need of the tasks.
type Store interface {
	// Create stores a task, once for each origin.
	Create(ctx context.Context, task corebot.Task, limits corebot.TaskLimits) (corebot.Task, error)
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
	unread bool                 // the last look could not read the directory
	again  time.Duration        // when to look again at what stayed; 0: nothing stayed
}

// state is what was seen of a file.
type state struct {
	is    identity
	since time.Time   // when it was first seen like this, by the clock that nobody sets
	taken bool        // it is a periodic file, and its task is there
	chat  corebot.Key // that had no room for its task; zero: none is known
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
	here, over, all := map[string]state{}, error(nil), false // all: no other file can be taken either
	for _, f := range files {
		seen := d.known[f.name]
		if seen.is != f.is {
			seen = state{is: f.is, since: time.Now()}
		}
		if here[f.name] = seen; seen.taken || ctx.Err() != nil || all || d.shut[seen.chat] {
			continue
		}
		var stays bool
		one := (*ofOne)(nil)
		switch seen.taken, stays, err = d.take(ctx, f, seen.since); {
		case ctx.Err() != nil:
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
	d.tell(ctx, cmp.Or(over, d.trim()))
}

func (d *Directory) stays(until time.Duration) {
	if d.again == 0 || until < d.again {
		d.again = until
	}
}

// tell logs when files begin to stay, and when none does any more.
func (d *Directory) tell(ctx context.Context, over error) {
	switch {
	case ctx.Err() != nil:
	case over != nil && !d.full:
		d.Log.Warn().Err(over).Msg("event files wait, and are tried again")
	case over == nil && d.full:
		d.Log.Info().Msg("event files are taken again")
	}
	d.full = over != nil
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

// errRoom says that a file must wait for room.
var errRoom = errors.New("there is no room for more tasks")

// take makes the task of a file, or rejects the file. Periodic says that the file is one whose task is there now. Stays
// says that it may be half-written. With an error the file is as it was.
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
	if err == nil {
		if d.shut[task.Key] { // an earlier file of the chat waits
			err = corebot.ErrChatHasTooMany
		} else if e.typ == periodic {
			err = d.keep(ctx, task)
		} else {
			_, err = d.store.Create(ctx, task, d.Limits)
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
	d.files.WithLabelValues(taken).Inc()
	if e.typ == periodic {
		return true, false, nil
	}
	return false, false, d.remove(f)
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
func (d *Directory) keep(ctx context.Context, want corebot.Task) error {
	has, err := d.store.Create(ctx, want, d.Limits)
	if err != nil || same(has, want) {
		return err
	}
	if _, err = d.store.Change(ctx, has.ID, has.Version, corebot.TaskRemove, time.Time{}); err != nil {
		return err
	}
	_, err = d.store.Create(ctx, want, d.Limits)
	return err
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

// remove deletes a file whose task is on disk. A file that was written anew meanwhile stays, and is another event.
func (d *Directory) remove(f found) error {
	name := filepath.Join(d.Path, f.name)
	if info, err := os.Lstat(name); err != nil || identityOf(info) != f.is {
		return nil
	}
	return os.Remove(name)
}

// freePlace is a path for a bad file at which nothing is. It leaves room for the name of the reason.
func freePlace(dir, name string) (string, error) {
	const longest = 200 // bytes; file systems take names of 255
	stem := runes.Head(strings.TrimSuffix(name, ".json"), longest)
	to := filepath.Join(dir, stem+".json")
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return to, nil
		} else if err != nil {
			return "", err
		}
		to = filepath.Join(dir, stem+"."+strconv.Itoa(n)+".json")
	}
}

// reject moves a bad file away, with the reason beside it.
func (d *Directory) reject(f found, why error) error {
	to, err := freePlace(filepath.Join(d.Path, rejected), f.name)
	if err != nil {
		return &ofOne{why: fmt.Errorf("set a bad event file aside: %w", err)}
	}
	text := why.Error() + "\n"
	if hint := corebot.HintOf(why); hint != "" {
		text += "hint: " + hint + "\n"
	}
	if err := os.Rename(filepath.Join(d.Path, f.name), to); err != nil {
		return &ofOne{why: fmt.Errorf("set a bad event file aside: %w", err)}
	}
	d.files.WithLabelValues(rejected).Inc()
	d.Log.Warn().Str("file", f.name).Str("moved_to", to).Str("reason", strings.TrimSpace(text)).
		Msg("an event file is bad")
	return os.WriteFile(to+reason, []byte(text), 0o600)
}

// trim deletes the oldest bad files beyond those that are kept.
func (d *Directory) trim() error {
	dir := filepath.Join(d.Path, rejected)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= 2*keptRejected {
		return err
	}
	changed := func(e fs.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{}
		}
		return identityOf(info).change
	}
	sorted.By(entries, func(a, b fs.DirEntry) int { return changed(a).Compare(changed(b)) })
	for _, e := range entries[:len(entries)-2*keptRejected] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
