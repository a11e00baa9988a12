package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/owned"
)

// TestAHomeThatOthersCanChangeIsRefusedByAllThatLookAtIt: a start, what says beforehand whether it would succeed, and
// what fills the home.
func TestAHomeThatOthersCanChangeIsRefusedByAllThatLookAtIt(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if _, err := Init(home, false); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(home)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(home, "events"), 0o700),
		os.WriteFile(MCPFile(home), []byte(`{"mcpServers":{}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{
		filepath.Dir(filepath.Dir(home)), filepath.Dir(home), home,
		filepath.Join(home, "workspace"), filepath.Join(home, "workspace", "memory"),
	} {
		if err := os.Chmod(dir, 0o755); err != nil { // none of them shuts others out
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"", ".mcp.json", "data", "events", "workspace", "workspace/IDENTITY.md", "workspace/USER.md",
		"workspace/TOOLS.md", "workspace/SOUL.md", "workspace/AGENTS.md", "workspace/BOOTSTRAP.md",
		"workspace/memory", "workspace/memory/MEMORY.md", "workspace/skills",
	} {
		path := filepath.Join(home, name)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, info.Mode().Perm()|0o002)
		}
		if err != nil {
			t.Fatal(err)
		}
		app, started := New(t.Context(), c, Options{})
		if app != nil {
			_ = app.Close() // it should not be there
		}
		_, made := Init(home, false)
		for what, err := range map[string]error{"a start": started, "a check": Check(c), "init": made} {
			if !errors.Is(err, owned.ErrNotOurs) {
				t.Errorf("%q that others can write: %s says %v", name, what, err)
			}
		}
		if err := os.Chmod(path, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	if err := Check(c); err != nil {
		t.Error(err)
	}
}
