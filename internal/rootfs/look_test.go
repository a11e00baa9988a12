package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWhatWasSeenIsStillSoUntilItChanges: a skill's page is asked about with one call, in place of a look.
func TestWhatWasSeenIsStillSoUntilItChanges(t *testing.T) {
	for name, c := range map[string]struct {
		before, change func(path string) error
		seen           bool // a look can tell whether anything changed since
	}{
		"nothing":           {write1("old"), func(string) error { return nil }, true},
		"an edit in place":  {write1("old"), write1("new"), true},
		"other attributes":  {write1("old"), func(p string) error { return os.Chmod(p, 0o400) }, true},
		"a second name":     {write1("old"), func(p string) error { return os.Link(p, p+"2") }, true},
		"gone":              {write1("old"), os.Remove, true},
		"missing, as it is": {func(string) error { return nil }, func(string) error { return nil }, true},
		"missing until now": {func(string) error { return nil }, write1("new"), true},
		"too large":         {write1(strings.Repeat("x", 101)), func(string) error { return nil }, false},
		"a directory": {
			func(p string) error { return os.Mkdir(p, 0o700) },
			func(string) error { return nil }, false,
		},
		"another file": {write1("old"), func(p string) error {
			return errors.Join(write1("old")(p+".new"), os.Rename(p+".new", p))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d, path := newCache(t)
			if err := c.before(path); err != nil {
				t.Fatal(err)
			}
			_, seen, _ := d.Look("a.txt", 100)
			if got := d.root.Still(seen); got != c.seen {
				t.Errorf("right after the look it is still so: %v", got)
			}
			later(t, filepath.Dir(path))
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			unchanged := name == "nothing" || name == "missing, as it is"
			if got := d.root.Still(seen); got != unchanged {
				t.Errorf("it is still so: %v, want %v", got, unchanged)
			}
		})
	}
}

func write1(text string) func(path string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

func TestNobodyKnowsWhetherAFileThatWasWrittenJustNowIsStillSo(t *testing.T) {
	d, path := newCache(t)
	d.now = time.Now
	write(t, path, "old")
	if _, seen, err := d.Look("a.txt", 100); err != nil || d.root.Still(seen) {
		t.Errorf("still so: %+v, %v", seen, err)
	}
	if d.root.Still(Seen{}) {
		t.Error("nothing was seen, and it is still so")
	}
}

func TestALookAfterTheEndSeesNothing(t *testing.T) {
	d, path := newCache(t)
	write(t, path, "old")
	_, seen, err := d.Look("a.txt", 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.root.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.root.at("a.txt"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a look says %v", err)
	}
	if d.root.Still(seen) || d.root.Missing("b.txt") {
		t.Error("a closed directory still tells of its files")
	}
	if got, err := d.Get("a.txt", 100); err == nil {
		t.Errorf("a closed directory gives %q", got)
	}
}

func TestAPathIsPlainlyCleanOnlyIfItIsClean(t *testing.T) {
	long, deep := strings.Repeat("x", maxName), strings.Repeat("d/", MaxDepth-1)
	plain := map[string]bool{
		"a": true, "a.txt": true, "skills/tea/SKILL.md": true, "chats/main:cli:local:x%2Fy/MEMORY.md": true,
		long: true, "a/" + long: true, deep + "a": true,
	}
	for _, path := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/..", "a/../b", "a/./b", "a\\b", "a b", "a\x00",
		"a\n", "a\x7f", "é", ".corebot-tmp-1", "a/.Corebot-tmp-1", ".hidden", long + "x", "a/" + long + "x",
		deep + "a/b", strings.Repeat(long+"/", 16) + long,
	} {
		plain[path] = false
	}
	for path, want := range plain {
		name, err := Clean(path)
		if isClean := err == nil && name == path; plainly(path) != want || want && !isClean || clean(path) != isClean {
			t.Errorf("%.40q: plainly %v, clean %v; Clean says %.40q, %v", path, plainly(path), clean(path), name, err)
		}
	}
}
