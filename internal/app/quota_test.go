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
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
	"github.com/corebot/corebot/tools/isolation"
)

var quotaChat = corebot.Key{Agent: "main", Channel: "webhook", Chat: "c"}

// quotaSettings let a chat's folder hold a kibibyte and four entries.
func quotaSettings() config.Tools {
	return config.Tools{ChatFilesBytes: 1_024, ChatFiles: 4}
}

// normals has nobody an admin.
type normals struct{}

func (normals) RoleOf(context.Context, corebot.Principal, corebot.Key) (corebot.Role, error) {
	return corebot.RoleNormal, nil
}

func requireQuota(t *testing.T, err error, key string) {
	t.Helper()
	if !errors.Is(err, rootfs.ErrFull) || !strings.Contains(corebot.HintOf(err), key) {
		t.Errorf("got %v (%s), want a full folder and %s", err, corebot.HintOf(err), key)
	}
}

func TestEveryToolThatWritesKeepsTheQuotaOfAChatAndNamesItsSetting(t *testing.T) {
	n, err := openWorkspace(place{t.TempDir(), corebot.DefaultAgent}, chatQuota(quotaSettings()), nil, zerolog.Nop())
	must(t, err)
	t.Cleanup(func() { must(t, n.root.Close()) })
	registry, err := tools.NewRegistry(builtin.Workspace(roots.Only(n.root), n.memory, nil)...)
	must(t, err)
	p, err := policy.New(policy.Options{})
	must(t, err)
	box, err := tools.NewBox(registry, p, normals{}, tools.Options{})
	must(t, err)
	dir := rootfs.ChatDir(quotaChat) + "/"
	call := func(want corebot.AuditOutcome, says, tool string, args map[string]any) {
		t.Helper()
		raw, err := json.Marshal(args)
		must(t, err)
		r, err := box.Call(t.Context(), corebot.Caller{Key: quotaChat}, corebot.ToolCall{Tool: tool, Args: raw},
			plain{})
		if must(t, err); r.Outcome != want || !strings.Contains(r.Content, says) {
			t.Errorf("%s: %s %s, want %s with %q", tool, r.Outcome, r.Content, want, says)
		}
	}
	const key = "raises tools.chat_files_bytes"
	long := strings.Repeat("x", 600)
	call(corebot.OutcomeSuccess, "", "fs.write", map[string]any{"path": dir + "a", "content": long + "y"})
	call(corebot.OutcomeError, key, "fs.write", map[string]any{"path": dir + "b", "content": long})
	call(corebot.OutcomeError, key, "fs.edit", map[string]any{"path": dir + "a", "old": "y", "new": long})
	call(corebot.OutcomeError, key, "memory.write", map[string]any{"scope": "chat", "content": long})
	call(corebot.OutcomeError, "raises tools.chat_files", "fs.write",
		map[string]any{"path": dir + "1/2/3/b", "content": ""})
	call(corebot.OutcomeSuccess, "", "memory.write", map[string]any{"scope": "chat", "content": "short"})
}

func TestAWorkerKeepsTheQuotaOfAChatToo(t *testing.T) {
	t.Chdir(t.TempDir())
	var sent []byte
	i := isolated{quota: chatQuota(quotaSettings())}
	var err error
	i.root, err = rootfs.New(".")
	must(t, err)
	t.Cleanup(func() { must(t, i.root.Close()) })
	i.workers = workersFunc(func(_ context.Context, j isolation.Job) ([]byte, error) {
		sent = j.Input
		return []byte(`{}`), nil
	})
	path := rootfs.ChatDir(quotaChat) + "/f"
	long := strings.Repeat("x", 1_025)
	for tool, args := range map[string]map[string]any{
		"fs.write": {"path": path, "content": long},
		"fs.edit":  {"path": path, "old": "old", "new": long},
	} {
		must(t, i.root.Write(path, []byte("old")))
		raw, err := json.Marshal(args)
		must(t, err)
		run, err := i.work(tool)
		must(t, err)
		_, err = run(t.Context(), raw)
		must(t, err)
		_, err = runErrand(t.Context(), sent, nil)
		requireQuota(t, err, "tools.chat_files_bytes")
	}
}

func TestNoProgramStartsInAFolderThatProgramsOverfilled(t *testing.T) {
	dir := t.TempDir()
	root, err := rootfs.NewBounded(dir, nil, chatQuota(quotaSettings()))
	must(t, err)
	t.Cleanup(func() { must(t, root.Close()) })
	files := filepath.Join(dir, rootfs.FilesDir(quotaChat))
	must(t, os.MkdirAll(files, 0o700))
	must(t, os.WriteFile(filepath.Join(files, "f"), make([]byte, 1_025), 0o600))
	runner, err := isolation.New(dir, isolation.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, runner.Close()) })
	run := func() error {
		_, err := programs{runner, root}.Run(t.Context(), builtin.Command{Key: quotaChat, Argv: []string{"none"}})
		return err
	}
	requireQuota(t, run(), "tools.chat_files_bytes")
	must(t, root.Write(rootfs.FilesDir(quotaChat)+"/f", nil))
	if err := run(); err == nil || errors.Is(err, rootfs.ErrFull) {
		t.Errorf("got %v, want that the program is not allowed", err)
	}
	must(t, os.WriteFile(filepath.Join(files, "f"), make([]byte, 1_024), 0o600)) // as a program would
	requireQuota(t, root.Write(rootfs.FilesDir(quotaChat)+"/g", []byte("x")), "tools.chat_files_bytes")
}
