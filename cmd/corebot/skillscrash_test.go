package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/long"
)

// TestKilledDuringAnInstallASkillIsTheOldOneOrTheNewOne kills `corebot skills install` at each step of a first install
// and of an upgrade. The skill is whole then: as it was, or as it is to be. The same command ends the work.
func TestKilledDuringAnInstallASkillIsTheOldOneOrTheNewOne(t *testing.T) {
	for _, point := range long.Every(2, []string{
		"skill.file#1", "skill.before", "skill.file#2", "skill.after", "skill.file#3",
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
		if done := strings.HasPrefix(point, "skill.after"); done != (was == n+n) {
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
