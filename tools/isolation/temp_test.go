//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/corebot/corebot"
)

// sweepable makes a place for temporary directories of this test alone.
func sweepable(t *testing.T) (dir string, r *Runner) {
	t.Helper()
	r = newRunner(t, Bare, Options{})
	dir = t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir, r
}

func TestWhatAKilledCorebotHasLeftIsSweptAndNothingElse(t *testing.T) {
	dir, r := sweepable(t)
	live, err := r.makeTemp()
	must(t, err)
	defer live.remove()
	holder := exec.Command(os.Args[0], "attempt", "hold") // another Corebot, with a worker of its own
	out, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	line := make([]byte, 4096)
	n, err := out.Read(line)
	must(t, err)
	others := strings.TrimSpace(string(line[:n]))
	left := filepath.Join(dir, tempPrefix+"left")
	must(t, os.MkdirAll(filepath.Join(left, "below"), 0o700))
	must(t, os.Symlink("/etc", filepath.Join(left, "link")))
	must(t, os.Symlink(t.TempDir(), filepath.Join(dir, tempPrefix+"link")))
	must(t, os.Mkdir(filepath.Join(dir, "something-else"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, tempPrefix+"file"), nil, 0o600))

	if removed, err := r.Sweep(); err != nil || removed != 1 {
		t.Errorf("%d removed, %v", removed, err)
	}
	for path, want := range map[string]bool{
		left: false, live.path: true, others: true,
		filepath.Join(dir, "something-else"): true, filepath.Join(dir, tempPrefix+"link"): true,
		filepath.Join(dir, tempPrefix+"file"): true, "/etc/passwd": true,
	} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	must(t, holder.Process.Kill())
	_ = holder.Wait() // it was killed
	if removed, err := r.Sweep(); err != nil || removed != 1 {
		t.Errorf("after a kill: %d removed, %v", removed, err)
	}
	if _, err := os.Lstat(others); err == nil {
		t.Errorf("%s is left", others)
	}
}

func TestWithoutAPlaceForTemporaryDirectoriesTheHintNamesTheVariable(t *testing.T) {
	dir, r := sweepable(t)
	t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
	if _, err := r.makeTemp(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(corebot.HintOf(err), "TMPDIR") {
		t.Errorf("got %v, hint %q", err, corebot.HintOf(err))
	}
}

func TestAWorkerGetsADirectoryThoughAnotherCorebotSweepsAllTheTime(t *testing.T) {
	_, r := sweepable(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = r.Sweep() // what vanishes meanwhile is another's
				}
			}
		})
	}
	for range 300 {
		temp, err := r.makeTemp()
		must(t, err)
		if !temp.exists() {
			t.Error("a directory in use was swept")
		}
		temp.remove()
	}
	close(stop)
	wg.Wait()
}
