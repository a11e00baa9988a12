package workspace_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/workspace"
)

func newRoot(t *testing.T) *rootfs.Root {
	t.Helper()
	root, err := rootfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestANewWorkspaceGetsEveryTemplate(t *testing.T) {
	root := newRoot(t)
	if err := workspace.Install(root); err != nil {
		t.Fatal(err)
	}
	names, err := workspace.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"IDENTITY.md", "TOOLS.md", "USER.md", "memory/MEMORY.md"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among the templates %v", want, names)
		}
	}
	for _, name := range names {
		if data, err := root.ReadFile(name, 1<<20); err != nil || len(data) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
}

func TestInstallNeverChangesWhatIsThere(t *testing.T) {
	root := newRoot(t)
	if err := root.Write("USER.md", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := workspace.Install(root); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := root.ReadFile("USER.md", 100); err != nil || string(got) != "mine" {
		t.Errorf("got %q, %v", got, err)
	}
}

type full struct{}

func (full) Create(string, []byte) error { return fs.ErrPermission }

func TestAnErrorOfTheWorkspaceIsReported(t *testing.T) {
	if err := workspace.Install(full{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
