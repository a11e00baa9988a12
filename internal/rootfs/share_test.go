package rootfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAShareLimitsAFolderUntilItIsReleased(t *testing.T) {
	dir := t.TempDir()
	root, err := NewBounded(dir, nil, Quota{Dir: ChatsDir, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // only a test's
	write := func(path string, size int, full bool) {
		t.Helper()
		if err := root.Write(path, bytes.Repeat([]byte("x"), size)); errors.Is(err, ErrFull) != full || !full &&
			err != nil {
			t.Errorf("%s with %d bytes: %v", path, size, err)
		}
	}
	write("chats/a/f", 500, false)
	held, whole, err := root.Usage("chats/a")
	if err != nil || !whole || held != (Usage{500, 1}) {
		t.Fatalf("it holds %+v, %v, %v", held, whole, err)
	}
	release, err := root.SetShare("chats/a/files", Share{Who: "ann", Bytes: 100, Charged: Usage{90, 9}, Held: held})
	if err != nil {
		t.Fatal(err)
	}
	write("chats/a/f", 511, true) // 90 and 11 more
	write("chats/a/f", 510, false)
	write("chats/a/g", 1, true)
	write("chats/b/g", 1_000, false) // another folder
	write("chats/a/f", 505, false)
	write("chats/a/g", 5, false)
	if err := os.WriteFile(filepath.Join(dir, "chats/a/h"), []byte("xx"), 0o600); err != nil { // as a program would
		t.Fatal(err)
	}
	if err := root.Admits("chats/a"); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	release()
	write("chats/a/g", 1_000, false)
	if _, ok := root.ShareOf("chats/a"); ok {
		t.Error("the share holds on")
	}
}
