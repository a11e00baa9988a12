package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot/internal/long"
)

// killed runs a command that dies at the point.
func (c *crash) killed(point string, args ...string) {
	c.t.Helper()
	out, err := c.command(point, args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		c.t.Fatalf("%s was not reached by %v: %v\n%s", point, args, err, out)
	}
}

// runs runs a command that succeeds.
func (c *crash) runs(args ...string) string {
	c.t.Helper()
	out, err := c.command("", args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// homeOf is a home whose database knows a message, and whose workspaces have a file of the same name.
func homeOf(t *testing.T, binary, id string) *crash {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	c := &crash{t: t, binary: binary, home: home, env: []string{"COREBOT_LLM_OFFLINE=true"}}
	c.runs("send", "--id", id, "hello")
	for _, agent := range []string{"", "agents/helper"} {
		dir := filepath.Join(c.home, agent, "workspace")
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, id), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// backupPoints are the steps of a backup, and how many whole backups there are after a kill.
var backupPoints = map[string]int{"backup.database": 1, "backup.made": 1, "backup.after": 2}

func TestKilledDuringABackupEveryBackupThatHasItsNameIsWhole(t *testing.T) {
	t.Parallel()
	binary := realProgram(t)
	for point, want := range long.Or(map[string]int{"backup.made": 1}, backupPoints) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := homeOf(t, binary, "m1")
			c.runs("db", "backup")
			c.killed(point, "db", "backup")
			check := func(want int) {
				t.Helper()
				all, err := filepath.Glob(filepath.Join(c.home, "data/backups/corebot-*"))
				if err != nil || len(all) != want {
					t.Fatalf("%d backups, want %d (%v)", len(all), want, err)
				}
				for _, b := range all {
					c.runs("db", "restore", "--dry-run", b)
				}
			}
			check(want)
			c.runs("db", "check")
			c.runs("db", "backup")
			check(want + 1)
			if left, err := filepath.Glob(filepath.Join(c.home, "data/backups/.*")); err != nil || len(left) > 0 {
				t.Errorf("left are %v (%v)", left, err)
			}
		})
	}
}

// restorePoints are the steps of a restore, and whether the home has the backup after a kill there.
var restorePoints = map[string]bool{
	"restore.made": false, "swap.before": false,
	"swap.noted": true, "swap.aside#1": true, "swap.moved#1": true, "swap.aside#2": true, "swap.moved#2": true,
	"swap.aside#3": true, "swap.moved#3": true, "swap.aside#4": true, "swap.moved#4": true, "swap.after": true,
}

func TestKilledDuringARestoreTheHomeGoesOnWithAllThatItHadOrAllOfTheBackup(t *testing.T) {
	long.Only(t, "TestKilledDuringABackupEveryBackupThatHasItsNameIsWhole")
	t.Parallel()
	binary := realProgram(t)
	source := homeOf(t, binary, "new")
	backup := filepath.Join(t.TempDir(), "backup")
	source.runs("db", "backup", "--to", backup)
	short := map[string]bool{"swap.before": false, "swap.moved#2": true, "swap.after": true}
	for point, restored := range long.Or(short, restorePoints) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := homeOf(t, binary, "old")
			c.killed(point, "db", "restore", backup)
			if out, err := c.command("", "why", "old").CombinedOutput(); err != nil && restored &&
				!strings.Contains(string(out), "cut short") && !strings.Contains(string(out), "not found") {
				t.Errorf("a reader is told: %v\n%s", err, out)
			}
			c.runs("db", "migrate")
			c.has(restored)
			c.runs("db", "check")
			c.runs("db", "restore", backup)
			c.has(true)
			aside, err := filepath.Glob(filepath.Join(c.home, "data/set-aside-*/workspace/old"))
			if err != nil || len(aside) != 1 {
				t.Errorf("what the home had is in %v (%v)", aside, err)
			}
			if rooms, err := filepath.Glob(filepath.Join(c.home, "data/new-database-*")); err != nil || len(rooms) > 0 {
				t.Errorf("left are %v (%v)", rooms, err)
			}
		})
	}
}

// has wants the database and both workspaces to be those of the backup, or those of before.
func (c *crash) has(restored bool) {
	c.t.Helper()
	there, gone := "old", "new"
	if restored {
		there, gone = gone, there
	}
	c.runs("why", there)
	if out, err := c.command("", "why", gone).CombinedOutput(); err == nil {
		c.t.Errorf("the database knows the message %s too:\n%s", gone, out)
	}
	for _, agent := range []string{"", "agents/helper"} {
		dir := filepath.Join(c.home, agent, "workspace")
		_, err := os.Stat(filepath.Join(dir, there))
		_, without := os.Stat(filepath.Join(dir, gone))
		if err != nil || without == nil {
			c.t.Errorf("%s has not %s (%v), or has %s", dir, there, err, gone)
		}
	}
}
