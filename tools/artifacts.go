package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

const (
	artifactsKept = 100               // files of one conversation; the oldest go first
	artifactsSeen = artifactsKept * 4 // names of a directory that are looked at
)

// Files keeps artifacts as files of the conversation's directory in the workspace, where policy closes them to every other
// conversation. It keeps a hundred for each. It also tells what is in files and directories of the workspace.
type Files struct {
	root      *rootfs.Root
	workspace *os.Root // the same directory, for what no path of root can name
}

// NewFiles keeps artifacts in a workspace, which is given twice: as tools see it, and as programs that work in it do. Whoever opened them closes them.
func NewFiles(root *rootfs.Root, workspace *os.Root) (*Files, error) {
	if root == nil || workspace == nil {
		return nil, fmt.Errorf("%w: artifacts want a workspace", corebot.ErrInvalid)
	}
	return &Files{root, workspace}, nil
}

// Save writes one artifact and takes away the oldest ones over the limit. Where the folder has no room, the oldest
// artifacts make room: each is a copy of what a tool said, unlike the files of people.
func (f *Files) Save(_ context.Context, k corebot.Key, name, content string) (string, error) {
	dir := rootfs.ChatDir(k) + "/artifacts"
	path := dir + "/" + name
	err := f.root.Write(path, []byte(content))
	if full := (*rootfs.Full)(nil); errors.As(err, &full) {
		if f.makeRoom(dir, name, full) {
			err = f.root.Write(path, []byte(content))
		}
	}
	if err != nil {
		return "", fmt.Errorf("save an artifact: %w", err)
	}
	return path, f.trim(dir)
}

// makeRoom removes the oldest artifacts but one, as many as a folder is over its limits by, and says whether it could.
// Where all artifacts are not enough, none is removed.
func (f *Files) makeRoom(dir, but string, full *rootfs.Full) bool {
	entries, err := f.newestFirst(dir)
	if err != nil {
		return false
	}
	entries = slices.DeleteFunc(entries, func(e rootfs.Entry) bool { return e.Name == but })
	bytes, count, from := full.OverBytes, full.OverCount, len(entries)
	for from > 0 && (bytes > 0 || count > 0) {
		from--
		bytes, count = bytes-entries[from].Size, count-1
	}
	return bytes <= 0 && count <= 0 && f.remove(dir, entries[from:]) == nil
}

func (f *Files) trim(dir string) error {
	entries, err := f.newestFirst(dir)
	if err != nil {
		return fmt.Errorf("trim the artifacts: %w", err)
	}
	return f.remove(dir, entries[min(len(entries), artifactsKept):])
}

func (f *Files) newestFirst(dir string) ([]rootfs.Entry, error) {
	entries, _, err := f.root.List(dir, "", artifactsSeen)
	entries = slices.DeleteFunc(entries, func(e rootfs.Entry) bool { return e.Dir })
	slices.SortFunc(entries, func(a, b rootfs.Entry) int {
		return cmp.Or(b.ModTime.Compare(a.ModTime), cmp.Compare(a.Name, b.Name))
	})
	return entries, err
}

func (f *Files) remove(dir string, entries []rootfs.Entry) error {
	for _, e := range entries {
		if err := f.root.Remove(dir + "/" + e.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("trim the artifacts: %w", err)
		}
	}
	return nil
}

var _ Artifacts = (*Files)(nil)
