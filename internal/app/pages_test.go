package app

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/pages"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/workspace"
)

// plain is a journal that keeps nothing.
type plain struct{}

func (plain) ID() string                                       { return "m/1/0" }
func (plain) State() corebot.StepState                         { return "" }
func (plain) Intend(context.Context, corebot.AuditEvent) error { return nil }
func (plain) Finish(context.Context, corebot.ToolResult, corebot.AuditEvent) error {
	return nil
}

func (plain) Apply(context.Context, corebot.Effect, corebot.ToolResult, corebot.AuditEvent) error {
	return nil
}

func (plain) InAnswer() corebot.InAnswer { return corebot.InAnswer{} }

func (plain) Wait(_ context.Context, w corebot.Pending, _ corebot.AuditEvent) (corebot.Pending, error) {
	return w, nil
}

func (plain) Ask(_ context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	return corebot.ApprovalRequest{Approval: asks[0].Approval}, nil
}

func TestNoToolMakesAPageOfThePromptLongerThanAPromptTakes(t *testing.T) {
	box, who, _ := realTools(t)
	call := func(want corebot.AuditOutcome, tool string, args map[string]any) {
		t.Helper()
		raw, err := json.Marshal(args)
		must(t, err)
		r, err := box.Call(t.Context(), who, corebot.ToolCall{ID: "1", Tool: tool, Args: raw}, plain{})
		must(t, err)
		if r.Outcome != want || want == corebot.OutcomeError && (!strings.Contains(r.Content, "is too large") ||
			!strings.Contains(r.Content, "the limit is")) {
			t.Errorf("%s %.60v ended %s: %.200s", tool, args, r.Outcome, r.Content)
		}
	}
	const own = "chats/main:cli:local:x/MEMORY.md"
	long, longer := strings.Repeat("word ", pages.MaxBytes/4), strings.Repeat("word ", skills.MaxFile/4)
	for _, path := range []string{
		"IDENTITY.md", "identity.md", "./USER.md", "TOOLS.md", "SOUL.md", "AGENTS.md",
		"BOOTSTRAP.md", "HEARTBEAT.md", "memory/MEMORY.md", own, "skills/tea/SKILL.md",
	} {
		call(corebot.OutcomeError, "fs.write", map[string]any{"path": path, "content": longer})
		call(corebot.OutcomeSuccess, "fs.write", map[string]any{"path": path, "content": "a seed"})
		call(corebot.OutcomeError, "fs.edit", map[string]any{"path": path, "old": "seed", "new": longer})
	}
	for _, scope := range []string{"global", "chat"} {
		for _, mode := range []string{"append", "replace"} {
			call(corebot.OutcomeError, "memory.write", map[string]any{"scope": scope, "mode": mode, "content": long})
		}
	}
	for _, path := range []string{
		"notes/IDENTITY.md", "skills/tea/notes.md",
		"chats/main:cli:local:x/files/MEMORY.md",
	} {
		call(corebot.OutcomeSuccess, "fs.write", map[string]any{"path": path, "content": longer})
	}
	// Nor does a move: of the file itself, and of the directory that it is in.
	for _, path := range []string{"notes/SKILL.md", "notes/SOUL.md"} {
		call(corebot.OutcomeSuccess, "fs.write", map[string]any{"path": path, "content": longer})
	}
	for from, to := range map[string]string{
		"notes": "skills/notes", "notes/SKILL.md": "skills/new/SKILL.md", "notes/SOUL.md": "HEARTBEAT.md",
	} {
		call(corebot.OutcomeError, "fs.move", map[string]any{"from": from, "to": to, "overwrite": true})
	}
	call(corebot.OutcomeSuccess, "fs.move", map[string]any{"from": "notes", "to": "old"})
}

func TestAWorkerWritesNoPageOverTheLimitEither(t *testing.T) {
	t.Chdir(t.TempDir())
	args, err := json.Marshal(map[string]any{"path": "USER.md", "content": strings.Repeat("x", pages.MaxBytes+1)})
	must(t, err)
	job, err := json.Marshal(errand{Tool: "fs.write", Args: args})
	must(t, err)
	if _, err := runErrand(t.Context(), job, nil); !errors.Is(err, rootfs.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestAWorkspaceWithSpoiledPagesOpensAndEachIsNamed(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "workspace")
	for _, made := range []error{
		os.MkdirAll(filepath.Join(dir, "chats", "main:cli:local:x"), 0o700),
		os.Mkdir(filepath.Join(dir, "IDENTITY.md"), 0o700),
		os.WriteFile(filepath.Join(dir, "USER.md"), []byte(strings.Repeat("x", pages.MaxBytes+1)), 0o600),
		os.Symlink("USER.md", filepath.Join(dir, "TOOLS.md")),
		os.WriteFile(filepath.Join(dir, "memory"), []byte("a file where a directory should be"), 0o600),
		os.WriteFile(filepath.Join(dir, "skills"), []byte("and another"), 0o600),
		os.WriteFile(filepath.Join(dir, "chats", "main:cli:local:x", "MEMORY.md"), []byte("\xff"), 0o600),
	} {
		must(t, made)
	}
	n, err := openWorkspace(place{home, corebot.DefaultAgent}, rootfs.Quota{}, nil, zerolog.Nop())
	must(t, err)
	t.Cleanup(func() { must(t, n.root.Close()) })
	must(t, n.openSkills([]string{"*"}, zerolog.Nop()))
	identity, user := n.Page(workspace.Identity), n.Page(workspace.User)
	if identity.LeftOut == "" || user.Text == "" || n.Skills().Text != "" {
		t.Errorf("identity %+v, user %.20q, skills %+v", identity, user.Text, n.Skills())
	}
	status := n.wrong()
	for _, page := range []string{"IDENTITY.md", "USER.md", "TOOLS.md", "memory/MEMORY.md", "skills"} {
		if !strings.Contains(status, page) {
			t.Errorf("the status does not name %s: %s", page, status)
		}
	}
	var found []string
	for _, f := range checkPages(place{home, corebot.DefaultAgent}) {
		if f.Level != "warn" || f.Hint == "" {
			t.Errorf("the doctor says %+v", f)
		}
		found = append(found, f.What)
	}
	for _, page := range []string{
		"IDENTITY.md", "USER.md", "TOOLS.md", "memory/MEMORY.md",
		"chats/main:cli:local:x/MEMORY.md",
	} {
		if !strings.Contains(strings.Join(found, "\n"), page) {
			t.Errorf("the doctor does not name %s: %q", page, found)
		}
	}
}
