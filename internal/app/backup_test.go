package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// homeWithFiles is a home with files, and a database.
func homeWithFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		path := filepath.Join(home, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := WithStore(t.Context(), home, func(*storage.DB) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return home
}

// backUp makes a backup of a home, and gives its directory.
func backUp(t *testing.T, home string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "backup")
	if err := Change(t.Context(), home, func(c control.Caller) error {
		_, err := operate.MakeBackup.Call(t.Context(), c, operate.BackupOrder{To: to})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return to
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestABackupHasTheServersOfEachAgentWithoutTheirSecrets(t *testing.T) {
	home := homeWithFiles(t, map[string]string{
		".mcp.json": `{"mcpServers":{"git-hub":{"command":"x","args":["--mode=ro"],
			"env":{"GITHUB_TOKEN":"secret-of-github","OTHER_TOKEN":"${KEPT}","LEVEL":"debug"}}}}`,
		"agents/helper/.mcp.json": `{"mcpServers":{"web":{"url":"http://h/","headers":{"X-A":"secret-of-web"}}}}`,
		"agents/Not An Agent/x":   "",
		"corebot.yaml":            "# as it is\nlog: {level: debug}\n",
	})
	b := backUp(t, home)
	main := read(t, b, ".mcp.json")
	for _, want := range []string{`"${GIT_HUB_GITHUB_TOKEN}"`, `"${KEPT}"`, `"debug"`, `"--mode=ro"`} {
		if !strings.Contains(main, want) {
			t.Errorf("it has no %s:\n%s", want, main)
		}
	}
	if helper := read(t, b, "agents/helper/.mcp.json"); !strings.Contains(helper, `"${WEB_X_A}"`) {
		t.Errorf("the helper has\n%s", helper)
	}
	if text := read(t, b, "corebot.yaml"); text != "# as it is\nlog: {level: debug}\n" {
		t.Errorf("the settings are\n%s", text)
	}
}

func TestASecretWithinAnotherSettingIsLeftOutToo(t *testing.T) {
	home := homeWithFiles(t, map[string]string{
		"corebot.yaml": "webhook: {token: 0123456789abcdef}\nllm: {base_url: 'http://u:0123456789abcdef@h/'}\n",
	})
	if text := read(t, backUp(t, home), "corebot.json"); strings.Contains(text, "0123456789abcdef") {
		t.Error(text)
	}
}

// An operator keeps the workspace on a place of his own, and finds it there after a restore.
func TestARestoreLeavesTheLinksOfTheOperator(t *testing.T) {
	home := homeWithFiles(t, map[string]string{"workspace/a": "new"})
	b := backUp(t, home)
	elsewhere := filepath.Join(filepath.Dir(home), "elsewhere")
	if err := errors.Join(os.RemoveAll(filepath.Join(home, "workspace")), os.Mkdir(elsewhere, 0o700),
		os.WriteFile(filepath.Join(elsewhere, "b"), []byte("old"), 0o600),
		os.Symlink(elsewhere, filepath.Join(home, "workspace"))); err != nil {
		t.Fatal(err)
	}
	r, err := Restore(t.Context(), home, b, false)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, elsewhere, "a") != "new" || read(t, r.Aside, "workspace", "b") != "old" {
		t.Error("the workspace is another one")
	}
	if info, err := os.Lstat(filepath.Join(home, "workspace")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestFilesThatTheBackupDoesNotHaveAreSetAsideWithTheirDatabase(t *testing.T) {
	home := homeWithFiles(t, nil)
	b := backUp(t, home)
	if err := errors.Join(os.Mkdir(filepath.Join(home, "data/files"), 0o700),
		os.WriteFile(filepath.Join(home, "data/files/hash"), []byte("later"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := Restore(t.Context(), home, b, false)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, r.Aside, "data/files/hash") != "later" {
		t.Error("it is gone")
	}
}

// The floor of the disk is for messages.
func TestABackupLeavesTheFloorOfTheHomesDiskFree(t *testing.T) {
	c := config.Defaults()
	c.Home = homeWithFiles(t, nil)
	all, err := freeFor(c)(c.Home)
	if err != nil {
		t.Fatal(err)
	}
	c.Storage.DiskFloor = 1 << 50
	left, err := freeFor(c)(c.Home)
	if err != nil || left > all-1<<49 {
		t.Errorf("%d bytes are free for a backup, with a floor above all %d (%v)", left, all, err)
	}
	if err := os.WriteFile(filepath.Join(c.Home, "corebot.yaml"), []byte("storage: {disk_floor: 1125899906842624}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	err = Change(t.Context(), c.Home, func(caller control.Caller) error {
		_, err := operate.MakeBackup.Call(t.Context(), caller, operate.BackupOrder{})
		return err
	})
	if !errors.Is(err, corebot.ErrDiskFull) {
		t.Error(err)
	}
}

func TestTheAddressOfABackupIsAbsolute(t *testing.T) {
	home := homeWithFiles(t, nil)
	err := Change(t.Context(), home, func(c control.Caller) error {
		_, err := operate.MakeBackup.Call(t.Context(), c, operate.BackupOrder{To: "b"})
		return err
	})
	if !errors.Is(err, corebot.ErrInvalid) {
		t.Error(err)
	}
}

// A backup has every chat in it, and what it says holds after a restore.
func TestToolsReachNoBackup(t *testing.T) {
	c := config.Defaults()
	c.Home, c.Backup.Dir = homeWithFiles(t, nil), filepath.Join(t.TempDir(), "backups")
	if err := Check(c); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{c.Backup.Dir, filepath.Dir(c.Backup.Dir), filepath.Join(c.Backup.Dir, "corebot-x")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		c.Tools.Roots = config.NewEntries(config.OpenRoot{Path: dir, Mode: "read"})
		if _, err := openRoots(c); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	c.Backup.Dir = "workspace/backups"
	if err := Check(c); !errors.Is(err, corebot.ErrInvalid) {
		t.Error(err)
	}
}
