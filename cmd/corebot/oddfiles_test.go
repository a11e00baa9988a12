package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// oddFiles puts into a directory files that no tool may follow, wait for or swallow, and gives their paths below the
// workspace. It leaves out files that only root can make.
func oddFiles(t *testing.T, home string) (paths []string) {
	t.Helper()
	dir := filepath.Join(home, "workspace", "odd")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string {
		paths = append(paths, "odd/"+name)
		return filepath.Join(dir, name)
	}
	key := filepath.Join(home, "secrets/key")
	must(os.MkdirAll(dir, 0o700))
	must(os.Symlink(key, at("link")))
	must(os.Symlink("../../secrets", at("way")))
	must(os.Symlink("circle", at("circle")))
	must(os.Link(key, at("same")))
	must(syscall.Mkfifo(at("fifo"), 0o600))
	short, err := os.MkdirTemp("", "s") // the name of a socket is short
	must(err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, "s")})
	must(err)
	t.Cleanup(func() { _ = socket.Close() })
	must(os.Rename(filepath.Join(short, "s"), filepath.Join(dir, "socket")))
	paths = append(paths, "odd/socket")
	if syscall.Mknod(filepath.Join(dir, "zero"), syscall.S_IFCHR|0o600, 1<<8|5) == nil {
		paths = append(paths, "odd/zero")
	}
	giant, err := os.Create(at("giant"))
	must(err)
	must(giant.Truncate(1 << 40))
	must(giant.Close())
	must(os.Mkdir(at("many"), 0o700))
	for i := range 2_000 {
		must(os.WriteFile(filepath.Join(dir, "many", fmt.Sprint("f", i)), nil, 0o600))
	}
	return append(paths, "odd/way/key", "odd/fifo/x", "odd/../../secrets/key", key, "/dev/zero", "/proc/self/environ")
}

func TestAnObedientModelGetsNothingOutOfOddFiles(t *testing.T) {
	long.Only(t, "TestBadInputThroughEveryDoor")
	t.Parallel()
	f := openFort(t, nil)
	var calls []llmtest.Call
	for _, path := range oddFiles(t, f.home) {
		quoted, err := json.Marshal(path)
		if err != nil {
			t.Fatal(err)
		}
		for tool, rest := range map[string]string{
			"fs_read": ``, "fs_list": ``, "fs_write": `,"content":"x"`, "fs_edit": `,"old":"S","new":"x"`,
		} {
			if tool == "fs_write" && path == "odd/giant" {
				continue // that is allowed, and would leave no giant to the others
			}
			calls = append(calls, llmtest.Call{
				ID: fmt.Sprint("c", len(calls)), Name: tool,
				Args: `{"path":` + string(quoted) + rest + `}`,
			})
		}
	}
	if shown := f.makeCalls(calls); shown != len(calls) {
		t.Errorf("%d of %d calls had a result", shown, len(calls))
	}
	ended := 0
	for line := range strings.Lines(f.output("audit", "--json", "--limit", "1000")) {
		var row struct {
			Event, Outcome string
			Args           json.RawMessage
			DurationMs     int64
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if row.Event != "tool.result" {
			continue
		}
		ended++
		many := strings.Contains(string(row.Args), "odd/many") || strings.Contains(string(row.Args), `"odd/giant"`)
		if row.DurationMs > 2_000 || row.Outcome == "success" && !many {
			t.Errorf("%s took %d ms and ended with %s", row.Args, row.DurationMs, row.Outcome)
		}
	}
	if ended != len(calls) {
		t.Errorf("%d of %d calls are in the audit", ended, len(calls))
	}
	f.requireUnharmed()
}
