package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
)

// kept is a store of versions in memory.
type keptVersions map[int64]corebot.FileVersion

func (k keptVersions) Keep(_ context.Context, v corebot.FileVersion) (int64, error) {
	v.ID = int64(len(k) + 1)
	k[v.ID] = v
	return v.ID, nil
}

func (k keptVersions) Drop(_ context.Context, id int64) error {
	delete(k, id)
	return nil
}

func (k keptVersions) Data(_ context.Context, id int64) ([]byte, error) { return k[id].Data, nil }

func (k keptVersions) Newest(context.Context, corebot.Key) ([]corebot.FileVersion, error) {
	return k.newestFirst(), nil
}

// newestFirst are the versions that are kept.
func (k keptVersions) newestFirst() (all []corebot.FileVersion) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(k))) {
		v := k[id]
		v.Data = nil
		all = append(all, v)
	}
	return all
}

type changing struct {
	*Versions
	kept keptVersions
	dir  string // a root that can be changed
}

func newChanging(t *testing.T) changing {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	fine(t, err)
	list, err := roots.NewList("", []roots.Dir{{Path: dir, Write: true}})
	fine(t, err)
	workspace, err := rootfs.New(t.TempDir())
	fine(t, err)
	disk := roots.NewDisk(list)
	t.Cleanup(func() { fine(t, errors.Join(disk.Close(), workspace.Close())) })
	kept := keptVersions{}
	return changing{NewVersions(roots.NewReach(workspace, disk), kept), kept, dir}
}

func fine(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do keeps a change and makes it.
func (c changing) do(t *testing.T, change Change, do func(root *rootfs.Root, clean string) error) {
	t.Helper()
	v, known, err := c.version(change)
	fine(t, err)
	if known {
		_, err = c.kept.Keep(t.Context(), v)
		fine(t, err)
	}
	root, p, err := c.reach.Writable(change.Path)
	fine(t, err)
	fine(t, do(root, p.Path))
}

func (c changing) write(t *testing.T, path, text string) {
	t.Helper()
	c.do(t, Change{Path: path, Make: func([]byte, bool) ([]byte, error) { return []byte(text), nil }},
		func(root *rootfs.Root, clean string) error { return root.Write(clean, []byte(text)) })
}

func (c changing) remove(t *testing.T, path string) {
	t.Helper()
	c.do(t, Change{Path: path, Deletes: true},
		func(root *rootfs.Root, clean string) error { return root.Remove(clean) })
}

func (c changing) move(t *testing.T, from, to string) {
	t.Helper()
	c.do(t, Change{Path: to, From: from}, func(*rootfs.Root, string) error {
		return c.reach.Move(from, to, true, func(roots.Look) error { return nil })
	})
}

func (c changing) mkdir(t *testing.T, path string) {
	t.Helper()
	c.do(t, Change{Path: path, Dir: true},
		func(root *rootfs.Root, clean string) error { return root.Mkdir(clean) })
}

// tree is what is in the root: paths with their contents and rights.
func (c changing) tree(t *testing.T) (all []string) {
	t.Helper()
	fine(t, filepath.Walk(c.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == c.dir {
			return err
		}
		data, _ := os.ReadFile(path)
		all = append(all, fmt.Sprintf("%s %v %q", strings.TrimPrefix(path, c.dir), info.Mode(), data))
		return nil
	}))
	return all
}

// changes are what a turn makes of a directory that has the files a, b and script, in steps.
var changes = map[string]func(t *testing.T, c changing){
	"a file is written": func(t *testing.T, c changing) { c.write(t, c.dir+"/a", "new") },
	"a file is new":     func(t *testing.T, c changing) { c.write(t, c.dir+"/x/y/z", "new") },
	"a file is written twice": func(t *testing.T, c changing) {
		c.write(t, c.dir+"/a", "1")
		c.write(t,
			c.dir+"/a", "2")
	},
	"a program is deleted":    func(t *testing.T, c changing) { c.remove(t, c.dir+"/script") },
	"a file moves":            func(t *testing.T, c changing) { c.move(t, c.dir+"/a", c.dir+"/m/a") },
	"a file replaces another": func(t *testing.T, c changing) { c.move(t, c.dir+"/script", c.dir+"/b") },
	"a directory moves":       func(t *testing.T, c changing) { c.move(t, c.dir+"/d", c.dir+"/e") },
	"a directory is made":     func(t *testing.T, c changing) { c.mkdir(t, c.dir+"/n/m") },
	"a file leaves the root":  func(t *testing.T, c changing) { c.move(t, c.dir+"/a", "a") },
	"written, moved and deleted": func(t *testing.T, c changing) {
		c.write(t, c.dir+"/a", "1")
		c.move(t, c.dir+"/a",
			c.dir+"/c")
		c.remove(t, c.dir+"/c")
	},
	"made and filled": func(t *testing.T, c changing) {
		c.mkdir(t, c.dir+"/n")
		c.write(t, c.dir+"/n/x",
			"1")
	},
	"to and fro": func(t *testing.T, c changing) {
		c.move(t, c.dir+"/a", c.dir+"/c")
		c.move(t,
			c.dir+"/c", c.dir+"/a")
	},
	"deleted and new": func(t *testing.T, c changing) {
		c.remove(t, c.dir+"/a")
		c.write(t, c.dir+"/a",
			"new")
	},
}

func (c changing) begin(t *testing.T) {
	t.Helper()
	for name, mode := range map[string]os.FileMode{"a": 0o644, "b": 0o600, "script": 0o755, "d/x": 0o640} {
		path := filepath.Join(c.dir, name)
		fine(t, os.MkdirAll(filepath.Dir(path), 0o755))
		fine(t, os.WriteFile(path, []byte("old "+name), mode))
		fine(t, os.Chmod(path, mode))
	}
}

func TestChangesAreUndoneAsIfTheyHadNotBeen(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			c := newChanging(t)
			c.begin(t)
			before := c.tree(t)
			change(t, c)
			if after := c.tree(t); len(after) == len(before) && slices.Equal(after, before) && name != "to and fro" {
				t.Fatal("nothing was changed")
			}
			done, err := c.Revert(t.Context(), c.kept.newestFirst())
			if err != nil || len(done) == 0 {
				t.Fatalf("%q: %v", done, err)
			}
			if now := c.tree(t); !slices.Equal(now, before) {
				t.Errorf("after %q there is\n%s\nwant\n%s", done, strings.Join(now, "\n"), strings.Join(before, "\n"))
			}
			again, err := c.Revert(t.Context(), c.kept.newestFirst())
			if err != nil || name != "to and fro" && len(again) > 0 {
				t.Errorf("a second time: %q, %v", again, err)
			}
		})
	}
}

// TestAnUndoThatWasCutShortIsFinishedByTheNext ends a revert behind each of its steps.
func TestAnUndoThatWasCutShortIsFinishedByTheNext(t *testing.T) {
	for name, change := range changes {
		if name == "to and fro" { // half undone it looks as if nothing had been
			continue
		}
		for cut := range 3 {
			c := newChanging(t)
			c.begin(t)
			before := c.tree(t)
			change(t, c)
			all := c.kept.newestFirst()
			for _, v := range all[:min(cut, len(all))] {
				if _, err := c.revert(t.Context(), v); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.Revert(t.Context(), all); err != nil {
				t.Errorf("%s, cut behind %d: %v", name, cut, err)
			}
			if now := c.tree(t); !slices.Equal(now, before) {
				t.Errorf("%s, cut behind %d: there is %q", name, cut, now)
			}
		}
	}
}

// TestAnUndoThatWasCutShortWithinOneFileIsFinishedByTheNext: what a crash leaves of a single step.
func TestAnUndoThatWasCutShortWithinOneFileIsFinishedByTheNext(t *testing.T) {
	for name, cut := range map[string]func(t *testing.T, c changing){
		"a file leaves the root": func(t *testing.T, c changing) { // it is copied back, and still in the other place
			fine(t, os.WriteFile(c.dir+"/a", []byte("old a"), 0o600))
			fine(t, os.Chmod(c.dir+"/a", 0o644))
		},
		"a file replaces another": func(t *testing.T, c changing) { // it is moved back, and its place is empty
			fine(t, os.Rename(c.dir+"/b", c.dir+"/script"))
		},
		"a file is new":       func(t *testing.T, c changing) { fine(t, os.Remove(c.dir+"/x/y/z")) },
		"a file moves":        func(t *testing.T, c changing) { fine(t, os.Rename(c.dir+"/m/a", c.dir+"/a")) },
		"a directory is made": func(t *testing.T, c changing) { fine(t, os.Remove(c.dir+"/n/m")) },
	} {
		c := newChanging(t)
		c.begin(t)
		before := c.tree(t)
		changes[name](t, c)
		cut(t, c)
		if _, err := c.Revert(t.Context(), c.kept.newestFirst()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if now := c.tree(t); !slices.Equal(now, before) {
			t.Errorf("%s: there is\n%s\nwant\n%s", name, strings.Join(now, "\n"), strings.Join(before, "\n"))
		}
	}
}

func TestNothingIsUndoneIfAnyFileHasChangedSince(t *testing.T) {
	for name, meddle := range map[string]func(t *testing.T, c changing){
		"written": func(t *testing.T, c changing) { fine(t, os.WriteFile(c.dir+"/a", []byte("mine"), 0o600)) },
		"deleted": func(t *testing.T, c changing) { fine(t, os.Remove(c.dir+"/a")) },
		"a link": func(t *testing.T, c changing) {
			fine(t, os.Remove(c.dir+"/a"))
			fine(t, os.Symlink("b",
				c.dir+"/a"))
		},
		"taken back": func(t *testing.T, c changing) { fine(t, os.WriteFile(c.dir+"/script", []byte("mine"), 0o600)) },
	} {
		c := newChanging(t)
		c.begin(t)
		c.write(t, c.dir+"/a", "new")
		c.remove(t, c.dir+"/script")
		c.write(t, c.dir+"/b", "new")
		meddle(t, c)
		before := c.tree(t)
		done, err := c.Revert(t.Context(), c.kept.newestFirst())
		if conflict := (*Conflict)(nil); !errors.As(err, &conflict) || len(done) > 0 {
			t.Errorf("%s: %q, %v", name, done, err)
		}
		if now := c.tree(t); !slices.Equal(now, before) {
			t.Errorf("%s: there is %q", name, now)
		}
	}
}

func TestWhatIsTooLargeOrDamagedIsNotUndone(t *testing.T) {
	c := newChanging(t)
	fine(t, os.WriteFile(c.dir+"/large", make([]byte, maxVersion+1), 0o600))
	c.write(t, c.dir+"/large", "small")
	if _, err := c.Revert(t.Context(), c.kept.newestFirst()); err == nil || !strings.Contains(err.Error(), "not kept") {
		t.Errorf("too large: %v", err)
	}
	c = newChanging(t)
	c.begin(t)
	c.write(t, c.dir+"/a", "new")
	v := c.kept[1]
	v.Data = []byte("other")
	c.kept[1] = v
	if _, err := c.Revert(t.Context(), c.kept.newestFirst()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged: %v", err)
	}
}

// TestAnUndoLooksAtEachFileAgainAsItChangesIt: somebody can write between the look at all files and the change of one.
func TestAnUndoLooksAtEachFileAgainAsItChangesIt(t *testing.T) {
	for _, name := range []string{"a", "x/y/z"} {
		c := newChanging(t)
		c.begin(t)
		c.write(t, c.dir+"/"+name, "new")
		fine(t, os.WriteFile(filepath.Join(c.dir, name), []byte("mine"), 0o600))
		_, err := c.revert(t.Context(), c.kept.newestFirst()[0])
		text, readErr := os.ReadFile(filepath.Join(c.dir, name))
		if conflict := (*Conflict)(nil); !errors.As(err, &conflict) || readErr != nil || string(text) != "mine" {
			t.Errorf("%s is %q, %v; %v", name, text, readErr, err)
		}
	}
}

func TestADirectoryThatWasClosedSinceKeepsItsChanges(t *testing.T) {
	c := newChanging(t)
	c.begin(t)
	c.write(t, c.dir+"/a", "new")
	list, err := roots.NewList("", []roots.Dir{{Path: c.dir}})
	fine(t, err)
	disk := roots.NewDisk(list)
	t.Cleanup(func() { fine(t, disk.Close()) })
	c.reach = roots.NewReach(c.reach.Workspace(), disk)
	done, err := c.Revert(t.Context(), c.kept.newestFirst())
	if conflict := (*Conflict)(nil); !errors.As(err, &conflict) || len(done) > 0 {
		t.Errorf("%q, %v", done, err)
	}
}

// changedBy is a call of fs.write or fs.move whose file others change before its first attempt.
func (c changing) changedBy(t *testing.T, change Change, others func(), run func(Call) error) error {
	t.Helper()
	first := true
	j := &job{box: &Box{opts: Options{Versions: c.Versions}}, event: corebot.AuditEvent{Tool: "fs.write"}}
	_, err := j.changed(t.Context(), bound{
		change: func(Call) Change { return change },
		run: func(_ context.Context, call Call) (output, error) {
			if first {
				first = false
				others()
			}
			return output{}, run(call)
		},
	})
	return err
}

// TestWhatIsKeptIsWhatWasReplaced, though another turn changes the file after it was kept.
func TestWhatIsKeptIsWhatWasReplaced(t *testing.T) {
	c := newChanging(t)
	c.begin(t)
	a, theirs := c.dir+"/a", func() { fine(t, os.WriteFile(c.dir+"/a", []byte("theirs"), 0o600)) }
	writes := func([]byte, bool) ([]byte, error) { return []byte("new"), nil }
	err := c.changedBy(t, Change{Path: a, Make: writes}, theirs, func(call Call) error {
		root, p, err := c.reach.Writable(a)
		fine(t, err)
		return root.Update(p.Path, 100, func(old []byte, exists bool) ([]byte, error) {
			return []byte("new"), call.Unchanged(old, exists)
		})
	})
	if v := c.kept.newestFirst(); err != nil || len(v) != 1 || string(c.kept[v[0].ID].Data) != "theirs" {
		t.Errorf("of a write %+v are kept, %v", c.kept, err)
	}
	c = newChanging(t)
	c.begin(t)
	a = c.dir + "/a"
	err = c.changedBy(t, Change{Path: c.dir + "/m", From: a}, theirs, func(call Call) error {
		return c.reach.Move(a, c.dir+"/m", true, call.Unmoved(a, c.dir+"/m"))
	})
	if v := c.kept.newestFirst(); err != nil || len(v) != 1 || v[0].After != contentOf([]byte("theirs"), true) {
		t.Errorf("of a move %+v are kept, %v", c.kept, err)
	}
}

// TestAChangeIsKeptIfItCanHaveBeenMade, and forgotten if it was not.
func TestAChangeIsKeptIfItCanHaveBeenMade(t *testing.T) {
	for fails, kept := range map[error]int{ErrUnsettled: 1, os.ErrPermission: 0} {
		c := newChanging(t)
		c.begin(t)
		err := c.changedBy(t, Change{Path: c.dir + "/a", Deletes: true}, func() {}, func(Call) error { return fails })
		if !errors.Is(err, fails) || len(c.kept) != kept {
			t.Errorf("after %v %d changes are kept", err, len(c.kept))
		}
	}
}
