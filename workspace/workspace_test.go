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
	for _, want := range workspace.Pages() {
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

func TestOnlyAWorkspaceWithoutAnyPageBeginsWithAFirstConversation(t *testing.T) {
	there := func(root *rootfs.Root) bool {
		_, err := root.ReadFile(workspace.Bootstrap, 1<<20)
		return err == nil
	}
	for _, page := range workspace.Pages() {
		root := newRoot(t)
		err := root.Write(page, []byte("mine"))
		if err = errors.Join(err, workspace.Install(root)); err != nil {
			t.Fatal(err)
		}
		if there(root) != (page == workspace.Bootstrap) {
			t.Errorf("a workspace that has %s: BOOTSTRAP.md is there: %v", page, there(root))
		}
	}
	root := newRoot(t)
	if err := errors.Join(workspace.Install(root), root.Remove(workspace.Bootstrap),
		workspace.Install(root)); err != nil {
		t.Fatal(err)
	}
	if there(root) {
		t.Error("BOOTSTRAP.md came back")
	}
}

// cutOff takes so many files, and then there is no room any more.
type cutOff struct {
	*rootfs.Root
	left int
}

func (c *cutOff) Create(path string, data []byte) error {
	if c.left--; c.left < 0 {
		return fs.ErrPermission
	}
	return c.Root.Create(path, data)
}

func TestAnInstallThatWasCutOffStillBeginsWithAFirstConversation(t *testing.T) {
	for done := range 3 {
		root := newRoot(t)
		if err := workspace.Install(&cutOff{root, done}); err == nil {
			t.Fatal("the install was not cut off")
		}
		if err := workspace.Install(root); err != nil {
			t.Fatal(err)
		}
		if _, err := root.ReadFile(workspace.Bootstrap, 1<<20); err != nil {
			t.Errorf("after %d files: %v", done, err)
		}
	}
}

type full struct{}

func (full) Create(string, []byte) error            { return fs.ErrPermission }
func (full) ReadFile(string, int64) ([]byte, error) { return nil, fs.ErrNotExist }

func TestAnErrorOfTheWorkspaceIsReported(t *testing.T) {
	if err := workspace.Install(full{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
