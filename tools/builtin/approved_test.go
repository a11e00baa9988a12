package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// approvers know somebody who could approve.
type approvers struct{}

func (approvers) CanApprove(context.Context, corebot.Key, bool) (bool, error) { return true, nil }

// approving is a journal that gives every request the answer yes.
type approving struct {
	step
	state corebot.StepState
	asked corebot.Approval
}

func (s *approving) State() corebot.StepState { return s.state }

func (s *approving) Ask(_ context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	s.asked = asks[0].Approval
	s.asked.State = corebot.ApprovalApproved
	return corebot.ApprovalRequest{Approval: s.asked}, nil
}

// meddled are files that somebody changes right after they were compared.
type meddled struct {
	*tools.Files
	meddle func()
}

func (m meddled) Content(path string) (string, error) {
	content, err := m.Files.Content(path)
	m.meddle()
	return content, err
}

func (m meddled) Read(path string, limit int64) ([]byte, error) { return m.Files.Read(path, limit) }

// protected is a box whose tools write protected files of a directory, for a tainted turn of an admin.
func protected(t *testing.T, dir string, meddle func()) *tools.Box {
	t.Helper()
	root, err := rootfs.New(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	workspace, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { workspace.Close() })
	files, err := tools.NewFiles(roots.Only(root), workspace, nil)
	must(t, err)
	pages, err := memory.New(root, memory.Options{})
	must(t, err)
	registry, err := tools.NewRegistry(builtin.Workspace(roots.Only(root), pages, nil)...)
	must(t, err)
	rules, err := policy.New(policy.Options{})
	must(t, err)
	box, err := tools.NewBox(registry, rules, roleOf(corebot.RoleAdmin),
		tools.Options{Contents: meddled{files, meddle}, Approvers: approvers{}})
	must(t, err)
	return box
}

var writers = map[string]struct{ file, tool, args, before, after string }{
	"fs.write": {
		"IDENTITY.md", "fs.write", `{"path":"./IDENTITY.md","content":"new\n"}`, "old\n",
		"new\n",
	},
	"fs.write, of a new one": {"IDENTITY.md", "fs.write", `{"path":"IDENTITY.md","content":"new\n"}`, "", "new\n"},
	"fs.edit": {
		"IDENTITY.md", "fs.edit", `{"path":"IDENTITY.md","old":"old","new":"new"}`, "old\n",
		"new\n",
	},
	"memory.write, append": {
		"memory/MEMORY.md", "memory.write", `{"scope":"global","content":"new"}`, "old\n",
		"old\nnew\n",
	},
	"memory.write, replace": {
		"memory/MEMORY.md", "memory.write",
		`{"scope":"global","content":"new","mode":"replace"}`, "old\n", "new\n",
	},
}

// TestAnApprovedWriteLooksAtTheFileAgain has another turn write the file between the comparison and the write.
func TestAnApprovedWriteLooksAtTheFileAgain(t *testing.T) {
	for name, w := range writers {
		for _, meddles := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, w.file)
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			if w.before != "" {
				must(t, os.WriteFile(path, []byte(w.before), 0o600))
			}
			box := protected(t, dir, func() {
				if meddles {
					must(t, os.WriteFile(path, []byte("old, and of somebody else\n"), 0o600))
				}
			})
			s := &approving{}
			r, err := box.Call(t.Context(), corebot.Caller{Key: here, Taint: "a page"},
				corebot.ToolCall{Tool: w.tool, Args: json.RawMessage(w.args)}, s)
			must(t, err)
			got, err := os.ReadFile(path)
			if meddles {
				if string(got) != "old, and of somebody else\n" || r.Outcome != corebot.OutcomeError ||
					!strings.Contains(r.Content, "is not what it was when the call was approved") {
					t.Errorf("%s: the file is %q after %+v", name, got, r)
				}
				continue
			}
			if err != nil || string(got) != w.after || r.Outcome != corebot.OutcomeSuccess {
				t.Errorf("%s: the file is %q after %+v, %v", name, got, r, err)
			}
			if c := s.asked.Change; c.Path != w.file || !strings.Contains(c.Diff, "\n+new\n") || c.Note != "" ||
				len(s.asked.Bound.Files) != 1 {
				t.Errorf("%s: it was shown as %+v", name, c)
			}
		}
	}
}

// TestAnApprovedDeletionShowsWhatGoesAndLooksAtTheFileAgain: a file that has changed meanwhile stays.
func TestAnApprovedDeletionShowsWhatGoesAndLooksAtTheFileAgain(t *testing.T) {
	for _, meddles := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "BOOTSTRAP.md")
		must(t, os.WriteFile(path, []byte("ask\n"), 0o600))
		box := protected(t, dir, func() {
			if meddles {
				must(t, os.WriteFile(path, []byte("ask me\n"), 0o600))
			}
		})
		s := &approving{}
		r, err := box.Call(t.Context(), corebot.Caller{Key: here, Taint: "a page"},
			corebot.ToolCall{Tool: "fs.delete", Args: json.RawMessage(`{"path":"BOOTSTRAP.md"}`)}, s)
		must(t, err)
		if _, err := os.Stat(path); (err == nil) != meddles || (r.Outcome == corebot.OutcomeError) != meddles {
			t.Errorf("meddled %v: %+v, %v", meddles, r, err)
		}
		const shown = "change of BOOTSTRAP.md: the file is deleted\n| @@ -1,1 +0,0 @@\n| -ask"
		if got := s.asked.Change.Show(1000, "there"); !strings.HasPrefix(got, shown) && !meddles {
			t.Errorf("it was shown as %s", got)
		}
	}
}

func TestAFileIsDeletedOnceAndADirectoryNever(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.md"), []byte("a"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	must(t, os.Symlink("a.md", filepath.Join(dir, "link")))
	box := protected(t, dir, func() {})
	for _, c := range []struct {
		path    string
		outcome corebot.AuditOutcome
		says    string
	}{
		{"sub", corebot.OutcomeError, "is not a plain file"},
		{"link", corebot.OutcomeError, ""},
		{".", corebot.OutcomeError, ""},
		{"./a.md", corebot.OutcomeSuccess, "deleted"},
		{"a.md", corebot.OutcomeSuccess, "there is no file"},
		{"none/a.md", corebot.OutcomeSuccess, "there is no file"},
	} {
		args, err := json.Marshal(map[string]string{"path": c.path})
		must(t, err)
		r, err := box.Call(t.Context(), corebot.Caller{Key: here}, corebot.ToolCall{Tool: "fs.delete", Args: args},
			&approving{})
		if err != nil || r.Outcome != c.outcome || !strings.Contains(r.Content, c.says) {
			t.Errorf("%s: %+v, %v", c.path, r, err)
		}
	}
}

// TestAnApprovedWriteThatACrashCutOffIsNotRepeated: the file may be another by now, also for a write that may be
// repeated.
func TestAnApprovedWriteThatACrashCutOffIsNotRepeated(t *testing.T) {
	w := writers["fs.write"]
	for taint, want := range map[string]corebot.AuditOutcome{
		"a page": corebot.OutcomeUnknown,
		"":       corebot.OutcomeSuccess,
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, w.file), []byte(w.before), 0o600))
		box := protected(t, dir, func() {})
		r, err := box.Call(t.Context(), corebot.Caller{Key: here, Taint: taint},
			corebot.ToolCall{Tool: w.tool, Args: json.RawMessage(w.args)}, &approving{state: corebot.StepIntended})
		if err != nil || r.Outcome != want {
			t.Errorf("after %q: %+v, %v", taint, r, err)
		}
	}
}

func TestAFileThatCannotBeComparedIsSaidToBe(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		says string
	}{
		"a directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "is not a plain file"},
		"a link": {
			func(path string) error { return os.Symlink("/etc/passwd", path) },
			"leads out of the workspace",
		},
		"a large file": {
			func(path string) error { return os.WriteFile(path, make([]byte, 2<<20), 0o600) },
			"is too large: 2097152 bytes",
		},
		"a second name": {func(path string) error {
			return errors.Join(os.WriteFile(path+"2", nil, 0o600), os.Link(path+"2", path))
		}, "is not a plain file"},
		"too many lines": {func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("\n", 60_000)),
				0o600)
		}, "of 60000 and 4 bytes, a version is too large"},
	} {
		dir := t.TempDir()
		must(t, c.make(filepath.Join(dir, "IDENTITY.md")))
		s := &approving{}
		_, err := protected(t, dir, func() {}).Call(t.Context(), corebot.Caller{Key: here, Taint: "a page"},
			corebot.ToolCall{Tool: "fs.write", Args: json.RawMessage(`{"path":"IDENTITY.md","content":"new\n"}`)}, s)
		must(t, err)
		if !strings.Contains(s.asked.Change.Note, c.says) || s.asked.Change.Diff != "" {
			t.Errorf("%s: it was shown as %+v", name, s.asked.Change)
		}
	}
}
