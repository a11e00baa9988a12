package tools

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/linediff"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
)

const (
	maxDiff  = 64 << 10 // bytes of one diff that are kept
	maxDiffs = 1 << 20  // bytes of all diffs of one request
)

// errNotTheSame is in the error of a change whose file is not the one that the call was approved for, or looked at.
var errNotTheSame = errors.New("the file is not what it was when the call was approved")

// Change is what a call makes of one file. A request for an approval shows it as a diff, and the approval is bound to
// the file's content.
type Change struct {
	Path string // as the caller spelled it; empty: the call changes no file that is known
	// Make gives the file's new content, as the call itself would, and changes nothing.
	Make    func(old []byte, exists bool) ([]byte, error)
	Deletes bool   // the file goes, and there is no Make
	From    string // the file, or the directory, that takes this path and leaves its own; there is no Make
	Dir     bool   // a directory is made, whose content no approval binds; there is no Make
}

// after is what becomes of the files that a change names, by their clean paths. The first is the changed file itself.
func (j *job) after(c Change, path string, f *forecast) (all map[string]version, now version, err error) {
	gone := version{content: corebot.NoFile}
	switch {
	case c.Deletes:
		now = gone
	case c.From != "":
		from, err := j.clean(c.From)
		if err != nil {
			return nil, now, err
		}
		if now = j.before(from, f); now.why != nil { // a directory, or a large file
			now = version{why: now.why, exists: true, content: corebot.NoContent}
		} else if !now.exists {
			return nil, now, fmt.Errorf("there is no file %s: %w", c.From, fs.ErrNotExist)
		}
		return map[string]version{path: now, from: gone}, now, nil
	default:
		v := j.before(path, f)
		data, err := c.Make(v.data, v.exists)
		if err != nil {
			return nil, now, err
		}
		now = version{data: data, exists: true, content: contentOf(data, true)}
	}
	return map[string]version{path: now}, now, nil
}

// Changes tells which file a call changes, and how. The write itself must check [Call.Unchanged].
func Changes[A any](change func(Call, A) Change) Option[A] {
	return func(s *spec) { s.change = untyped(change) }
}

// MaxApproved is the largest file that an approved call replaces: it is read right before.
const MaxApproved = maxBoundFile

// Unchanged is an error if the call was approved and the file that it changes is not what the approval is bound to. It
// is asked with the file's content under the lock of the write.
func (c Call) Unchanged(old []byte, exists bool) error {
	if c.Approved == "" || c.Approved == contentOf(old, exists) {
		return nil
	}
	return corebot.WithHint(errNotTheSame,
		"make the call again, so that an admin is asked about it as it is now")
}

// Unmoved is [Call.Unchanged] for a call that moves a file: for the file itself, and for what is at its new path. The
// content of a directory is not compared.
func (c Call) Unmoved(from, to string) func(roots.Look) error {
	return func(look roots.Look) error {
		for _, file := range []struct{ path, approved string }{{from, c.ApprovedFrom}, {to, c.Approved}} {
			if file.approved == "" || file.approved == corebot.NoContent {
				continue
			}
			data, exists, err := look(file.path)
			if err == nil {
				err = Call{Approved: file.approved}.Unchanged(data, exists)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func contentOf(data []byte, exists bool) string {
	if !exists {
		return corebot.NoFile
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

// forecast is what files will be, by their clean paths, once the calls before have run. It also counts
// how much of the diffs of a request has been kept.
type forecast struct {
	files map[string]version
	kept  int
}

func newForecast() *forecast { return &forecast{files: map[string]version{}} }

// content is that of a file by its clean path, as far as the calls before decide it.
func (f *forecast) content(path string) (string, bool) {
	v, known := f.files[path]
	return v.content, known
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
	change := j.fileChange(args)
	c := corebot.FileChange{Path: is.Path, Before: is.Content}
	v := j.before(is.Path, f)
	if v.why == nil && v.content != is.Content {
		v.why = errors.New("it is being changed")
	}
	if change.From != "" {
		if c.From, _ = j.clean(change.From); v.why == nil && v.exists {
			c.Replaces = true
		}
	}
	if v.why != nil { // too large, or no plain file
		c.Note = fmt.Sprintf("There is no diff: %s.", corebot.Plainly(v.why.Error()))
		return c
	}
	c.Assumed = v.assumed
	all, after, err := j.after(change, is.Path, f)
	if err != nil {
		c.Note = fmt.Sprintf("There is no diff: as the file is now, the call would fail: %s.",
			corebot.Plainly(err.Error()))
		return c
	}
	maps.Copy(f.files, all)
	c.After = after.content
	if change.From != "" && !c.Replaces {
		return c // the content stays as it is
	}
	if after.why != nil {
		c.Note = fmt.Sprintf("There is no diff: %s.", corebot.Plainly(after.why.Error()))
		return c
	}
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
