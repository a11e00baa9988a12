//go:build linux && (amd64 || arm64)

package isolation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

// TestMain makes four programs of the test binary. They are the tests, a worker, a tool that does a job in a worker,
// and an attempt to get out of a worker.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == WorkerCommand:
		os.Exit(Work())
	case len(os.Args) > 1 && os.Args[1] == ToolCommand:
		os.Exit(Serve(doJob))
	case len(os.Args) > 1 && os.Args[1] == "attempt":
		os.Exit(attempt(os.Args[2], os.Args[3:]))
	}
	if long.RaceDetector {
		if err := flag.Set("test.run", raceTests); err != nil {
			panic(err)
		}
	}
	remove, err := moveToOpenDirectory()
	if err != nil {
		panic(err)
	}
	code := m.Run()
	remove()
	os.Exit(code)
}

// movedBy is the variable with the id of the process that moved.
const movedBy = "ISOLATION_TESTS_MOVED_BY"

// moveToOpenDirectory goes on as a copy of this program in a new directory that everybody may enter. Tests of root
// start workers as another user, who cannot enter where go test puts its programs. remove deletes the directory.
func moveToOpenDirectory() (remove func(), err error) {
	nothing := func() {}
	if os.Geteuid() != 0 {
		return nothing, nil
	}
	path, err := os.Executable()
	if err != nil {
		return nothing, err
	}
	switch os.Getenv(movedBy) {
	case strconv.Itoa(os.Getpid()):
		return func() { _ = os.RemoveAll(filepath.Dir(path)) }, nil
	case "":
	default: // a test has started its own program, which is in the open directory already
		return nothing, nil
	}
	dir, err := os.MkdirTemp("", "corebot-tests-")
	if err != nil {
		return nothing, err
	}
	moved := filepath.Join(dir, filepath.Base(path))
	err = errors.Join(os.Chmod(dir, 0o755), copyFile(path, moved), os.Chmod(moved, 0o755),
		os.Setenv(movedBy, strconv.Itoa(os.Getpid())))
	if err == nil {
		err = syscall.Exec(moved, append([]string{moved}, os.Args[1:]...), os.Environ())
	}
	return nothing, errors.Join(err, os.RemoveAll(dir))
}

// raceTests are what runs under the race detector where -run does not say otherwise: what several goroutines of Corebot
// share. The other tests are about what a worker process can do. The walls stand between processes, which share no
// memory.
const raceTests = "^(TestAJob|TestABreaker|TestFurtherCalls|TestTheEndOfTheCallersContext|TestWhatAProgramSays|" +
	"TestWorkersThatKeepFailing|TestAWorkerGetsADirectory|TestTheCollector|FuzzNothingThatAWorker)"

var (
	chat  = corebot.Key{Agent: "main", Channel: "cli", Chat: "main"}
	modes = []Mode{Room, Bare}
)

// self is the program that tests list: it executes itself as an attempt.
func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// openDirectories gives a directory of a test, and those above it that are the test's own, other rights.
func openDirectories(t testing.TB, dir string, mode os.FileMode) {
	t.Helper()
	own, err := filepath.EvalSymlinks(filepath.Dir(t.TempDir()))
	must(t, err)
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	if !within(dir, own) {
		t.Fatalf("%s is no directory of this test", dir)
	}
	for ; within(dir, own); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, mode))
	}
}

// newRunner makes a runner that builds its walls in one way.
func newRunner(t testing.TB, mode Mode, o Options) *Runner {
	t.Helper()
	workspace := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	o.mode = mode
	r, err := New(workspace, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// inEachMode runs a test behind walls of every kind.
func inEachMode(t *testing.T, o Options, test func(*testing.T, *Runner)) {
	t.Helper()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			r := newRunner(t, mode, o)
			if w, err := r.Inspect(t.Context()); err != nil || w.Mode != mode {
				t.Fatalf("got %+v, %v", w, err)
			}
			test(t, r)
		})
	}
}

func run(t *testing.T, r *Runner, timeout time.Duration, argv ...string) Ended {
	t.Helper()
	end, err := r.Run(t.Context(), Command{Key: chat, Argv: argv, Timeout: timeout})
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return end
}

// eventually waits for what other processes are about to do, also on a machine that is busy with others.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for !is() {
		if ctx.Err() != nil {
			t.Fatalf("waited for %s", what)
		}
		time.Sleep(10 * time.Millisecond) // most conditions read what all processes of the machine are
	}
}

// marked finds running processes that have a mark among their arguments.
func marked(mark string) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		text, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil &&
			strings.Contains(string(text), "\x00"+mark+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// newMark makes a mark. Every process that bears the mark at the end of the test is ended, so that a wall that does not
// hold leaves nothing behind.
func newMark(t *testing.T) string {
	mark := fmt.Sprintf("mark-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		for left := marked(mark); len(left) > 0; left = marked(mark) {
			for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
				for _, pid := range left {
					_ = syscall.Kill(pid, signal)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return mark
}
