package dirtree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// meanwhile is a context that lets something happen whenever somebody looks whether it has ended.
type meanwhile struct {
	context.Context
	happens func()
}

func (m meanwhile) Err() error {
	m.happens()
	return m.Context.Err()
}

func writes(name, text string) func(*os.Root) error {
	return func(at *os.Root) error {
		return Write(at, name, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
	}
}

// A directory that nobody waits for any more is not put in place, and nothing of it is left.
func TestADirectoryOfACallerWhoHasGoneIsNotPutInPlace(t *testing.T) {
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	err := Make(ctx, filepath.Join(parent, "out"), func(at *os.Root) error {
		defer cancel()
		return errors.Join(at.Mkdir("sub", 0o700), writes("sub/a", "text")(at))
	})
	if !errors.Is(err, context.Canceled) || len(entriesOf(t, parent)) != 0 {
		t.Errorf("%v leaves %q", err, entriesOf(t, parent))
	}
}

func TestAFileThatCameMeanwhileKeepsItsPlace(t *testing.T) {
	late := filepath.Join(t.TempDir(), "late")
	err := Make(t.Context(), late, func(*os.Root) error { return os.WriteFile(late, []byte("theirs"), 0o600) })
	text, read := os.ReadFile(late)
	if !errors.Is(err, fs.ErrExist) || read != nil || string(text) != "theirs" {
		t.Errorf("%v; the file has %q: %v", err, text, read)
	}
}

// A link that takes the place of a directory or a file meanwhile is neither entered nor read. The same holds for a link
// to another place of the same tree.
func TestALinkThatCameMeanwhileIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	at := rootAt(t, dir)
	must(t, errors.Join(at.Mkdir("theirs", 0o700), writes("theirs/file", "of others")(at), at.Mkdir("copy", 0o700),
		os.Symlink("theirs", filepath.Join(dir, "link")), os.Symlink("theirs/file", filepath.Join(dir, "file"))))
	if sub, err := open(at, "link"); err == nil {
		t.Errorf("the link was entered: %v", sub.Close())
	}
	if _, err := copyFile(t.Context(), at, rootAt(t, filepath.Join(dir, "copy")), "file"); err == nil ||
		len(entriesOf(t, filepath.Join(dir, "copy"))) != 0 {
		t.Errorf("the file behind the link was copied: %v", err)
	}
}

func TestWriteReplacesNothingAndIsItsOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	at := rootAt(t, dir)
	must(t, writes("a", "old")(at))
	if err := writes("a", "new")(at); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second file of the name: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "a"))
	info, e2 := os.Stat(filepath.Join(dir, "a"))
	if must(t, errors.Join(err, e2)); string(text) != "old" || info.Mode().Perm() != 0o600 {
		t.Errorf("it is %q with rights %v", text, info.Mode())
	}
}

func TestADeletionAndTheCopyOfAFileEndWithTheirContext(t *testing.T) {
	dir := t.TempDir()
	at := rootAt(t, dir)
	must(t, errors.Join(at.Mkdir("tree", 0o700), writes("tree/a", "text")(at), at.Mkdir("copy", 0o700)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := Remove(ctx, at, "tree"); !errors.Is(err, context.Canceled) || n > 1 {
		t.Errorf("%d were deleted: %v", n, err)
	}
	r := reader{ctx, bytes.NewReader([]byte("text"))}
	if _, err := r.Read(make([]byte, 4)); !errors.Is(err, context.Canceled) {
		t.Errorf("a file is read on: %v", err)
	}
}

// An earlier deletion can have lifted directories to the top and not deleted them. They are in nobody's way now.
func TestADeletionGoesOnBesideWhatAnEarlierOneLifted(t *testing.T) {
	dir := t.TempDir()
	const n = 20
	for i := range n {
		lifted := filepath.Join(dir, "tree", fmt.Sprint(liftedPrefix, i+1), "below")
		nested := filepath.Join(dir, "tree", fmt.Sprint("d", i), "in", "below")
		for _, path := range [][]string{{lifted, nested}, {nested, lifted}}[i%2] {
			must(t, os.MkdirAll(path, 0o700))
			must(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
		}
	}
	if files, err := Remove(t.Context(), rootAt(t, dir), "tree"); err != nil || files != 2*n {
		t.Errorf("%d files were deleted: %v", files, err)
	}
}

func TestAFileThatVanishesMeanwhileIsLeftOutOfACopy(t *testing.T) {
	dir := t.TempDir()
	at := rootAt(t, dir)
	must(t, errors.Join(at.Mkdir("tree", 0o700), at.Mkdir("copy", 0o700)))
	for i := range 9 {
		must(t, writes(fmt.Sprint("tree/", i), "text")(at))
	}
	var looks atomic.Int32
	ctx := meanwhile{t.Context(), func() {
		if looks.Add(1) == 3 { // the names of the directory were read, and not all files were copied
			for i := range 9 {
				_ = at.Remove(fmt.Sprint("tree/", i)) // those that were copied, too
			}
		}
	}}
	did, err := Copy(ctx, rootAt(t, filepath.Join(dir, "tree")), rootAt(t, filepath.Join(dir, "copy")))
	if err != nil || did.Files > 8 || int(did.Files) != len(entriesOf(t, filepath.Join(dir, "copy"))) {
		t.Errorf("copied were %+v: %v", did, err)
	}
}
