package rootfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/corebot/corebot/internal/needs"
	"github.com/corebot/corebot/internal/rootfs"
)

func agree() error { return nil }

func TestAMoveReplacesNothingUnlessItIsToldTo(t *testing.T) {
	dir := t.TempDir()
	r, err := rootfs.New(dir)
	ok(t, err)
	t.Cleanup(func() { ok(t, r.Close()) })
	ok(t, r.Write("a", []byte("one")))
	ok(t, r.Write("b", []byte("two")))
	ok(t, r.Write("d/x", []byte("three")))
	for _, c := range []struct {
		from, to string
		over     bool
		want     error
	}{
		{"a", "b", false, fs.ErrExist},
		{"a", "d", false, fs.ErrExist},
		{"a", "d", true, rootfs.ErrNotRegular},
		{"d", "b", true, fs.ErrExist},
		{"missing", "c", false, fs.ErrNotExist},
		{"a", "../c", false, rootfs.ErrEscape},
		{"../a", "c", false, rootfs.ErrEscape},
		{"a", "b/c", false, rootfs.ErrNotDir},
	} {
		if err := r.Move(c.from, c.to, c.over, agree); !errors.Is(err, c.want) {
			t.Errorf("%s to %s: %v, want %v", c.from, c.to, err, c.want)
		}
	}
	for _, to := range []string{"d", "d/e", "."} {
		if err := r.Move("d", to, true, agree); err == nil {
			t.Errorf("d became %s", to)
		}
	}
	no := errors.New("no")
	if err := r.Move("a", "c", false, func() error { return no }); !errors.Is(err, no) {
		t.Errorf("against the check: %v", err)
	}
	ok(t, r.Move("a", "new/deep/a", false, agree))
	ok(t, r.Move("new/deep/a", "b", true, agree))
	ok(t, r.Move("d", "new/d", false, agree))
	for path, want := range map[string]string{"b": "one", "new/d/x": "three"} {
		if got, err := r.ReadFile(path, 10); err != nil || string(got) != want {
			t.Errorf("%s is %q: %v", path, got, err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("there are %v: %v", names, err)
	}
}

func TestAMovedFileLeavesTheRoomOfOneFolderAndTakesThatOfAnother(t *testing.T) {
	r, err := rootfs.NewBounded(t.TempDir(), func(string) int64 { return 0 }, rootfs.Quota{
		Dir: "chats", Bytes: 10, Entries: 5,
	})
	ok(t, err)
	t.Cleanup(func() { ok(t, r.Close()) })
	ok(t, r.Write("chats/a/one", []byte("12345678")))
	ok(t, r.Write("chats/b/two", []byte("1234")))
	if err := r.Move("chats/a/one", "chats/b/one", false, agree); !errors.Is(err, rootfs.ErrFull) {
		t.Errorf("into a folder without room: %v", err)
	}
	ok(t, r.Move("chats/b/two", "out", false, agree))
	ok(t, r.Move("chats/a/one", "chats/b/sub/one", false, agree))
	for folder, want := range map[string]rootfs.Usage{"chats/a": {}, "chats/b": {Bytes: 8, Entries: 2}} {
		if got, _, err := r.Usage(folder); err != nil || got != want {
			t.Errorf("%s holds %+v: %v", folder, got, err)
		}
		r.Changed(folder)
		if got, _, err := r.Usage(folder); err != nil || got != want {
			t.Errorf("%s holds %+v when it is measured: %v", folder, got, err)
		}
	}
	if err := r.Move("chats/b/sub", "sub", false, agree); err == nil {
		t.Error("a directory left the files of a chat")
	}
	ok(t, r.Move("chats/b/sub", "chats/b/other", false, agree))
}

func TestMovesThatCrossDoNotWaitForOneAnother(t *testing.T) {
	r, err := rootfs.New(t.TempDir())
	ok(t, err)
	t.Cleanup(func() { ok(t, r.Close()) })
	ok(t, r.Write("ball", []byte("x")))
	var all sync.WaitGroup
	for _, way := range [][2]string{{"ball", "net"}, {"net", "ball"}} {
		for range 2 {
			all.Go(func() {
				for range 20 {
					err := r.Move(way[0], way[1], false, agree)
					if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	entries, _, err := r.List(".", "", 10)
	if err != nil || len(entries) != 1 {
		t.Errorf("there are %v: %v", entries, err)
	}
}

func TestFilesOfOthersKeepTheirRights(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.Chmod(dir, 0o777))
	ok(t, os.WriteFile(filepath.Join(dir, "script"), []byte("old"), 0o600))
	ok(t, os.Chmod(filepath.Join(dir, "script"), 0o751))
	ok(t, os.Mkdir(filepath.Join(dir, "closed"), 0o700))
	r, err := rootfs.NewOthers(dir)
	ok(t, err)
	t.Cleanup(func() { ok(t, r.Close()) })
	for _, path := range []string{"script", "new", "sub/deep/new", "closed/new"} {
		ok(t, r.Write(path, []byte("new")))
	}
	ok(t, r.Move("script", "moved/script", false, agree))
	for path, want := range map[string]fs.FileMode{
		"moved/script": 0o751, "new": 0o664, "sub": fs.ModeDir | 0o775, "sub/deep": fs.ModeDir | 0o775,
		"sub/deep/new": 0o664, "closed/new": 0o600, "moved": fs.ModeDir | 0o775,
	} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode() != want {
			t.Errorf("%s is %v, want %v: %v", path, info.Mode(), want, err)
		}
	}
}

func TestAFileOfAnotherUserStaysHis(t *testing.T) {
	needs.Root(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "his")
	ok(t, os.WriteFile(path, []byte("old"), 0o640))
	ok(t, os.Chown(path, 1234, 4321))
	r, err := rootfs.NewOthers(dir)
	ok(t, err)
	t.Cleanup(func() { ok(t, r.Close()) })
	ok(t, r.Write("his", []byte("new")))
	info, err := os.Stat(path)
	ok(t, err)
	if uid, gid := rootfs.OwnerOf(info); uid != 1234 || gid != 4321 || info.Mode().Perm() != 0o640 {
		t.Errorf("it belongs to %d:%d, and is %v", uid, gid, info.Mode())
	}
}

func TestOnlyAnEmptyDirectoryIsRemoved(t *testing.T) {
	r, err := rootfs.New(t.TempDir())
	ok(t, err)
	t.Cleanup(func() { ok(t, r.Close()) })
	ok(t, r.Write("a/b/file", []byte("x")))
	for _, path := range []string{"a/b", "a/b/file", "a/missing", "."} {
		if err := r.RemoveDir(path); err == nil {
			t.Errorf("%s was removed", path)
		}
	}
	if top, err := r.MissingFrom("a/c/d/file"); err != nil || top != "a/c" {
		t.Errorf("missing from %q: %v", top, err)
	}
	if top, err := r.MissingFrom("a/b/x"); err != nil || top != "" {
		t.Errorf("missing from %q: %v", top, err)
	}
	ok(t, r.Remove("a/b/file"))
	ok(t, r.RemoveDir("a/b"))
}
