package corebot_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyALateTestGetsASecondChance runs scripts/steady on a command that prints what `go test` would.
func TestOnlyALateTestGetsASecondChance(t *testing.T) {
	failed := func(pkg string, tests ...string) (out string) {
		for _, test := range tests {
			out += "--- FAIL: " + test + " (0.10s)\n    some_test.go:1: late\n"
		}
		return out + "FAIL\nFAIL\tcorebot/" + pkg + "\t0.2s\n"
	}
	one := "ok  \tcorebot/a\t0.1s\n" + failed("b", "TestLate")
	for name, c := range map[string]struct {
		first, alone string // what the command prints: with all packages, and with one test; empty: it passes
		runs         int
		ok           bool
	}{
		"all pass":        {runs: 1, ok: true},
		"one is late":     {first: one, runs: 2, ok: true},
		"one fails again": {first: one, alone: failed("b", "TestLate"), runs: 2},
		"five in two packages": {
			first: failed("a", "TestA", "TestB") + failed("b", "TestC", "TestD", "TestE"),
			runs:  6, ok: true,
		},
		"six":                    {first: failed("a", "A", "B", "C", "D", "E", "F"), runs: 1},
		"a data race":            {first: "WARNING: DATA RACE\n" + one, runs: 1},
		"a race without warning": {first: "    testing.go:1: race detected during execution of test\n" + one, runs: 1},
		"a panic":                {first: "panic: nil\n" + one, runs: 1},
		"a crash":                {first: "fatal error: all goroutines are asleep\n" + one, runs: 1},
		"no build":               {first: "FAIL\tcorebot/c [build failed]\n" + one, runs: 1},
		"a package by itself":    {first: "exit status 3\nFAIL\tcorebot/c\t0.1s\n" + one, runs: 1},
		"no package at all":      {first: "go: no such command\n", runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			notes := filepath.Join(dir, "notes")
			write := func(name, text string) string {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			command := write("tests", fmt.Sprintf(`echo "$@" >> %[1]s/runs
case "$*" in *./...) out=%[1]s/first ;; *) out=%[1]s/alone ;; esac
cat $out
[ ! -s $out ]
`, dir))
			write("first", c.first)
			write("alone", c.alone)
			cmd := exec.Command("scripts/steady", "sh", command) // a file that was just written can be busy
			cmd.Env = append(os.Environ(), "STEADY_NOTES="+notes)
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok {
				t.Errorf("it ended with %v:\n%s", err, out)
			}
			runs, err := os.ReadFile(filepath.Join(dir, "runs"))
			if n := strings.Count(string(runs), "\n"); n != c.runs {
				t.Errorf("%d runs, want %d, %v:\n%s\n%s", n, c.runs, err, runs, out)
			}
			flaky := strings.Contains(string(out), "\nFLAKY: corebot/b Test")
			noted, _ := os.ReadFile(notes)
			if want := c.ok && c.runs > 1; flaky != want || strings.Contains(string(noted), "FLAKY: ") != want {
				t.Errorf("it names flaky tests: %t, noted %q", flaky, noted)
			}
		})
	}
}
