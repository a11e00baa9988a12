package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/demo"
	"github.com/corebot/corebot/internal/long"
)

// demoCommand prepares a run of the demo. All that it leaves behind is in the directory.
func demoCommand(t *testing.T, args ...string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd = exec.CommandContext(t.Context(), realProgram(t), append([]string{"demo"}, args...)...)
	// a setting of the caller must not reach the demo's Corebot: it would not start
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "COREBOT_HOME="+filepath.Join(dir, "other"),
		"COREBOT_WEBHOOK_TOKEN=short")
	cmd.WaitDelay = patience
	return cmd, dir
}

func leftIn(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestTheDemoKeepsEveryPromiseAndLeavesNothing(t *testing.T) {
	long.Only(t, "TestAnInterruptedDemoEndsItsChildAndLeavesNothing")
	t.Parallel()
	cmd, dir := demoCommand(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{
		"ok      24  messages with exactly one reply, in the order of their chat",
		"ok       3  kills that hit the middle of the turn",
		"ok       0  lines written twice",
		"ok       1  reply after the replay",
		"counts are as promised, after 6 kills",
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("it does not print %q:\n%s", line, out)
		}
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

func TestTheDemoPrintsJSONAndKeepsItsHomeOnRequest(t *testing.T) {
	long.Only(t, "TestAnInterruptedDemoEndsItsChildAndLeavesNothing")
	t.Parallel()
	cmd, dir := demoCommand(t, "--json", "--keep")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	scenes := make([]demo.Scene, len(lines)-1)
	for i := range scenes {
		if err := json.Unmarshal(lines[i], &scenes[i]); err != nil || len(scenes[i].Counts) == 0 ||
			scenes[i].Wrong() > 0 {
			t.Errorf("a scene is %s (%v)", lines[i], err)
		}
	}
	var report demo.Report
	if err := json.Unmarshal(lines[len(lines)-1], &report); err != nil || len(scenes) != 4 || report.Counts < 10 {
		t.Errorf("%d scenes, and the sum is %+v (%v)", len(scenes), report, err)
	}
	left := leftIn(t, dir)
	if len(left) != 1 {
		t.Fatalf("it leaves %v, want its directory", left)
	}
	why := exec.CommandContext(t.Context(), realProgram(t), "--home", demo.Home(filepath.Join(dir, left[0].Name())),
		"why", "notes-1")
	if out, err := why.CombinedOutput(); err != nil || !strings.Contains(string(out), "ended: answered") {
		t.Errorf("the home that is kept says: %v\n%s", err, out)
	}
}

func TestAnInterruptedDemoEndsItsChildAndLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd, dir := demoCommand(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if found, _ := filepath.Glob(filepath.Join(dir, "corebot-demo-*", "serve.log")); len(found) > 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the demo starts no child")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("it ends with %v", err)
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

// TestTheDemoNoticesACorebotThatBreaksAPromise shows a Corebot whose start does something that no Corebot should.
func TestTheDemoNoticesACorebotThatBreaksAPromise(t *testing.T) {
	long.Only(t, "TestAnInterruptedDemoEndsItsChildAndLeavesNothing")
	t.Parallel()
	for name, c := range map[string]struct{ start, wrong string }{
		"writes a line twice": {
			`for f in "$COREBOT_HOME"/workspace/chats/*/MEMORY.md; do
			[ -f "$f" ] && sed '1,/line 1-01;/!d' "$f" >>"$f.more" && cat "$f.more" >>"$f"; done`,
			"lines written twice",
		},
		"loses lines": {
			`for f in "$COREBOT_HOME"/workspace/chats/*/MEMORY.md; do
			[ -f "$f" ] && sed -i '/line 1-01;/d' "$f"; done`,
			"lines of finished calls that are missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := map[string]bool{}
			_, err := demo.Run(t.Context(), demo.Options{
				Binary: spoiled(t, c.start), Dir: t.TempDir(),
				Tell: func(s demo.Scene) error {
					for _, n := range s.Counts {
						if n.Got != n.Want {
							wrong[n.What] = true
						}
					}
					return nil
				},
			})
			if err != nil || !wrong[c.wrong] {
				t.Errorf("the wrong counts are %v, want %s (%v)", wrong, c.wrong, err)
			}
		})
	}
}

func TestTheDemoSaysWhyItsChildEnded(t *testing.T) {
	t.Parallel()
	_, err := demo.Run(t.Context(), demo.Options{
		Binary: spoiled(t, "echo the disk is on fire >&2; exit 3"), Dir: t.TempDir(),
		Tell: func(demo.Scene) error { return nil },
	})
	if err == nil || !strings.Contains(err.Error(), "ended by itself: exit status 3\nthe disk is on fire") {
		t.Errorf("the error is: %v", err)
	}
}

// spoiled is a Corebot that runs some lines of shell before it serves.
func spoiled(t *testing.T, start string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "corebot")
	script := "#!/bin/sh\nif [ \"$1\" = serve ]; then\n" + start + "\nfi\nexec '" + realProgram(t) + "' \"$@\"\n"
	syscall.ForkLock.RLock() // a fork of another test would hold the file open for writing
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
