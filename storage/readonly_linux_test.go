package storage

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/needs"
)

// unwritable names the directory whose copies a test of a read-only file system looks at from the inside.
const unwritable = "COREBOT_TEST_UNWRITABLE"

// TestADatabaseOnAReadOnlyFileSystemIsReadUnlessItsLogHasCommits: without them, the file alone has everything. With
// them it does not, and what it lacks must not be taken for what was never there.
func TestADatabaseOnAReadOnlyFileSystemIsReadUnlessItsLogHasCommits(t *testing.T) {
	top := os.Getenv(unwritable)
	if top == "" {
		makeUnwritable(t)
		return
	}
	must(t, errors.Join(syscall.Mount(top, top, "", syscall.MS_BIND, ""),
		syscall.Mount(top, top, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")))
	if err := os.WriteFile(filepath.Join(top, "more"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Fatalf("the file system is not read-only: %v", err)
	}
	db, err := OpenReader(t.Context(), filepath.Join(top, "whole"))
	must(t, err)
	if found, err := db.Problems(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("the check found %q, %v", found, err)
	}
	must(t, db.Close())
	_, err = OpenReader(t.Context(), filepath.Join(top, "commits"))
	if !strings.Contains(corebot.HintOf(err), "writable for the user who runs Corebot") {
		t.Errorf("with commits in its log: %v (%s)", err, corebot.HintOf(err))
	}
}

// makeUnwritable makes two data directories, and runs the test again where they can be made read-only.
func makeUnwritable(t *testing.T) {
	needs.Root(t) // or the way to the directories belongs to users whom the namespace does not know
	top, used := t.TempDir(), t.TempDir()
	must(t, errors.Join(os.Mkdir(filepath.Join(top, "whole"), 0o700), os.Mkdir(filepath.Join(top, "commits"), 0o700),
		Seed(filepath.Join(top, "whole"))))
	ann := corebot.Principal{Channel: "cli", Account: "local", ID: "1"}
	must(t, NewGrants(openTest(t, used)).Grant(t.Context(), corebot.Grant{Principal: ann, Role: corebot.RoleAdmin}))
	for _, name := range []string{FileName, FileName + "-wal"} {
		data, err := os.ReadFile(filepath.Join(used, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(top, "commits", name), data, 0o600))
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), unwritable+"="+top)
	one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: one, GidMappings: one,
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		needs.Missing(t, "users", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
