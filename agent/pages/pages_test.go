package pages_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/pages"
	"github.com/corebot/corebot/internal/rootfs"
)

// rig is a workspace with one page that is read often, and what the store logs.
type rig struct {
	*pages.Store
	root *rootfs.Root
	dir  string
	log  bytes.Buffer
}

const often = "memory/MEMORY.md"

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir()}
	root, err := rootfs.New(r.dir)
	if err == nil {
		r.root = root
		r.Store, err = pages.New(root, zerolog.New(&r.log), often)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

func (r *rig) write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(r.path(name)), 0o700),
		os.WriteFile(r.path(name), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestAPageIsItsFileAndAMissingOneIsEmpty(t *testing.T) {
	r := newRig(t)
	if got := r.Read(often); got != (pages.Page{}) {
		t.Errorf("a missing file is %+v", got)
	}
	r.write(t, often, "tea\n")
	if got := r.Read(often); got != (pages.Page{Text: "tea\n"}) {
		t.Errorf("got %+v", got)
	}
	r.write(t, often, strings.Repeat("x", pages.MaxBytes))
	if got := r.Read(often); len(got.Text) != pages.MaxBytes || got.LeftOut != "" {
		t.Errorf("a page at the limit has %d bytes and is without %q", len(got.Text), got.LeftOut)
	}
	if found := r.Faults(); len(found) != 0 || r.log.Len() != 0 {
		t.Errorf("faults %+v, log %s", found, r.log.String())
	}
}

// spoil are the ways in which a file is no page.
func spoil() map[string]func(path string) error {
	file := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	return map[string]func(string) error{
		"too long":      file("the beginning\n" + strings.Repeat("word ", pages.MaxBytes)),
		"too long line": file("the beginning" + strings.Repeat("é", pages.MaxBytes)),
		"not UTF-8":     file("the beginning \xff\xfe"),
		"NUL bytes":     file("the beginning \x00"),
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":          func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"two links": func(path string) error {
			return errors.Join(file("the beginning")(path+".other"), os.Link(path+".other", path))
		},
		"symbolic link": func(path string) error {
			return errors.Join(file("the beginning")(path+".other"), os.Symlink(path+".other", path))
		},
	}
}

func TestAPageThatCannotBeShownIsLeftOutAndSaysSo(t *testing.T) {
	shown := map[string]bool{"too long": true, "too long line": true, "not UTF-8": true, "NUL bytes": true}
	for name, spoil := range spoil() {
		for _, page := range []string{often, "chats/x/MEMORY.md"} {
			t.Run(name+" "+filepath.Dir(page), func(t *testing.T) {
				r := newRig(t)
				if err := errors.Join(os.MkdirAll(filepath.Dir(r.path(page)), 0o700), spoil(r.path(page))); err != nil {
					t.Fatal(err)
				}
				got := r.Read(page)
				if strings.HasPrefix(got.Text, "the beginning") != shown[name] || len(got.Text) > pages.MaxBytes ||
					!utf8.ValidString(got.Text) || strings.ContainsRune(got.Text, 0) {
					t.Errorf("the text is %.50q, of %d bytes", got.Text, len(got.Text))
				}
				if !strings.Contains(got.LeftOut, page) || strings.Contains(got.LeftOut, r.dir) {
					t.Errorf("what is left out is called %q", got.LeftOut)
				}
				r.Read(page)
				found := r.Faults()
				if len(found) != 1 || found[0].Path != page || !strings.Contains(found[0].What, page) ||
					found[0].Hint == "" {
					t.Errorf("the faults are %+v", found)
				}
				if n := strings.Count(r.log.String(), "\n"); n != 1 {
					t.Errorf("%d lines are logged: %s", n, r.log.String())
				}
				if err := os.RemoveAll(r.path(page)); err != nil {
					t.Fatal(err)
				}
				if found := r.Faults(); len(found) != 0 || !strings.Contains(r.log.String(), "whole again") {
					t.Errorf("once it is mended the faults are %+v, and the log says %s", found, r.log.String())
				}
			})
		}
	}
}

func TestAFileThatIsTooLongIsCutAtTheEndOfALine(t *testing.T) {
	r := newRig(t)
	line := strings.Repeat("x", 999) + "\n"
	r.write(t, often, strings.Repeat(line, 100))
	if got, want := r.Read(often).Text, strings.Repeat(line, pages.MaxBytes/1000); got != want {
		t.Errorf("%d bytes are shown, want %d", len(got), len(want))
	}
	r.write(t, often, strings.Repeat(line, 200))
	r.Read(often)
	if n := strings.Count(r.log.String(), "\n"); n != 1 {
		t.Errorf("a file that grows is logged %d times", n)
	}
	if found := r.Faults(); len(found) != 1 || !strings.Contains(found[0].What, "it has 200000") {
		t.Errorf("the faults are %+v", found)
	}
}

func TestTheFaultsOfAPageThatNobodyHasReadAreFoundIfItIsReadOften(t *testing.T) {
	r := newRig(t)
	r.write(t, often, strings.Repeat("x", pages.MaxBytes+1))
	if found := r.Faults(); len(found) != 1 {
		t.Errorf("the faults are %+v", found)
	}
}

func TestAStoreRemembersABoundedNumberOfFaults(t *testing.T) {
	r := newRig(t)
	for i := range 300 {
		name := fmt.Sprintf("chats/%d/MEMORY.md", i)
		r.write(t, name, "\xff")
		r.Read(name)
	}
	if n := len(r.Faults()); n != 256 {
		t.Errorf("it remembers %d", n)
	}
}

func TestAStoreNeedsADirectory(t *testing.T) {
	if _, err := pages.New(nil, zerolog.Nop()); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestAGlanceIsASecondOldAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		want := func(when, text string) {
			t.Helper()
			if got := r.Glance(often); got != (pages.Page{Text: text}) {
				t.Errorf("%s the page is %+v, want %q", when, got, text)
			}
		}
		r.write(t, often, "one")
		want("at first", "one")
		r.write(t, often, "two")
		time.Sleep(time.Second - 1)
		want("within a second", "one") // what nobody has told of is not looked for
		time.Sleep(time.Nanosecond)
		want("after a second", "two")
		r.write(t, often, "three")
		want("at the same moment", "two")
		r.Renew()
		want("once it is renewed", "three")
		r.write(t, often, "four")
		if got := r.Read(often); got.Text != "four" {
			t.Errorf("a read gives %+v", got)
		}
		const rare = "chats/x/MEMORY.md"
		for _, text := range []string{"a", "b"} {
			r.write(t, rare, text)
			if got := r.Glance(rare); got.Text != text {
				t.Errorf("a page that is read seldom is %+v, want %q", got, text)
			}
		}
	})
}

func TestAGlanceSeesEachChangeThroughTheRootAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes
		r := newRig(t)
		for name, change := range map[string]func() error{
			"written": func() error { return r.root.Write(often, []byte("written")) },
			"updated": func() error {
				return r.root.Update(often, 100, func([]byte, bool) ([]byte, error) { return []byte("updated"), nil })
			},
			"moved": func() error {
				r.write(t, "other", "moved")
				return r.root.Move("other", often, true, nothing)
			},
			"removed":  func() error { r.write(t, often, "x"); return r.root.Remove(often) },
			"restored": func() error { r.root.Remove(often); return r.root.Restore(often, []byte("restored"), 0) },
			"by a program": func() error {
				r.write(t, often, "by a program")
				r.root.Changed("memory")
				return nil
			},
		} {
			r.Glance(often)
			if err := change(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "removed" {
				name = ""
			}
			if got := r.Glance(often); got.Text != name {
				t.Errorf("the page is %q, want %q", got.Text, name)
			}
		}
	})
}

func nothing() error { return nil }
