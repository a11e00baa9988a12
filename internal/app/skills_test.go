package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// A look at the pages and the skills holds for a second. Commands change the files from another process, or through
// another root: what they tell the running Corebot ends the look.
func TestWhatACommandChangesInTheWorkspaceIsInTheNextPrompt(t *testing.T) {
	r := startReloaded(t, "observability: {enabled: false}\nllm: {offline: true}\n")
	u, err := r.agents.named("main")
	if err != nil {
		t.Fatal(err)
	}
	chat := chatKey("a")
	told := func() string {
		return u.notes.Skills().Text + u.notes.SkillsHere(chat, nil, "") + u.notes.Page(string(memory.Global)).Text
	}
	if err := storage.NewChats(r.Store).Register(t.Context(), chat, true, "a"); err != nil {
		t.Fatal(err)
	}
	edit := func(dir, name, description string) {
		t.Helper()
		at := filepath.Join(r.home, "workspace", filepath.FromSlash(dir), name)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		page := "---\nname: " + name + "\ndescription: " + description + "\n---\nx\n"
		if err := os.WriteFile(filepath.Join(at, skills.FileName), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	note := func(change string) error {
		_, err := r.service.NoteSkill(t.Context(), operate.SkillChange{Change: change, Name: "knots"})
		return err
	}
	installed := func() error { return note("install") }
	own := skills.DirOf(chat)
	for _, step := range []struct {
		name       string
		edit       func()
		tell       func() error
		want, gone string
	}{
		{"an install", func() { edit(skills.Dir, "knots", "one") }, installed, "knots: one", ""},
		{"an upgrade", func() { edit(skills.Dir, "knots", "two") }, installed, "knots: two", ""},
		{"a removal", func() {
			if err := os.RemoveAll(filepath.Join(r.home, "workspace", skills.Dir, "knots")); err != nil {
				t.Fatal(err)
			}
		}, func() error { return note("remove") }, "", "knots"},
		{"an install for one chat", func() { edit(own, "sails", "one") }, installed, "sails: one", "knots"},
		{"a reload", func() { edit(own, "sails", "two") }, func() error {
			_, err := r.Reload()
			return err
		}, "sails: two", "sails: one"},
		{"a chat that is deleted", func() { // which takes its lines out of the memory of all chats
			at := filepath.Join(r.home, "workspace", filepath.FromSlash(string(memory.Global)))
			if err := os.WriteFile(at, []byte("no line of the chat\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, func() error {
			_, err := r.service.DeleteChat(t.Context(), operate.ChatLoss{Key: chat})
			return err
		}, "no line of the chat", "sails"},
	} {
		told() // a look that holds while the files change
		step.edit()
		if err := step.tell(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got := told()
		if !strings.Contains(got, step.want) || step.gone != "" && strings.Contains(got, step.gone) {
			t.Errorf("after %s a turn is told %q", step.name, got)
		}
	}
}
