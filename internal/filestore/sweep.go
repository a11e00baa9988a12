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
	"strings"
	"time"

	"github.com/corebot/corebot"
)

const (
	sweptAtOnce = 2_000  // contents that one sweep looks at, about
	maxOrphans  = 10_000 // contents without a reference that are remembered
	maxProblems = 20
)

// count has the total be that of the disk, once. The mutex is held.
func (s *Store) count() error {
	if s.counted {
		return nil
	}
	s.total = 0
	err := filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err == nil && isHash(d.Name()) {
			s.total += info.Size()
		}
		return ignoreMissing(err)
	})
	if err != nil {
		return fmt.Errorf("count the files: %w", err)
	}
	s.counted = true
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sweep removes contents that were without a reference for [Grace], and what crashes have left of contents in the
// making. Of many contents one sweep looks at a part, and the next one goes on there.
func (s *Store) Sweep(ctx context.Context) error { return s.sweep(ctx, Grace) }

func (s *Store) sweep(ctx context.Context, grace time.Duration) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return ignoreMissing(err)
	}
	s.sweepParts(entries, time.Now().Add(-grace))
	s.mu.Lock()
	from := s.next
	s.mu.Unlock()
	looked := 0
	for i := range entries {
		at := (from + i) % len(entries)
		if looked >= sweptAtOnce || ctx.Err() != nil {
			s.mu.Lock()
			s.next = at
			s.mu.Unlock()
			return context.Cause(ctx)
		}
		if !entries[at].IsDir() {
			continue
		}
		n, err := s.sweepDir(ctx, filepath.Join(s.dir, entries[at].Name()), grace)
		if looked += n; err != nil {
			return err
		}
	}
	return nil
}

// sweepParts removes files in the making that are old.
func (s *Store) sweepParts(entries []fs.DirEntry, before time.Time) {
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), partPrefix) {
			continue
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(s.dir, e.Name())) // the next sweep tries again
		}
	}
}

// Release removes contents at once that nothing refers to any more: their chat was deleted.
func (s *Store) Release(ctx context.Context, hashes []string) error {
	for _, hash := range hashes {
		if !isHash(hash) {
			continue
		}
		if err := s.orphan(ctx, s.path(hash), 0); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) sweepDir(ctx context.Context, dir string, grace time.Duration) (looked int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	for _, e := range entries {
		if !isHash(e.Name()) || ctx.Err() != nil {
			continue
		}
		looked++
		referred, err := s.refs.Referred(ctx, e.Name())
		if err != nil {
			return looked, err
		}
		if referred {
			s.mu.Lock()
			delete(s.orphans, e.Name()) // its time begins anew when it loses its last reference
			s.mu.Unlock()
			continue
		}
		if err := s.orphan(ctx, filepath.Join(dir, e.Name()), grace); err != nil {
			return looked, err
		}
	}
	return looked, nil
}

// orphan removes a content if it has been without a reference for long enough, and notes it otherwise.
func (s *Store) orphan(ctx context.Context, path string, grace time.Duration) error {
	hash, now := filepath.Base(path), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	first, seen := s.orphans[hash]
	if !seen {
		if grace > 0 && len(s.orphans) >= maxOrphans {
			return nil // those that are noted go first, and make room
		}
		first = now
		s.orphans[hash] = now
	}
	info, err := os.Lstat(path)
	if err != nil {
		delete(s.orphans, hash)
		return ignoreMissing(err)
	}
	if now.Sub(first) < grace || now.Sub(info.ModTime()) < grace {
		return nil
	}
	if referred, err := s.refs.Referred(ctx, hash); err != nil {
		return err
	} else if referred { // since it was looked at, or by another chat
		delete(s.orphans, hash)
		return nil
	}
	if err := os.Remove(path); err != nil {
		return ignoreMissing(err)
	}
	delete(s.orphans, hash)
	if s.counted {
		s.total -= info.Size()
	}
	return nil
}

// Problems reads every content that a message refers to, and says which are missing or damaged, at most 20 of them.
func Problems(ctx context.Context, dir string, refs Refs) (problems []string, err error) {
	s := New(dir, refs, Options{})
	const page = 500
	for after := ""; ; {
		contents, err := refs.Contents(ctx, after, page)
		if err != nil {
			return problems, err
		}
		for _, c := range contents {
			after = c.Hash
			if why := s.problem(ctx, c); why != "" {
				problems = append(problems, why)
			}
			if ctx.Err() != nil || len(problems) >= maxProblems {
				return problems, context.Cause(ctx)
			}
		}
		if len(contents) < page {
			return problems, nil
		}
	}
}

func (s *Store) problem(ctx context.Context, c corebot.AttachedFile) string {
	if !isHash(c.Hash) {
		return fmt.Sprintf("a message refers to a file %.20q, which is no hash", c.Hash)
	}
	fault, _ := Give(ctx, s.dir, c, io.Discard) // which takes everything
	return fault
}

// Give writes a content of a directory of contents somewhere. A content that is missing, damaged or unreadable is no
// error but a fault: what was written then is nothing, or not the content.
func Give(ctx context.Context, dir string, c corebot.AttachedFile, to io.Writer) (fault string, err error) {
	if !isHash(c.Hash) {
		return fmt.Sprintf("%.20q is no hash of a file", c.Hash), nil
	}
	f, err := New(dir, nil, Options{}).open(c.Hash, c.Size)
	if errors.Is(err, corebot.ErrNotFound) {
		return fmt.Sprintf("the file %s is missing, and messages refer to it", c.Hash), nil
	}
	if err != nil {
		return err.Error(), nil //nolint:nilerr // the reason is the result
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	source := (*SourceError)(nil)
	switch _, err := pour(ctx, io.MultiWriter(to, sum), f, c.Size); {
	case errors.As(err, &source) && ctx.Err() == nil, errors.Is(err, corebot.ErrTooLarge):
		return fmt.Sprintf("the file %s cannot be read: %v", c.Hash, err), nil
	case err != nil:
		return "", err
	case hex.EncodeToString(sum.Sum(nil)) != c.Hash:
		return fmt.Sprintf("the file %s is damaged: its bytes have another hash", c.Hash), nil
	}
	return "", nil
}
