package rootfs_test

import (
	"errors"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

func TestNoWriteMakesABoundedFileLongerThanItsLimit(t *testing.T) {
	root, err := rootfs.NewBounded(t.TempDir(), func(path string) int64 {
		if path == "a/page.md" {
			return 4
		}
		return 0
	}, rootfs.Quota{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	appends := func([]byte, bool) ([]byte, error) { return []byte("12345"), nil }
	for name, write := range map[string]func(path string) error{
		"create": func(path string) error { return root.Create(path, []byte("12345")) },
		"write":  func(path string) error { return root.Write(path, []byte("12345")) },
		"update": func(path string) error { return root.Update(path, 100, appends) },
	} {
		if err := write("./a//page.md"); !errors.Is(err, rootfs.ErrTooLarge) || corebot.HintOf(err) == "" {
			t.Errorf("%s: got %v", name, err)
		}
		if err := write("a/" + name); err != nil {
			t.Errorf("%s of another file: %v", name, err)
		}
	}
	if err := root.Write("a/page.md", []byte("1234")); err != nil {
		t.Errorf("a write up to the limit: %v", err)
	}
}
