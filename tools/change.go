package tools

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/linediff"
	"github.com/corebot/corebot/internal/rootfs"
)

const (
	maxDiff    = 64 << 10 // bytes of one diff that are kept
	maxDiffs   = 1 << 20  // bytes of all diffs of one request
	approvedAs = "the file is not what it was when the call was approved"
)

// Change is what a call makes of one file. A request for an approval shows it as a diff, and the approval is bound to
// the file's content.
type Change struct {
	Path string // relative to the workspace; empty: the call changes no file that is known
	// Make gives the file's new content, as the call itself would, and changes nothing.
	Make    func(old []byte, exists bool) ([]byte, error)
	Deletes bool // the file goes, and there is no Make
}

// after is what becomes of a file.
func (c Change) after(v version) (now version, err error) {
	if c.Deletes {
		return version{content: corebot.NoFile}, nil
	}
	data, err := c.Make(v.data, v.exists)
	return version{data: data, exists: true, content: contentOf(data, true)}, err
}

// Changes tells which file a call changes, and how. The write itself must check [Call.Unchanged].
func Changes[A any](change func(Call, A) Change) Option[A] {
	return func(s *spec[A]) { s.change = change }
}

// MaxApproved is the largest file that an approved call replaces: it is read right before.
const MaxApproved = maxBoundFile

// Unchanged is an error if the call was approved and the file that it changes is not what the approval is bound to. It
// is asked with the file's content under the lock of the write.
func (c Call) Unchanged(old []byte, exists bool) error {
	if c.Approved == "" || c.Approved == contentOf(old, exists) {
		return nil
	}
	return corebot.WithHint(errors.New(approvedAs),
		"make the call again, so that an admin is asked about it as it is now")
}

func contentOf(data []byte, exists bool) string {
	if !exists {
		return corebot.NoFile
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

// forecast is what files of the workspace will be, by their clean paths, once the calls before have run. It also counts
// how much of the diffs of a request has been kept.
type forecast struct {
	files map[string]version
	kept  int
}

func newForecast() *forecast { return &forecast{files: map[string]version{}} }

// content is that of a named file, as far as the calls before decide it.
func (f *forecast) content(path string) (string, bool) {
	clean, err := rootfs.Clean(path)
	v, known := f.files[clean]
	if err != nil || !known {
		return "", false
	}
	return v.content, true
}

// version is a file before or behind a call.
type version struct {
	data    []byte
	exists  bool
	content string
	assumed bool
	why     error // why data is not known
}

// before reads the file that a call changes.
func (j *job) before(path string, f *forecast) version {
	if v, known := f.files[path]; known {
		v.assumed = true
		return v
	}
	if j.box.opts.Contents == nil {
		return version{why: errors.New("it cannot be read")}
	}
	data, err := j.box.opts.Contents.Read(path, linediff.MaxBytes)
	switch {
	case err == nil:
		return version{data: data, exists: true, content: contentOf(data, true)}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, rootfs.ErrNotDir):
		return version{content: corebot.NoFile}
	}
	return version{why: err}
}

// change shows what the call makes of a file, and notes it for the calls behind.
func (j *job) change(args bound, is corebot.NamedFile, f *forecast) corebot.FileChange {
	change := args.change(j.call)
	c := corebot.FileChange{Path: is.Path, Before: is.Content}
	v := j.before(is.Path, f)
	if v.why == nil && v.content != is.Content {
		v.why = errors.New("it is being changed")
	}
	if v.why != nil { // too large, or no plain file
		c.Note = fmt.Sprintf("There is no diff: %s.", corebot.Plainly(v.why.Error()))
		return c
	}
	c.Assumed = v.assumed
	after, err := change.after(v)
	if err != nil {
		c.Note = fmt.Sprintf("There is no diff: as the file is now, the call would fail: %s.",
			corebot.Plainly(err.Error()))
		return c
	}
	f.files[is.Path], c.After = after, after.content
	hunks, err := linediff.Compare(v.data, after.data)
	if err != nil {
		c.Note = fmt.Sprintf("There is no diff: of %d and %d bytes, a version %v.", len(v.data), len(after.data), err)
		return c
	}
	c.Added, c.Removed = linediff.Count(hunks)
	left := 0
	c.Diff, left = linediff.Render(hunks, min(maxDiff, maxDiffs-f.kept))
	if f.kept += len(c.Diff); left > 0 {
		c.Note = fmt.Sprintf("%d more rows of the diff were not kept: the arguments have all that is new, and the "+
			"file has all that is there now.", left)
	}
	return c
}
