// Package memory keeps the agent's memory as Markdown files of the workspace. There is one page for all conversations,
// one for each account of a channel, and one for each conversation. People can read and edit the pages.
//
// Guarantees: a change is atomic and durable, and two changes of one page never lose one another (as rootfs promises
// for its Root). Limit: a page has a cap. A change beyond the cap is refused; nothing is dropped to make room.
package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/workspace"
)

// Page names one file of memory, by its path in the workspace.
type Page string

// Global is the memory that every conversation reads.
const Global Page = workspace.Memory

// FileName is what every page is called, in its directory.
const FileName = "MEMORY.md"

// Chat is the memory of one conversation.
func Chat(k corebot.Key) Page { return Page(rootfs.ChatDir(k) + "/" + FileName) }

// Of is the page of a key: of a conversation, of [corebot.Key.InChannel] or of [corebot.Key.OfAgent]. The page of an
// account of a channel is in a directory of its own. The key of no conversation leads there, so the files of no
// conversation reach it.
func Of(k corebot.Key) Page {
	if k == k.OfAgent() {
		return Global
	}
	return Chat(k)
}

// DefaultMaxBytes is the cap of a page: memory rides in every prompt.
const DefaultMaxBytes = 64 << 10

// Options of a [Store]. Zero means the default.
type Options struct {
	MaxBytes int64   // of one page
	Sources  Sources // of the pages; nil: all text is of an unknown source
}

// Store reads and writes pages. It is safe for use by several goroutines.
type Store struct {
	root    *rootfs.Root
	max     int64
	sources Sources
	finder  Finder
}

// New keeps the pages in root, which must be the only one that writes the workspace.
func New(root *rootfs.Root, o Options) (*Store, error) {
	if root == nil || o.MaxBytes < 0 {
		return nil, fmt.Errorf("%w: memory wants a directory and a cap that is not negative", corebot.ErrInvalid)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	return &Store{root: root, max: o.MaxBytes, sources: o.Sources}, nil
}

// Read returns a page. One that was never written is empty; one over the cap is [rootfs.ErrTooLarge].
func (s *Store) Read(p Page) (string, error) {
	data, err := s.root.ReadFile(string(p), s.max)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, rootfs.ErrTooLarge):
		return "", corebot.WithHint(fmt.Errorf("read memory: %w", err),
			"read "+string(p)+" piece by piece as a file, then replace the page by a shorter one")
	case err != nil:
		return "", fmt.Errorf("read memory: %w", err)
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), nil
}

// Edit is a change of a page: text as lines of its own behind what is there, or in the place of it.
type Edit struct {
	Text     string
	Replaces bool
}

// Append adds text as lines of its own. Over the cap it is [rootfs.ErrTooLarge] and the page stays as it is.
func (s *Store) Append(p Page, text string) error { return s.Change(p, Edit{Text: text}, nil) }

// Replace puts text in place of a page, whatever is there: also of one that is over the cap. A text over the cap is
// [rootfs.ErrTooLarge] and the page stays as it is.
func (s *Store) Replace(p Page, text string) error {
	return s.Change(p, Edit{Text: text, Replaces: true}, nil)
}

// Change makes an edit. The function unless sees the page under the lock of the write. An error of unless leaves the
// page as it is; nil asks nothing.
func (s *Store) Change(p Page, e Edit, unless func(old []byte, exists bool) error) error {
	return s.write(e.Text, func() error {
		return s.root.Update(string(p), e.limit(s.max), func(old []byte, exists bool) ([]byte, error) {
			if unless != nil {
				if err := unless(old, exists); err != nil {
					return nil, err
				}
			}
			return s.Changed(old, e)
		})
	})
}

// limit is the largest page that the edit can change.
func (e Edit) limit(most int64) int64 {
	if e.Replaces {
		return maxReplaced
	}
	return most
}

// maxReplaced is the largest page that can be replaced, in bytes.
const maxReplaced = 64 << 20

// Changed is a page after an edit, and changes nothing itself. A page that is too large for an edit, or would be, is
// [rootfs.ErrTooLarge].
func (s *Store) Changed(old []byte, e Edit) ([]byte, error) {
	if e.Replaces {
		old = nil
	} else if err := s.fits(old); err != nil {
		return nil, err
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		old = append(slices.Clip(old), '\n')
	}
	page := append(slices.Clip(old), ended(e.Text)...)
	return page, s.fits(page)
}

// fits refuses what is over the cap.
func (s *Store) fits(page []byte) error {
	if int64(len(page)) > s.max {
		return fmt.Errorf("the page %w: it would have %d bytes, the limit is %d", rootfs.ErrTooLarge, len(page), s.max)
	}
	return nil
}

// write checks the text of a change, makes the change, and words what went wrong.
func (s *Store) write(text string, change func() error) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("write memory: %w: the text is not valid UTF-8", corebot.ErrInvalid)
	}
	err := change()
	if errors.Is(err, rootfs.ErrTooLarge) {
		err = corebot.WithHint(err, "replace the page by a shorter one that keeps what matters")
	}
	if err != nil {
		return fmt.Errorf("write memory: %w", err)
	}
	return nil
}

// ended gives text the line end that the next Append builds on. Nothing stays nothing.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
