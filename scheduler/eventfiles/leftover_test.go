package eventfiles_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// inside names the directory of a test that runs once more, as a user whom rights bind.
const inside = "EVENTFILES_TEST_INSIDE"

// bound runs the test once more as a user whom rights bind, and says whether this is that run.
func bound(t *testing.T) bool {
	if os.Getenv(inside) != "" {
		return true
	}
	top, err := os.MkdirTemp("/tmp", "eventfiles")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+top, "TMPDIR="+top)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		must(t, os.Chown(top, 54321, 54321))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestATakenFileThatCannotBeDeletedHoldsUpOnlyItself has a directory that has become read-only.
func TestATakenFileThatCannotBeDeletedHoldsUpOnlyItself(t *testing.T) {
	if !bound(t) {
		return
	}
	r := newRig(t)
	var log strings.Builder
	r.options.Log = zerolog.New(&log)
	metrics := prometheus.NewRegistry()
	r.options.Metrics = metrics
	counts := &countingStore{Tasks: r.Tasks}
	r.begin(counts)
	const text = `{"type":"immediate","chat":"webhook:ops","text":"a"}`
	first := r.write("1.json", text)
	r.write("2.json", text)
	t.Cleanup(func() { _ = os.Chmod(r.dir, 0o700) })
	must(t, os.Chmod(r.dir, 0o500))
	for range 3 {
		r.files.Look(t.Context())
	}
	r.requireLeft("1.json", "2.json")
	must(t, os.Chmod(first, 0o400)) // of the rights alone it becomes no other event
	r.files.Look(t.Context())
	if n := len(r.tasks()); n != 2 || counts.n != 2 {
		t.Errorf("there are %d tasks after %d tries, want one of each file", n, counts.n)
	}
	const want = `
# HELP corebot_event_files_total Event files by what became of them: taken, removed, rejected.
# TYPE corebot_event_files_total counter
corebot_event_files_total{outcome="rejected"} 0
corebot_event_files_total{outcome="removed"} 0
corebot_event_files_total{outcome="taken"} 2
`
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "cannot be deleted") ||
		!strings.Contains(log.String(), "1.json") {
		t.Errorf("the log says %s", &log)
	}

	must(t, os.Chmod(r.dir, 0o700))
	r.files.Look(t.Context())
	r.requireLeft()
	r.write("1.json", text) // a new file of the name is another event
	r.files.Look(t.Context())
	r.requireLeft()
	if n := len(r.tasks()); n != 3 {
		t.Errorf("there are %d tasks, want 3", n)
	}
	if !strings.Contains(log.String(), "deleted again") {
		t.Errorf("the log says %s", &log)
	}
}

// TestALeftFileThatIsWrittenAnewIsTakenAgain writes into the file where it stands.
func TestALeftFileThatIsWrittenAnewIsTakenAgain(t *testing.T) {
	if !bound(t) {
		return
	}
	r := newRig(t)
	r.write("1.json", `{"type":"immediate","chat":"webhook:ops","text":"one"}`)
	t.Cleanup(func() { _ = os.Chmod(r.dir, 0o700) })
	must(t, os.Chmod(r.dir, 0o500))
	r.files.Look(t.Context())
	r.write("1.json", `{"type":"immediate","chat":"webhook:ops","text":"the second"}`)
	r.files.Look(t.Context())
	r.files.Look(t.Context())
	if all := r.tasks(); len(all) != 2 {
		t.Errorf("the tasks are %v, want two", all)
	}
	must(t, errors.Join(os.Chmod(r.dir, 0o700), os.Remove(filepath.Join(r.dir, "1.json"))))
}
