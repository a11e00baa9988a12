// Package filestore keeps the bytes of the files that messages refer to, by the hash of their content.
//
// Guarantees:
//
//   - Bytes before reference. [Store.Keep] returns after the bytes, their name and the reference are on disk. So a
//     message that is published after Keep never refers to bytes that a crash has lost.
//   - One content takes its space once, however many messages have it.
//   - A chat reads only what it was given: [Store.Open] asks for the reference of that chat. No answer tells whether
//     another chat has the same content, because a content is new to each chat once.
//   - The type is that of the bytes, and the name is for display only: see [Look] and [DisplayName].
//   - A content streams from its source to the disk. Keep holds some kilobytes of it, whatever its size.
//   - Bounded: a file, the files of a chat, and all files together have limits. A content over the limit of a chat or
//     of all files gets a reference that says why it is not kept. A larger file is [corebot.ErrTooLarge].
//   - [Store.Sweep] removes bytes that nothing refers to, and what crashes have left, once they have been seen so for
//     [Grace]. A backup that takes less time than that has all bytes that its database refers to.
//
// Limits: one process uses a directory at a time. Bytes are not encrypted.
package filestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

// Refs are the references of messages to contents.
type Refs interface {
	// Refer stores a reference. It has a Fault where the files of the chat have no room for it.
	Refer(ctx context.Context, f corebot.AttachedFile, chatBytes int64) (corebot.AttachedFile, error)
	// File is the reference of a chat to a content; [corebot.ErrNotFound] without one.
	File(ctx context.Context, k corebot.Key, hash string) (corebot.AttachedFile, error)
	// Referred says whether any message refers to a content.
	Referred(ctx context.Context, hash string) (bool, error)
	// Contents lists the contents that are referred to, behind a hash.
	Contents(ctx context.Context, after string, limit int) ([]corebot.AttachedFile, error)
}

// Options are the limits of a [Store], in bytes.
type Options struct {
	FileBytes  int64 // of one file
	ChatBytes  int64 // of the files of one chat, each content once
	TotalBytes int64 // of all files on disk

	Low func() string // says why nothing more may be written; nil, or empty: it may
}

// MaxHeard is how large a file of a message can be that is not answered, in bytes.
const MaxHeard = 8 << 20

// Grace is how long bytes without a reference stay.
const Grace = time.Hour

// keptAtOnce bounds how many contents are written at once.
const keptAtOnce = 8

// partPrefix begins the names of files in the making.
const partPrefix = ".part-"

// Store is a directory of contents. It is safe for use by several goroutines.
type Store struct {
	dir   string
	refs  Refs
	opts  Options
	slots chan struct{}

	mu      sync.Mutex // held while a content gets its name and its reference, and while one is removed
	counted bool
	total   int64                // bytes of all contents; valid once counted
	orphans map[string]time.Time // contents without a reference, and when they were first seen so
	next    int                  // where the next sweep goes on
}

// New makes a store in a directory, which it makes when the first content comes.
func New(dir string, refs Refs, o Options) *Store {
	return &Store{
		dir: dir, refs: refs, opts: o, slots: make(chan struct{}, keptAtOnce), orphans: map[string]time.Time{},
	}
}

// SourceError is the failure of where a content comes from. Nothing was kept.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// OfSource tells this error from those of the store.
func (e *SourceError) OfSource() {}

// limits are those of one content, in bytes.
type limits struct{ file, chat, total int64 }

// Keep stores the content of a part of a message. The returned part has its hash, its type, and a name that is fit to
// be shown. The reference says whether the content was kept. Where the part has a hash, another content is not kept:
// [corebot.ErrInvalid].
func (s *Store) Keep(ctx context.Context, k corebot.Key, message string, p corebot.Part, from io.Reader) (
	corebot.Part, corebot.AttachedFile, error,
) {
	return s.keep(ctx, k, message, p, from, limits{s.opts.FileBytes, s.opts.ChatBytes, s.opts.TotalBytes})
}

// KeepHeard is Keep for a message that is not answered. A content has [MaxHeard] bytes at most. Such contents can take
// half of the room: the other half is for what people send to the bot.
func (s *Store) KeepHeard(ctx context.Context, k corebot.Key, message string, p corebot.Part, from io.Reader) (
	corebot.Part, corebot.AttachedFile, error,
) {
	return s.keep(ctx, k, message, p, from,
		limits{min(s.opts.FileBytes, MaxHeard), s.opts.ChatBytes / 2, s.opts.TotalBytes / 2})
}

func (s *Store) keep(
	ctx context.Context, k corebot.Key, message string, p corebot.Part, from io.Reader, most limits,
) (corebot.Part, corebot.AttachedFile, error) {
	none := corebot.AttachedFile{}
	if s.opts.Low != nil {
		if why := s.opts.Low(); why != "" {
			return p, none, fmt.Errorf("%w: %s", corebot.ErrDiskFull, why)
		}
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return p, none, context.Cause(ctx)
	}
	part, err := s.receive(ctx, from, most.file)
	if err != nil {
		return p, none, err
	}
	defer os.Remove(part.path) //nolint:errcheck // it has another name now, or the next sweep removes it
	if p.Hash != "" && p.Hash != part.hash {
		return p, none, fmt.Errorf("%w: the content is another than the part names", corebot.ErrInvalid)
	}
	seen, err := lookAt(part, p)
	if err != nil {
		return p, none, err
	}
	fault.Point("file", "received")
	f := corebot.AttachedFile{
		Key: k, MessageID: message, Hash: part.hash, Name: seen.Name, MediaType: seen.MediaType, Size: part.size,
	}
	f, err = s.place(ctx, part, f, most)
	seen.Hash = part.hash
	return seen, f, err
}

// lookAt sees what a content is.
func lookAt(part part, p corebot.Part) (corebot.Part, error) {
	f, err := os.Open(part.path)
	if err != nil {
		return p, fmt.Errorf("look at a file that came: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return Look(f, p)
}

// place gives a content its name and its reference.
func (s *Store) place(ctx context.Context, part part, f corebot.AttachedFile, most limits) (
	corebot.AttachedFile, error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.count(); err != nil {
		return f, err
	}
	// Another chat's content counts as new: the answer must not tell that it is here.
	if s.total+part.size > most.total {
		f.Fault = fmt.Sprintf("all files together take %d of %d bytes", s.total, most.total)
		if has, err := s.refs.File(ctx, f.Key, f.Hash); err == nil && has.Fault == "" {
			f.Fault = ""
		}
	}
	fresh := false
	if f.Fault == "" {
		var err error
		if fresh, err = s.name(part); err != nil {
			return f, fmt.Errorf("keep a file: %w", full(err))
		}
	}
	fault.Point("file", "stored")
	delete(s.orphans, f.Hash)
	f, err := s.refs.Refer(ctx, f, most.chat)
	fault.Point("file", "referred")
	if err == nil && f.Fault != "" && fresh && os.Remove(s.path(f.Hash)) == nil { // the chat has no room for it
		s.total -= f.Size
	}
	return f, err
}

// name gives a content its name, unless it is there already. Then its time is new, so that no sweep takes it for old.
func (s *Store) name(part part) (fresh bool, err error) {
	path := s.path(part.hash)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == part.size {
		now := time.Now()
		return false, os.Chtimes(path, now, now)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	if err := os.Rename(part.path, path); err != nil {
		return false, err
	}
	s.total += part.size
	return true, errors.Join(syncDir(dir), syncDir(s.dir), syncDir(filepath.Dir(s.dir)))
}

// part is a content that has no name yet.
type part struct {
	path, hash string
	size       int64
}

// receive writes a content to a file of its own, and syncs it.
func (s *Store) receive(ctx context.Context, from io.Reader, most int64) (p part, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return p, fmt.Errorf("make the directory of files: %w", err)
	}
	f, err := os.CreateTemp(s.dir, partPrefix+"*") // with the rights 0600
	if err != nil {
		return p, fmt.Errorf("keep a file: %w", full(err))
	}
	p.path = f.Name()
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(p.path))
		}
	}()
	sum := sha256.New()
	p.size, err = pour(ctx, io.MultiWriter(f, sum), from, most)
	if err == nil {
		if err = f.Sync(); err != nil {
			err = fmt.Errorf("keep a file: %w", full(err))
		}
	}
	p.hash = hex.EncodeToString(sum.Sum(nil))
	return p, err
}

// pour copies at most limit bytes; more are [corebot.ErrTooLarge].
func pour(ctx context.Context, to io.Writer, from io.Reader, limit int64) (size int64, err error) {
	buffer := make([]byte, 64<<10)
	for {
		if ctx.Err() != nil {
			return size, &SourceError{context.Cause(ctx)}
		}
		n, err := from.Read(buffer)
		if size += int64(n); size > limit {
			return size, fmt.Errorf("%w: the file has more than %d bytes", corebot.ErrTooLarge, limit)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return size, fmt.Errorf("keep a file: %w", full(err))
		}
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, &SourceError{err}
		}
	}
}

// path is where a content is. The hash is one that [isHash] has checked, or that this package has made.
func (s *Store) path(hash string) string { return filepath.Join(s.dir, hash[:2], hash) }

func isHash(hash string) bool {
	for i := range len(hash) {
		if c := hash[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(hash) == 2*sha256.Size
}

// Open opens a content that a chat has; the caller closes it. A content that the chat does not have is
// [corebot.ErrNotFound], as one that is not kept.
func (s *Store) Open(ctx context.Context, k corebot.Key, hash string) (*os.File, corebot.AttachedFile, error) {
	if !isHash(hash) {
		return nil, corebot.AttachedFile{}, fmt.Errorf("the file %.16q: %w", hash, corebot.ErrNotFound)
	}
	ref, err := s.refs.File(ctx, k, hash)
	if err != nil {
		return nil, ref, err
	}
	if ref.Fault != "" {
		return nil, ref, fmt.Errorf("the file %.16s is not kept, because %s: %w", hash, ref.Fault, corebot.ErrNotFound)
	}
	f, err := s.open(hash, ref.Size)
	return f, ref, err
}

func (s *Store) open(hash string, size int64) (*os.File, error) {
	f, err := os.Open(s.path(hash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, corebot.WithHint(fmt.Errorf("the bytes of the file %.16s: %w", hash, corebot.ErrNotFound),
			"`corebot db check` lists what is missing; a backup may have it")
	}
	if err != nil {
		return nil, fmt.Errorf("open a file: %w", err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != size) {
		err = fmt.Errorf("the file %.16s has %d bytes, and had %d", hash, info.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Blob gives the bytes of a content, at most max of them. It is for parts of messages that the store has kept.
func (s *Store) Blob(_ context.Context, hash string, max int64) ([]byte, error) {
	if !isHash(hash) {
		return nil, corebot.ErrNotFound
	}
	f, err := os.Open(s.path(hash))
	if err != nil {
		return nil, fmt.Errorf("open a file: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil || info.Size() > max {
		return nil, errors.Join(fmt.Errorf("%w: the limit is %d bytes", corebot.ErrTooLarge, max), err)
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
}

// full makes a disk without room [corebot.ErrDiskFull].
func full(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", corebot.ErrDiskFull, err)
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
