package rootfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// newCache is a cache whose clock is an hour ahead: every file has long been left alone.
func newCache(t *testing.T) (*Derived[string], string) {
	t.Helper()
	dir := t.TempDir()
	root, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	c := NewDerived(root, func(_ string, data []byte) string { return string(data) })
	c.now = func() time.Time { return time.Now().Add(time.Hour) }
	return c, filepath.Join(dir, "a.txt")
}

func requireReads(t *testing.T, c *Derived[string], want string) {
	t.Helper()
	if got, err := c.Get("a.txt", 100); err != nil || got != want {
		t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// later waits until the file system's clock has gone on: files changed before and after it differ in time.
func later(t *testing.T, dir string) {
	t.Helper()
	probe := func() time.Time {
		path := filepath.Join(dir, "clock")
		write(t, path, "")
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return Changed(info)
	}
	for begun := probe(); !probe().After(begun); {
	}
}

func TestACachedFileIsReadAgainWhenItChanged(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"in place, another size": func(p string) error { return os.WriteFile(p, []byte("other text"), 0o600) },
		"in place, same size":    func(p string) error { return os.WriteFile(p, []byte("new"), 0o600) },
		"same size and a time that was set back": func(p string) error {
			info, err := os.Stat(p)
			if err == nil {
				err = os.WriteFile(p, []byte("new"), 0o600)
			}
			if err == nil {
				err = os.Chtimes(p, time.Time{}, info.ModTime())
			}
			return err
		},
		"another file": func(p string) error {
			if err := os.WriteFile(p+".new", []byte("new"), 0o600); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, path := newCache(t)
			write(t, path, "old")
			requireReads(t, c, "old")
			requireReads(t, c, "old")
			later(t, filepath.Dir(path))
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			requireReads(t, c, string(want))
		})
	}
}

func TestACachedFileThatIsGoneOrNoLongerPlainIsAnError(t *testing.T) {
	c, path := newCache(t)
	write(t, path, "old")
	requireReads(t, c, "old")
	if err := os.Link(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get("a.txt", 100); err == nil {
		t.Errorf("a file with a second name gives %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get("a.txt", 100); err == nil {
		t.Errorf("a file that is gone gives %q", got)
	}
}

func TestAFileThatWasChangedJustNowIsNotKept(t *testing.T) {
	c, path := newCache(t)
	write(t, path, "old")
	c.now = time.Now
	requireReads(t, c, "old")
	if len(c.files) != 0 {
		t.Error("it could change again without another time")
	}
	c.now = func() time.Time { return time.Now().Add(settled) }
	requireReads(t, c, "old")
	requireReads(t, c, "old")
	if len(c.files) != 1 {
		t.Error("a file that is left alone is not kept")
	}
}

func TestALowerLimitCountsForACachedFileToo(t *testing.T) {
	c, path := newCache(t)
	write(t, path, "a text")
	requireReads(t, c, "a text")
	if got, err := c.Get("a.txt", 3); err == nil {
		t.Errorf("read %q within 3 bytes", got)
	}
}
