package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/terms"
)

// Line is one line of a page.
type Line struct {
	Page               int // of the pages that were searched, from 0
	Number             int // from 1
	Text               string
	corebot.MemoryNote // where the line came from
}

// Finder finds lines of pages by their words and, where there are vectors, by their meaning.
type Finder interface {
	Lines(ctx context.Context, k corebot.Key, q terms.Query, pages []corebot.MemoryLines, limit int) (
		found []corebot.LineAt, how corebot.Match, err error)
}

// FindBy has searches find lines by a finder. It is for the time before the first search. Without a finder searches
// go by words.
func (s *Store) FindBy(f Finder) { s.finder = f }

// Search finds lines of pages for a chat. By words it gives the lines that have every phrase, in their order; by
// meaning, at most limit lines, the best first. Of a page over the cap it searches the beginning.
func (s *Store) Search(ctx context.Context, k corebot.Key, q terms.Query, pages []corebot.Key,
	limit int,
) (found []Line, how corebot.Match, err error) {
	var texts []corebot.MemoryLines
	var notes [][]corebot.MemoryNote
	for _, page := range pages {
		pieces, _, err := s.Pieces(ctx, page)
		if err != nil {
			return nil, how, err
		}
		text, from := corebot.MemoryLines{Key: page}, []corebot.MemoryNote(nil)
		for _, p := range pieces {
			for line := range strings.Lines(strings.ToValidUTF8(p.Text, "\uFFFD")) {
				text.Lines, from = append(text.Lines, strings.TrimSpace(line)), append(from, p.MemoryNote)
			}
		}
		texts, notes = append(texts, text), append(notes, from)
	}
	var places []corebot.LineAt
	if s.finder == nil {
		places = byWords(q, texts)
	} else if places, how, err = s.finder.Lines(ctx, k, q, texts, limit); err != nil {
		return nil, how, fmt.Errorf("search memory: %w", err)
	}
	for _, at := range places {
		found = append(found, Line{at.Page, at.Line + 1, texts[at.Page].Lines[at.Line], notes[at.Page][at.Line]})
	}
	return found, how, nil
}

// manyChats is how many directories of chats are looked at together.
const manyChats = 100_000

// Written says of which conversations and accounts there can be a page: it reads the names of their directories once,
// instead of looking for each page.
func (s *Store) Written() (can func(k corebot.Key) bool, err error) {
	names, more, _, err := rootfs.NewDirs(s.root, rootfs.ChatsDir, manyChats).Names()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for pages of memory: %w", err)
	}
	return func(k corebot.Key) bool {
		_, there := slices.BinarySearch(names, path.Base(rootfs.ChatDir(k)))
		return there || more > 0
	}, nil
}

func byWords(q terms.Query, pages []corebot.MemoryLines) (found []corebot.LineAt) {
	for i, page := range pages {
		for n, line := range page.Lines {
			if len(q.Phrases) > 0 && q.In(line).Phrases == len(q.Phrases) {
				found = append(found, corebot.LineAt{Page: i, Line: n})
			}
		}
	}
	return found
}

// Still gives the beginning of a page, up to the cap. It calls read first, while nobody can change the page through
// the Store.
func (s *Store) Still(k corebot.Key, read func() error) (string, error) {
	release, err := s.root.Hold(string(Of(k)))
	if err != nil {
		return "", err
	}
	defer release()
	if err := read(); err != nil {
		return "", err
	}
	page, err := s.root.ReadChunk(string(Of(k)), 0, s.max)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.ToValidUTF8(string(page.Data), "\uFFFD"), err
}
