package corebot_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ciTree is a directory with the real .ci/run, in which each program that it calls is a line of shell.
func ciTree(t *testing.T, goCommand string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		".ci/run": string(text), "README.md": "go test ./...\n",
		"bin/go": "#!/bin/sh\n" + goCommand, "bin/git": "#!/bin/sh\n", "bin/unshare": "#!/bin/sh\nexit 1\n",
		"scripts/steady": "#!/bin/sh\nexec \"$@\"\n", "scripts/race": "#!/bin/sh\ngo race \"$@\"\n",
		"scripts/smoke": "#!/bin/sh\n", "scripts/walk": "#!/bin/sh\n", "scripts/scrape": "#!/bin/sh\n",
		"scripts/console-axe": "#!/bin/sh\n",
		"scripts/networks":    "#!/bin/sh\n", "scripts/network-clients": "#!/bin/sh\n",
		"scripts/gamedays": "#!/bin/sh\n", "scripts/long": "#!/bin/sh\ngo long \"$@\"\n",
		// nothing is installed, and no server is started
		"bin/apt-get": "#!/bin/sh\nexit 1\n", "bin/promtool": "#!/bin/sh\n", "bin/tmux": "#!/bin/sh\n",
		"bin/prometheus": "#!/bin/sh\n",
		"bin/ip":         "#!/bin/sh\n",
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAFailureOfAStepOrOfACheckBesideItEndsTheRunAtOnce runs .ci/run with a `go` that prints, waits or fails.
func TestAFailureOfAStepOrOfACheckBesideItEndsTheRunAtOnce(t *testing.T) {
	const waits = "sleep 100;;\n"
	for name, c := range map[string]struct {
		does string // cases of a shell's "case", by the arguments of go
		ok   bool
		says string
	}{
		"all pass":             {ok: true, says: "== done"},
		"a check fails":        {"'mod tidy'*) echo untidy; exit 1;;\nvet*)" + waits, false, "untidy"},
		"a later check fails":  {"*staticcheck*) echo SA1; exit 1;;\ntest*)" + waits, false, "SA1"},
		"a step fails":         {"vet*) echo vetted; exit 1;;\n'mod verify'*)" + waits, false, "vetted"},
		"the formatter breaks": {"*gofumpt*) echo no formatter >&2; exit 2;;\n", false, "no formatter"},
		"a test fails":         {"test*) echo FAIL; exit 1;;\n*staticcheck*)" + waits, false, "FAIL"},
		"a suite fails":        {"'long'*) echo LONG; exit 1;;\n", false, "LONG"},
		"a race is found":      {"'race -vet'*) echo RACE; exit 1;;\n", false, "RACE"},
	} {
		// here nothing else runs that could hold a file open that was just written
		dir := ciTree(t, "case \"$*\" in\n"+c.does+"*gofumpt*) ;;\n*) echo went \"$*\";;\nesac\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", filepath.Join(dir, ".ci/run"))
			cmd.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"), "CI_TEMP=")
			cmd.WaitDelay = time.Minute // a process that is left has the output open
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok || ctx.Err() != nil || !strings.Contains(string(out), c.says) {
				t.Errorf("it ended with %v, and does not say %q:\n%s", err, c.says, out)
			}
		})
	}
}
