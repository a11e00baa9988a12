package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/runes"
)

// maxWhole bounds what is kept of one output at all, in bytes.
const maxWhole = 16 << 20

// present makes a tool's output fit for a model: visible characters only, no secrets, nothing that forges a role, bounded, and marked if it is from
// outside.
//
// Invisible characters go first, since one in the middle would hide a secret; the cap comes after that, since half a secret would not be known for
// one. So the artifact holds no secret either. The marks come last: nothing cuts them off.
func (j *job) present(ctx context.Context, text string) string {
	limit, mark := j.box.opts.MaxOutput, outside.Text
	if j.reads {
		limit, mark = limit-outside.Overhead, outside.Result
	}
	lost := max(0, len(text)-maxWhole)
	whole := j.box.opts.Redactor.Text(redact.Visible(runes.Head(text, maxWhole)))
	shown := outside.Text(whole)
	if len(shown) > limit || lost > 0 {
		where := j.keep(ctx, whole)
		if lost > 0 {
			where += fmt.Sprintf("; %d bytes beyond %d were dropped", lost, maxWhole)
		}
		shown = shorten(shown, limit, where)
	}
	return mark(shown)
}

// keep stores the whole output and returns words that say where. Output that cannot be stored does not fail the call: its
// effect has taken place.
func (j *job) keep(ctx context.Context, text string) string {
	if j.box.opts.Artifacts == nil {
		return "they were not kept"
	}
	sum := sha256.Sum256([]byte(j.call.StepID)) // one name in every attempt: a repeated call replaces its file
	path, err := j.box.opts.Artifacts.Save(ctx, j.call.Key, j.label+"-"+hex.EncodeToString(sum[:8])+".txt", text)
	if err != nil {
		j.box.opts.Log.Warn().Err(err).Str("tool", j.label).Str("step", j.call.StepID).Msg("long output was not kept")
		if full := (*rootfs.Full)(nil); errors.As(err, &full) {
			return fmt.Sprintf("they could not be kept: %v (%s)", full, corebot.HintOf(err))
		}
		return "they could not be kept"
	}
	return "the whole output is in " + path
}

// shorten keeps the beginning and the end of a text, about half of limit each, around a note of what was left out. The result
// has at most limit bytes, unless limit has no room for the note. The end does not begin a line: it could be made to look like one.
func shorten(text string, limit int, where string) string {
	note := func(left int) string { return fmt.Sprintf("\n\n[%d bytes left out here; %s]\n\n…", left, where) }
	room := max(0, limit-len(note(len(text))))
	first := runes.Head(text, (room+1)/2)
	last := runes.Tail(text[len(first):], room/2)
	left := len(text) - len(first) - len(last)
	if left == 0 {
		return text
	}
	return first + note(left) + last
}

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
