package rootfs_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// limited is a directory whose chats hold ten bytes and five entries each.
func limited(t *testing.T) (*rootfs.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := rootfs.NewBounded(dir, nil, rootfs.Quota{
		Dir: rootfs.ChatsDir, Bytes: 10, Entries: 5, BytesKey: "key.bytes", EntriesKey: "key.entries",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func requireFull(t *testing.T, err error, hint string) {
	t.Helper()
	if !errors.Is(err, rootfs.ErrFull) || !strings.Contains(corebot.HintOf(err), hint) {
		t.Fatalf("got %v (%s), want that it is full, and %s", err, corebot.HintOf(err), hint)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFolderHoldsNoMoreBytesThanItsQuota(t *testing.T) {
	root, _ := limited(t)
	ok(t, root.Write("chats/a/f", []byte("123456")))
	requireFull(t, root.Write("chats/a/g", []byte("12345")), "key.bytes")
	requireFull(t, root.Create("./chats//a/g", []byte("12345")), "key.bytes")
	requireFull(t, root.Update("chats/a/f", 100, func([]byte, bool) ([]byte, error) {
		return []byte("12345678901"), nil
	}), "key.bytes")
	if _, err := root.ReadFile("chats/a/g", 10); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused write left %v", err)
	}
	ok(t, root.Write("chats/a/g", []byte("1234")))
	ok(t, root.Write("chats/a/f", []byte("12345"))) // it shrinks
	ok(t, root.Write("chats/a/g", []byte("12345")))
	ok(t, root.Write("chats/b/f", []byte("1234567890")))
	ok(t, root.Write("other/f", []byte("12345678901")))
	ok(t, root.Remove("chats/a/f"))
	ok(t, root.Write("chats/a/h", []byte("12345")))
	requireFull(t, root.Write("chats/a/i", []byte("1")), "key.bytes")
}

func TestAFolderHoldsNoMoreEntriesThanItsQuota(t *testing.T) {
	root, dir := limited(t)
	requireFull(t, root.Write("chats/a/1/2/3/4/5/6/f", nil), "key.entries")
	if _, err := os.Lstat(filepath.Join(dir, "chats/a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused write made directories: %v", err)
	}
	ok(t, root.Write("chats/a/1/2/f", nil))
	ok(t, root.Write("chats/a/1/g", nil))
	ok(t, root.Write("chats/a/1/h", nil))
	requireFull(t, root.Write("chats/a/1/i", nil), "key.entries")
	ok(t, root.Write("chats/a/1/h", []byte("x"))) // no entry more
}

func TestDirectoriesThatAreMadeCountForTheQuota(t *testing.T) {
	root, dir := limited(t)
	requireFull(t, root.Mkdir("chats/a/1/2/3/4/5/6/7"), "key.entries")
	if _, err := os.Lstat(filepath.Join(dir, "chats/a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused directory made others: %v", err)
	}
	ok(t, root.Mkdir("chats/a/1/2/3/4"))
	ok(t, root.Mkdir("chats/a/1/2")) // which is there
	ok(t, root.Mkdir("chats/a/5"))
	requireFull(t, root.Mkdir("chats/a/6"), "key.entries")
	requireFull(t, root.Write("chats/a/f", nil), "key.entries")
}

func TestAFolderIsMeasuredBeforeItsFirstChange(t *testing.T) {
	_, dir := limited(t)
	put(t, filepath.Join(dir, "outside"), strings.Repeat("x", 100))
	put(t, filepath.Join(dir, "chats/a/files/f"), "123456")
	ok(t, os.Symlink("../../outside", filepath.Join(dir, "chats/a/link")))
	root, err := rootfs.NewBounded(dir, nil, rootfs.Quota{
		Dir: rootfs.ChatsDir, Bytes: 10, Entries: 5,
		BytesKey: "key.bytes",
	})
	ok(t, err)
	defer root.Close() //nolint:errcheck // only a test's
	requireFull(t, root.Write("chats/a/g", []byte("12345")), "key.bytes")
	ok(t, root.Write("chats/a/g", []byte("1234")))
}

func TestWhatOthersChangeInAFolderIsMeasured(t *testing.T) {
	root, dir := limited(t)
	byHand := filepath.Join(dir, "chats/a/by-hand")
	synctest.Test(t, func(t *testing.T) {
		ok(t, root.Write("chats/a/f", []byte("1234")))
		put(t, byHand, "123456")
		root.Changed("chats/a/f")
		requireFull(t, root.Write("chats/a/g", []byte("1")), "key.bytes")
		ok(t, os.Remove(byHand))
		time.Sleep(6 * time.Second) // a refusal that old knowledge would give is looked at again
		ok(t, root.Write("chats/a/g", []byte("1")))
		put(t, byHand, "12345")
		time.Sleep(11 * time.Minute) // nobody says so, but old knowledge is measured again
		requireFull(t, root.Write("chats/a/h", []byte("1")), "key.bytes")
		ok(t, os.Remove(byHand))
		root.Changed("chats/a/f")
		ok(t, root.Write("chats/a/h", []byte("1")))
		release, err := root.Hold("chats/a/g")
		ok(t, err)
		put(t, filepath.Join(dir, "chats/a/g"), "12345")
		release()
		requireFull(t, root.Write("chats/a/i", []byte("1")), "key.bytes")
	})
}

func TestAFolderThatOthersOverfilledAdmitsNothing(t *testing.T) {
	root, dir := limited(t)
	ok(t, root.Admits("chats/a/files"))
	put(t, filepath.Join(dir, "chats/a/files/f"), "1234567890")
	ok(t, root.Admits("chats/a/files"))
	put(t, filepath.Join(dir, "chats/a/files/f"), "12345678901")
	requireFull(t, root.Admits("chats/a/files"), "key.bytes")
	ok(t, root.Write("chats/a/files/f", []byte("12345678901"))) // it does not grow
	ok(t, root.Write("chats/a/files/f", nil))
	ok(t, root.Admits("chats/a/files"))
	for _, name := range []string{"1", "2", "3", "4"} {
		put(t, filepath.Join(dir, "chats/a/files", name), "")
	}
	requireFull(t, root.Admits("chats/a/files"), "key.entries")
}

func TestAFolderThatIsNestedWithoutEndIsNotWalkedToIt(t *testing.T) {
	dir := t.TempDir()
	root, err := rootfs.NewBounded(dir, nil, rootfs.Quota{Dir: rootfs.ChatsDir, Bytes: 10})
	ok(t, err)
	defer root.Close() //nolint:errcheck // only a test's
	ok(t, os.MkdirAll(filepath.Join(dir, "chats/a", strings.Repeat("d/", 100)), 0o700))
	if err := root.Write("chats/a/f", []byte("1")); !errors.Is(err, rootfs.ErrTooLarge) || corebot.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	ok(t, root.Write("chats/b/f", []byte("1")))
}

func TestWritersOfOneFolderShareItsQuota(t *testing.T) {
	dir := t.TempDir()
	root, err := rootfs.NewBounded(dir, nil, rootfs.Quota{Dir: rootfs.ChatsDir, Bytes: 100})
	ok(t, err)
	defer root.Close() //nolint:errcheck // only a test's
	done := make(chan error)
	for i := range 20 {
		go func() { done <- root.Write("chats/a/"+string(rune('a'+i)), bytes.Repeat([]byte("x"), 10)) }()
	}
	written := 0
	for range 20 {
		switch err := <-done; {
		case err == nil:
			written++
		case !errors.Is(err, rootfs.ErrFull):
			t.Error(err)
		}
	}
	if written != 10 {
		t.Errorf("%d of 20 files were written, want 10", written)
	}
}
