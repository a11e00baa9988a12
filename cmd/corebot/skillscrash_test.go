package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
)

// TestKilledDuringAnInstallASkillIsTheOldOneOrTheNewOne kills `corebot skills install` at each step of a first install
// and of an upgrade. The skill is whole then: as it was, or as it is to be. The same command ends the work.
func TestKilledDuringAnInstallASkillIsTheOldOneOrTheNewOne(t *testing.T) {
	long.Only(t, "TestKilledAfterItsExchangeAnInstallKeepsWhatSomebodyChanged")
	for _, point := range long.Every(2, []string{
		"skill.file#1", "skill.before", "skill.exchanged", "skill.file#2", "skill.after", "skill.looked",
		"skill.file#3",
	}) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killedInstall(t, point)
		})
	}
}

func killedInstall(t *testing.T, point string) {
	home, source := filepath.Join(t.TempDir(), "home"), t.TempDir()
	version := func(n string) {
		t.Helper()
		page := fmt.Sprintf("---\nname: knots\ndescription: Version %s.\n---\nTie %s.\n", n, n)
		for name, text := range map[string]string{"SKILL.md": page, "notes.txt": n} {
			if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(fault string, args ...string) (string, error) {
		cmd := exec.Command(realProgram(t), append([]string{"--home", home}, args...)...)
		cmd.Env = append(os.Environ(), "COREBOT_LLM_OFFLINE=true", "COREBOT_FAULT="+fault)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	whole := func(versions ...string) string {
		t.Helper()
		is := ""
		for _, name := range []string{"SKILL.md", "notes.txt"} {
			text, err := os.ReadFile(filepath.Join(home, "workspace", "skills", "knots", name))
			has := slices.IndexFunc(versions, func(v string) bool {
				return v != "" && strings.Contains(string(text), v)
			})
			switch {
			case os.IsNotExist(err) && slices.Contains(versions, ""):
				is += "-"
			case err != nil || has < 0:
				t.Fatalf("%s is %q: %v", name, text, err)
			default:
				is += versions[has]
			}
		}
		if is != "--" && is != strings.Repeat(is[:len(is)/2], 2) {
			t.Fatalf("the skill is of two versions: %s", is)
		}
		return is
	}
	if out, err := run("", "init", "--yes"); err != nil {
		t.Fatal(out, err)
	}
	old := ""
	for _, n := range []string{"one", "two"} { // a first install, and an upgrade
		version(n)
		out, err := run(point, "skills", "install", source, "--yes")
		if err == nil || strings.Contains(out, "is installed") {
			t.Fatalf("it was not killed: %s", out)
		}
		was := whole(old, n)
		if done := point == "skill.after" || point == "skill.exchanged"; done != (was == n+n) {
			t.Errorf("killed at %s, the skill is %s", point, was)
		}
		if out, err := run("", "skills", "install", source, "--yes"); err != nil {
			t.Fatal(out, err)
		}
		if now := whole(n); now != n+n {
			t.Errorf("then it is %s", now)
		}
		if out, err := run("", "skills", "show", "knots"); err != nil || strings.Contains(out, "by hand") ||
			strings.Contains(out, "changed since") {
			t.Errorf("its note is of another version: %s %v", out, err)
		}
		old = n
	}
}

// Somebody saves a skill between the last look of an install and the exchange, and the install is killed between the
// exchange and its comparison. The saved change stays, and the next install says where it is.
func TestKilledAfterItsExchangeAnInstallKeepsWhatSomebodyChanged(t *testing.T) {
	t.Parallel()
	home, source, stalls := filepath.Join(t.TempDir(), "home"), t.TempDir(), t.TempDir()
	run := func(args ...string) (string, error) {
		out, err := exec.Command(realProgram(t), append([]string{"--home", home}, args...)...).CombinedOutput()
		return string(out), err
	}
	version := func(dir, n string) {
		t.Helper()
		page := fmt.Sprintf("---\nname: knots\ndescription: Version %s.\n---\nTie.\n", n)
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has := func(dir, n string) bool {
		text, _ := os.ReadFile(filepath.Join(dir, "SKILL.md"))
		return strings.Contains(string(text), "Version "+n)
	}
	install := []string{"skills", "install", source, "--yes"}
	version(source, "one")
	for _, args := range [][]string{{"init", "--yes"}, install} {
		if out, err := run(args...); err != nil {
			t.Fatal(out, err)
		}
	}
	version(source, "two")
	for _, point := range []string{"skill.looked", "skill.exchanged"} {
		if err := os.WriteFile(filepath.Join(stalls, point), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place := filepath.Join(home, "workspace", "skills", "knots")
	killed := exec.Command(realProgram(t), append([]string{"--home", home}, install...)...)
	killed.Env = append(os.Environ(), "COREBOT_FAULT=stall:"+stalls)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = killed.Process.Kill()
				t.Fatal("there is never ", what)
			}
		}
	}
	await("a last look", func() bool { return len(filesNamed(t, home, "looked-at")) == 1 })
	version(place, "mine")
	if err := os.Remove(filepath.Join(stalls, "skill.looked")); err != nil {
		t.Fatal(err)
	}
	await("an exchange", func() bool { return has(place, "two") })
	_ = killed.Process.Kill()
	_ = killed.Wait()

	kept := filepath.Join(filepath.Dir(filesNamed(t, home, "looked-at")[0]), "knots")
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Dir(kept), old, old); err != nil {
		t.Fatal(err)
	}
	version(source, "three")
	if out, err := run(install...); err == nil || !strings.Contains(out, kept) {
		t.Errorf("the next install says %s: %v", out, err)
	}
	if !has(kept, "mine") || !has(place, "two") {
		t.Errorf("what was changed is kept: %v, and the new one is there: %v", has(kept, "mine"), has(place, "two"))
	}
	if err := os.RemoveAll(filepath.Dir(kept)); err != nil {
		t.Fatal(err)
	}
	if out, err := run(install...); err != nil {
		t.Error("the change is put away, and the next install says", out, err)
	}
}

// filesNamed are the files of a directory and below it that have a name.
func filesNamed(t *testing.T, dir, name string) (found []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.Name() == name {
			found = append(found, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// The directory with the skills of one chat lies among the skills of the agent, and is none of them.
func TestTheSkillsOfAChatAreNoSkillToRemove(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	own := filepath.Join(home, "workspace", "skills", "@0123456789abcdef")
	if out, err := exec.Command(realProgram(t), "--home", home, "init", "--yes").CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	if err := os.MkdirAll(filepath.Join(own, "knots"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(realProgram(t), "--home", home, "skills", "remove", filepath.Base(own),
		"--yes").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is no name of a skill") {
		t.Errorf("it says %q: %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(own, "knots")); err != nil {
		t.Error("the skills of the chat are gone:", err)
	}
}
