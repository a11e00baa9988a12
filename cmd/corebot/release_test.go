package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	root := newRoot()
	root.SetArgs([]string{"man", dir})
	root.SetOut(&bytes.Buffer{})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	err := eachCommand(root, func(c *cobra.Command) error {
		if page := read(manName(c) + ".1"); !strings.Contains(page, roff(c.Short)) {
			t.Errorf("the page of %s is:\n%s", c.CommandPath(), page)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string]string{
		"corebot.1":            ".SH COMMANDS",
		"corebot-dlq-replay.1": ".B \\-\\-fresh\nstart over",
		"corebot-send.1":       ".SH GLOBAL OPTIONS\n.TP\n.B \\-\\-home string",
		"corebot-completion.1": ".BR corebot\\-completion\\-bash (1)",
	} {
		if page := read(name); !strings.Contains(page, part) {
			t.Errorf("%s does not have %q:\n%s", name, part, page)
		}
	}
	typeset(t, dir)
}

// typeset has groff look for mistakes in all pages, where there is a groff.
func typeset(t *testing.T, dir string) {
	t.Helper()
	groff, err := exec.LookPath("groff")
	if err != nil {
		return
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), groff, append([]string{"-man", "-ww", "-z", "-Tutf8", "-Kutf8"},
		pages...)...)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

func TestTextOfAManualPageMeansItself(t *testing.T) {
	got := roff("a \\n b\n.SH not a heading\n\n'quoted' --flag")
	if want := "a \\en b\n\\&.SH not a heading\n.PP\n\\&'quoted' \\-\\-flag"; got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}

func TestHelpShowsCompletion(t *testing.T) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"help"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), "\n  completion ") {
		t.Errorf("help says (%v):\n%s", err, out.String())
	}
}

func TestAShellCompletesTheAnswersOfInit(t *testing.T) {
	for flag, want := range map[string]string{
		"--provider": "openai\nanthropic\noffline\n:4\n", "--allow": "talk\nwork\nask\n:4\n",
	} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs([]string{"__complete", "init", flag, ""})
		if err := root.Execute(); err != nil || out.String() != want {
			t.Errorf("%s (%v):\n%s", flag, err, out.String())
		}
	}
}

// TestOnlyCommandsThatEndInAMomentLetGarbageLie: a daemon collects as its figures of memory say.
func TestOnlyCommandsThatEndInAMomentLetGarbageLie(t *testing.T) {
	root := newRoot()
	for path, want := range map[string]bool{
		"serve": true, "chat": true, "mcp serve": true, "bench turn": true, "demo": true,
		"send": false, "dlq list": false, "db backup": false,
	} {
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil || cmd.CommandPath() != "corebot "+path || stays(cmd) != want {
			t.Errorf("%s is %s, which stays: %v (%v)", path, cmd.CommandPath(), stays(cmd), err)
		}
	}
}
