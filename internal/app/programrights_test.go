package app

import (
	"os"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/needs"
	"github.com/corebot/corebot/tools/isolation"
)

// TestProgramsOfAnotherUserAreToldWhereTheyCannotWork: Corebot is root, and programs are not.
func TestProgramsOfAnotherUserAreToldWhereTheyCannotWork(t *testing.T) {
	const stranger = 54321
	owner := os.Getuid()
	for name, c := range map[string]struct {
		mode        os.FileMode
		write       bool
		uid         int
		lacks       string
		startsThere bool
	}{
		"closed":                        {0o700, true, stranger, "cannot look into", false},
		"closed, to read":               {0o700, false, stranger, "cannot look into", false},
		"names can only be guessed":     {0o711, false, stranger, "cannot look into", false},
		"open to read":                  {0o755, true, stranger, "cannot write in", true},
		"open to read, and meant so":    {0o755, false, stranger, "", true},
		"open to all":                   {0o777, true, stranger, "", true},
		"closed, and of Corebot's user": {0o700, true, 0, "", true},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		m := isolation.Mount{Path: dir, Write: c.write}
		err := lacks(m, c.uid, nobodyOwns)
		if (err == nil) != (c.lacks == "") || err != nil && !strings.Contains(err.Error(), c.lacks) {
			t.Errorf("%s: %v", name, err)
		}
		want := "setfacl"
		if owner != 0 {
			want = "isolation.uid"
		}
		if err != nil && !strings.Contains(corebot.HintOf(err), want) {
			t.Errorf("%s: the hint is %q", name, corebot.HintOf(err))
		}
		for at, want := range map[string]bool{
			dir: c.startsThere, dir + "/below": c.startsThere, "": true, "/elsewhere": true,
		} {
			if err := enterable([]isolation.Mount{m}, at, c.uid, nobodyOwns); (err == nil) != want {
				t.Errorf("%s, a program in %q: %v", name, at, err)
			}
		}
	}
}

// TestDirectoriesInWhichProgramsCannotWorkAreNamed, where the test is root.
func TestDirectoriesInWhichProgramsCannotWorkAreNamed(t *testing.T) {
	needs.Root(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := config.Defaults()
	c.Home, c.Tools.Shell.Mode = t.TempDir(), config.ShellSandbox
	c.Tools.Roots = config.NewEntries(config.OpenRoot{Path: dir, Mode: config.RootWrite})
	all := ProgramsLack(c)
	if isolation.CanOwn(dir, c.Isolation.UID) == nil { // the kernel lets them do what root may there
		if len(all) > 0 {
			t.Errorf("it says %v", all)
		}
	} else if len(all) != 1 || !strings.HasSuffix(all[0].Error(), "root: that user cannot write in "+dir) {
		t.Errorf("it says %v", all)
	}
	c.Tools.Shell.Mode = config.ShellHost
	if all := ProgramsLack(c); len(all) > 0 {
		t.Errorf("without a sandbox it says %v", all)
	}
}
