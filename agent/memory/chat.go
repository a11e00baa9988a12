package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// A page is a file that tools, programs and people can change. A reader has to know whose text it is. So
// [Store.Remember] stores, beside the file, where each piece came from, with the hash of the page up to the end of the
// piece. A piece counts as what is stored of it only while the page is the same up to there. All text behind a change
// by somebody else is of an unknown source. So no such change can forge a piece, repeat one, put one into another order
// or take a line out of its middle.

// Sources keeps where the pieces of a page came from. A key is one of [Of].
type Sources interface {
	MemoryNotes(ctx context.Context, k corebot.Key) ([]corebot.MemoryNote, error)
	// SetMemoryNotes replaces all that is kept of a page, of which some lines go. The event names a change of the
	// operator for the audit; it is empty for a call of a tool.
	SetMemoryNotes(ctx context.Context, k corebot.Key, notes []corebot.MemoryNote, gone []string, event string) error
}

// Piece is a part of a page, with where it came from.
type Piece struct {
	Text string
	corebot.MemoryNote
}

// Lines counts the lines of pieces.
func Lines(pieces []Piece) (n int) {
	for _, p := range pieces {
		for range strings.Lines(p.Text) {
			n++
		}
	}
	return n
}

// Unknown is the taint of a piece that something else than [Store.Remember] wrote.
const Unknown = "it was not written by memory.write"

// maxPieces bounds what is stored of a page.
const maxPieces = 1_000

// Pieces gives the page of a key. Of a page over the cap it gives the beginning, and whole is false.
func (s *Store) Pieces(ctx context.Context, k corebot.Key) (pieces []Piece, whole bool, err error) {
	page, err := s.root.ReadChunk(string(Of(k)), 0, s.max)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, true, nil
	case err != nil:
		return nil, false, fmt.Errorf("read memory: %w", err)
	}
	pieces, err = s.pieces(ctx, k, page.Data)
	return pieces, page.Size <= s.max, err
}

// pieces takes a page apart.
func (s *Store) pieces(ctx context.Context, k corebot.Key, page []byte) ([]Piece, error) {
	if len(page) == 0 {
		return nil, nil
	}
	var notes []corebot.MemoryNote
	if s.sources != nil {
		var err error
		if notes, err = s.sources.MemoryNotes(ctx, k); err != nil {
			return nil, fmt.Errorf("read where memory came from: %w", err)
		}
	}
	return takeApart(page, notes), nil
}

// takeApart finds the longest beginning of a page that is as the notes say. The text behind it is of an
// unknown source.
func takeApart(page []byte, notes []corebot.MemoryNote) (pieces []Piece) {
	sum, at := sha256.New(), 0
	known, behind := 0, 0 // pieces that are as the notes say, and where they end
	for _, n := range notes {
		if n.Ends <= at || n.Ends > len(page) {
			break
		}
		sum.Write(page[at:n.Ends])
		pieces = append(pieces, Piece{string(page[at:n.Ends]), n})
		if at = n.Ends; hex.EncodeToString(sum.Sum(nil)) == n.Sum {
			known, behind = len(pieces), at
		}
	}
	if pieces = pieces[:known]; behind < len(page) {
		pieces = append(pieces, Piece{string(page[behind:]), corebot.MemoryNote{Taint: Unknown}})
	}
	return pieces
}

// putTogether is the page of some pieces, and what is stored of them.
func putTogether(pieces []Piece) (page []byte, notes []corebot.MemoryNote) {
	sum := sha256.New()
	for _, p := range pieces {
		page = append(page, p.Text...)
		sum.Write([]byte(p.Text))
		p.Ends, p.Sum = len(page), hex.EncodeToString(sum.Sum(nil))
		notes = append(notes, p.MemoryNote)
	}
	return page, notes
}

// Remember makes an edit of a page on behalf of a turn: its sender, its message and its taint. A replacement
// takes the place of text of its own kind alone. Of a clean turn that is the clean text of its sender and what the
// operator stands for. Of any other turn it is all text that is not clean. So nothing that the turn was not shown is
// lost. It gives how many lines of the other kind stay. The page of the agent is the operator's, whoever wrote it:
// there a replacement takes the place of everything. The function unless is as in [Store.Change].
func (s *Store) Remember(ctx context.Context, k corebot.Key, e Edit, from corebot.MemoryNote,
	unless func(old []byte, exists bool) error,
) (kept int, err error) {
	err = s.changePage(ctx, k, e.Text, e.limit(s.max), "", func(old []byte, exists bool) ([]Piece, error) {
		if unless != nil {
			if err := unless(old, exists); err != nil {
				return nil, err
			}
		}
		pieces, err := s.edited(ctx, k, old, e, from)
		if err == nil && e.Replaces {
			kept = Lines(pieces)
			if e.Text != "" {
				kept -= Lines(pieces[len(pieces)-1:])
			}
		}
		return pieces, err
	})
	return kept, err
}

// Remembered is a chat's page after an edit, and changes nothing itself.
func (s *Store) Remembered(ctx context.Context, k corebot.Key, old []byte, e Edit,
	from corebot.MemoryNote,
) ([]byte, error) {
	pieces, err := s.edited(ctx, k, old, e, from)
	if err != nil {
		return nil, err
	}
	page, _ := putTogether(pieces)
	return page, s.fits(page)
}

// edited is a page after an edit.
func (s *Store) edited(ctx context.Context, k corebot.Key, old []byte, e Edit,
	from corebot.MemoryNote,
) ([]Piece, error) {
	if !e.Replaces {
		if err := s.fits(old); err != nil {
			return nil, err
		}
	}
	pieces, err := s.pieces(ctx, k, old)
	if err != nil {
		return nil, err
	}
	if e.Replaces && k == k.OfAgent() {
		pieces = nil
	} else if e.Replaces {
		pieces = slices.DeleteFunc(pieces, func(p Piece) bool {
			if from.Clean() {
				return p.CleanFor(from.Sender)
			}
			return !p.Clean()
		})
	}
	if e.Text == "" {
		return pieces, nil
	}
	if last := len(pieces) - 1; last >= 0 {
		pieces[last].Text = ended(pieces[last].Text)
		if sameTurn(pieces[last].MemoryNote, from) {
			pieces[last].Text += ended(e.Text)
			return pieces, nil
		}
	}
	if len(pieces) >= maxPieces {
		return nil, fmt.Errorf("the page %w: it is made of %d pieces already", rootfs.ErrTooLarge, len(pieces))
	}
	return append(pieces, Piece{ended(e.Text), from}), nil
}

// sameTurn says whether two pieces are of one turn, with one taint.
func sameTurn(a, b corebot.MemoryNote) bool {
	return a.MessageID != "" && a.MessageID == b.MessageID && a.Sender == b.Sender && a.Taint == b.Taint &&
		a.Trusted == b.Trusted
}

// changePage writes a page and where its pieces came from. The notes come first. A crash in between leaves
// the old page, and all of it that the notes do not know is of an unknown source.
func (s *Store) changePage(ctx context.Context, k corebot.Key, text string, limit int64, event string,
	change func(old []byte, exists bool) ([]Piece, error),
) error {
	var undo func()
	err := s.write(text, func() error {
		return s.root.Update(string(Of(k)), limit, func(old []byte, exists bool) ([]byte, error) {
			pieces, err := change(old, exists)
			if err != nil {
				return nil, err
			}
			page, notes := putTogether(pieces)
			if err := s.fits(page); err != nil || s.sources == nil {
				return page, err
			}
			was, err := s.sources.MemoryNotes(ctx, k)
			if err == nil {
				err = s.sources.SetMemoryNotes(ctx, k, notes, gone(old, page), event)
			}
			// Without it the old page would be of an unknown source.
			undo = func() { _ = s.sources.SetMemoryNotes(ctx, k, was, nil, "") }
			return page, err
		})
	})
	if err != nil && undo != nil {
		undo()
	}
	return err
}

// gone are the lines of a page that another one has not.
func gone(old, page []byte) (lines []string) {
	stay := map[string]bool{}
	for line := range bytes.Lines(page) {
		stay[string(bytes.TrimSpace(line))] = true
	}
	for line := range bytes.Lines(old) {
		if text := string(bytes.TrimSpace(line)); !stay[text] {
			lines = append(lines, text)
		}
	}
	return lines
}

// Sum is the fingerprint of a page, for [Store.Trust] and [Store.Forget].
func Sum(pieces []Piece) string {
	page, _ := putTogether(pieces)
	sum := sha256.Sum256(page)
	return hex.EncodeToString(sum[:])
}

// Trust has the operator stand for all of a page, if it still has the fingerprint that he was shown.
func (s *Store) Trust(ctx context.Context, k corebot.Key, sum string, by corebot.MemoryNote) error {
	by.Trusted, by.Taint = true, ""
	return s.settle(ctx, k, sum, "memory.trust", func(pieces []Piece) []Piece {
		page, _ := putTogether(pieces)
		return []Piece{{string(page), by}}
	})
}

// Forget deletes the lines of a page for which goes is true, and counts them. The page must still have the
// fingerprint that the operator was shown. Lines are numbered from 1. The lines that stay keep their sources.
func (s *Store) Forget(ctx context.Context, k corebot.Key, sum string, goes func(p Piece, line int) bool) (n int,
	err error,
) {
	line := 0
	err = s.settle(ctx, k, sum, "memory.forget", func(pieces []Piece) (rest []Piece) {
		rest, n = without(pieces, func(p Piece, _ string) bool {
			line++
			return goes(p, line)
		})
		return rest
	})
	return n, err
}

// DropLines is Forget for a command of a chat: it sees the page as it is now, and the audit has the command.
func (s *Store) DropLines(ctx context.Context, k corebot.Key, goes func(p Piece, text string) bool) (n int, err error) {
	err = s.settle(ctx, k, "", "", func(pieces []Piece) (rest []Piece) {
		rest, n = without(pieces, goes)
		return rest
	})
	return n, err
}

// without deletes lines, and counts them.
func without(pieces []Piece, goes func(p Piece, text string) bool) (rest []Piece, n int) {
	for _, p := range pieces {
		var stays strings.Builder
		for text := range strings.Lines(p.Text) {
			if goes(p, text) {
				n++
			} else {
				stays.WriteString(text)
			}
		}
		if p.Text = stays.String(); p.Text != "" {
			rest = append(rest, p)
		}
	}
	return rest, n
}

// ForgetChat deletes, of a page that several chats share, the lines that the turns of one chat wrote, and counts the
// lines. Nobody knows of which chat the lines are that people edited.
func (s *Store) ForgetChat(ctx context.Context, page, chat corebot.Key) (n int, err error) {
	pieces, whole, err := s.Pieces(ctx, page)
	if err != nil || len(pieces) == 0 {
		return 0, err
	}
	if !whole {
		return 0, fmt.Errorf("forget what a chat wrote in %s: the page %w", Of(page), rootfs.ErrTooLarge)
	}
	return s.Forget(ctx, page, Sum(pieces), func(p Piece, _ int) bool { return p.Chat == chat.String() })
}

// settle makes a change of the operator, if the page has the fingerprint. An empty one fits every page.
func (s *Store) settle(ctx context.Context, k corebot.Key, sum, event string,
	change func([]Piece) []Piece,
) error {
	return s.changePage(ctx, k, "", s.max, event, func(old []byte, exists bool) ([]Piece, error) {
		if !exists {
			return nil, fmt.Errorf("the memory of %s: %w", k, corebot.ErrNotFound)
		}
		pieces, err := s.pieces(ctx, k, old)
		if err == nil && sum != "" && Sum(pieces) != sum {
			err = corebot.WithHint(fmt.Errorf("%w: the memory of %s has changed since it was shown",
				corebot.ErrInvalid, k), "look at it again")
		}
		if err != nil {
			return nil, err
		}
		return change(pieces), nil
	})
}
