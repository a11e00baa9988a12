package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNothingIsMadeTwiceOfAFileThatDidNotChange(t *testing.T) {
	c, path := newCache(t)
	made := 0
	d := NewDerived(c.root, func(_ string, data []byte) int { made++; return len(data) })
	d.now = c.now
	requires := func(want, times int) {
		t.Helper()
		if got, err := d.Get("a.txt", 100); err != nil || got != want || made != times {
			t.Errorf("got %d after %d times, %v; want %d after %d", got, made, err, want, times)
		}
	}
	write(t, path, "old")
	requires(3, 1)
	requires(3, 1)
	later(t, filepath.Dir(path))
	write(t, path, "newer")
	requires(5, 2)
	requires(5, 2)
	d.Keep(func(path string) bool { return path == "a.txt" })
	requires(5, 2)
	d.Keep(func(string) bool { return false })
	if len(d.files) != 0 {
		t.Errorf("it keeps %d files", len(d.files))
	}
	requires(5, 3)
}

// A missing file is not opened, and still its error is that of a file which was.
func TestAMissingFileIsMissingAsIfItWereRead(t *testing.T) {
	c, path := newCache(t)
	dir := filepath.Dir(path)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.Symlink("sub", filepath.Join(dir, "link")),
		os.Symlink("gone", filepath.Join(dir, "dangling"))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sub", "b.txt"), "text")
	for _, missing := range []string{
		"c.txt", "sub/c.txt", "gone/c.txt", "link/c.txt", "dangling", "dangling/c.txt", "../c.txt", "/c.txt", "",
		"sub/../c.txt", "sub//c.txt", "./c.txt", "sub/b.txt/c.txt", "sub/gone/../b.txt", "a\x00b",
	} {
		_, got := c.Get(missing, 100)
		_, want := c.root.ReadFile(missing, 100)
		if c.root.Missing(missing) && !errors.Is(want, os.ErrNotExist) {
			t.Errorf("%q is said to be missing, and reading it says %v", missing, want)
		}
		if (got == nil) != (want == nil) || want != nil && got.Error() != want.Error() ||
			errors.Is(got, os.ErrNotExist) != errors.Is(want, os.ErrNotExist) {
			t.Errorf("%q: got %v, want %v", missing, got, want)
		}
	}
}

func TestOnlyWhatIsNotThereIsMissing(t *testing.T) {
	c, path := newCache(t)
	dir := filepath.Dir(path)
	err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.Symlink("gone", filepath.Join(dir, "link")),
		os.Symlink("sub", filepath.Join(dir, "linked")), os.Symlink(dir, filepath.Join(dir, "sub", "up")))
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "text")
	for name, want := range map[string]bool{
		"a.txt": false, "b.txt": true, "sub": false, "sub/b.txt": true, "sub/gone/b.txt": true, "gone/b.txt": true,
		"link": false, "link/b.txt": false, "linked/b.txt": false, "sub/up/b.txt": false,
		"a.txt/b": false, "../b.txt": false, "./b.txt": false, "": false,
	} {
		if got := c.root.Missing(name); got != want {
			t.Errorf("%q is missing: %v, want %v", name, got, want)
		}
	}
}

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	c, path := newCache(t)
	write(t, path, strings.Repeat("x", 101))
	if err := os.Link(path, path+"2"); err != nil { // what is wrong with it for whoever opens it
		t.Fatal(err)
	}
	if got, err := c.Get("a.txt", 100); !errors.Is(err, ErrTooLarge) {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestAFileThatIsReachedByALinkNowIsNoLongerGiven(t *testing.T) {
	c, path := newCache(t)
	dir := filepath.Join(filepath.Dir(path), "sub")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "b.txt"), "text")
	if got, err := c.Get("sub/b.txt", 100); err != nil || got != "text" || len(c.files) != 1 {
		t.Fatalf("read %q, %v, and keeps %d", got, err, len(c.files))
	}
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub2", dir); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get("sub/b.txt", 100); !errors.Is(err, ErrEscape) {
		t.Errorf("read %q, %v", got, err)
	}
}

// newDirs lists the directories of a directory whose clock is an hour ahead.
func newDirs(t *testing.T, limit int) (*Dirs, string) {
	t.Helper()
	c, path := newCache(t)
	dir := filepath.Join(filepath.Dir(path), "top")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := NewDirs(c.root, "top", limit)
	d.now = c.now
	return d, dir
}

func (d *Dirs) requireNames(t *testing.T, wantAnew bool, wantMore int, want ...string) {
	t.Helper()
	last := d.listing
	names, more, listing, err := d.Names()
	anew := listing != last
	if err != nil || !slices.Equal(names, want) || more != wantMore || anew != wantAnew {
		t.Errorf("got %q and %d more, anew %v, %v; want %q and %d, %v", names, more, anew, err, want, wantMore,
			wantAnew)
	}
}

func TestDirectoriesAreListedAgainWhenOneCameOrWentOrBecameSomethingElse(t *testing.T) {
	d, dir := newDirs(t, 3)
	d.requireNames(t, true, 0)
	d.requireNames(t, false, 0)
	for _, step := range []struct {
		change func() error
		more   int
		want   []string
	}{
		{func() error { return os.Mkdir(filepath.Join(dir, "b"), 0o700) }, 0, []string{"b"}},
		{func() error { return os.Symlink("b", filepath.Join(dir, "a")) }, 0, []string{"a", "b"}},
		{func() error { return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600) }, 0, []string{"a", "b"}},
		{func() error { return syscall.Mkfifo(filepath.Join(dir, "d"), 0o600) }, 0, []string{"a", "b", "d"}},
		{func() error { return os.Mkdir(filepath.Join(dir, "c"), 0o700) }, 1, []string{"a", "b", "c"}},
		{func() error { return os.Remove(filepath.Join(dir, "a")) }, 0, []string{"b", "c", "d"}},
		{
			func() error { return os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "e")) }, 0,
			[]string{"c", "d", "e"},
		},
	} {
		later(t, filepath.Dir(dir))
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		d.requireNames(t, true, step.more, step.want...)
		d.requireNames(t, false, step.more, step.want...)
	}
}

func TestADirectoryThatWasChangedJustNowOrIsNoneIsNotKept(t *testing.T) {
	d, dir := newDirs(t, 3)
	d.now = time.Now
	d.requireNames(t, true, 0)
	d.requireNames(t, true, 0)
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := d.Names(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is gone: %v", err)
	}
	if err := os.Symlink("top2", dir); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := d.Names(); !errors.Is(err, ErrEscape) {
		t.Errorf("a link: %v", err)
	}
}
