package owned

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/needs"
)

// inside is the variable by which a test knows that it runs in namespaces of its own. It has the directory to look at.
const inside = "OWNED_TEST_INSIDE"

// reenter runs the same test once more, in a user namespace with these users, and in others.
func reenter(t *testing.T, dir string, flags uintptr, users ...syscall.SysProcIDMap) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | flags, UidMappings: users,
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		needs.Missing(t, "users", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAUserNamespaceThatDoesNotKnowTheOwnerIsNamed: "unshare -r" as a user, where even / belongs to nobody.
func TestAUserNamespaceThatDoesNotKnowTheOwnerIsNamed(t *testing.T) {
	dir := os.Getenv(inside)
	if dir == "" {
		top, _ := place(t)
		if os.Getuid() == 0 {
			must(t, os.Chown(filepath.Join(top, "a"), 54321, 54321))
		}
		reenter(t, top, 0, syscall.SysProcIDMap{ContainerID: 0, HostID: os.Geteuid(), Size: 1})
		return
	}
	err := Check(filepath.Join(dir, "a", "b", "file"))
	hint := corebot.HintOf(err)
	if !errors.Is(err, ErrNotOurs) || !strings.Contains(err.Error(),
		"belongs to a user whom the user namespace of Corebot (root (0)) does not know") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(hint, "outside of that namespace") || strings.Contains(hint, "sudo") ||
		strings.Contains(hint, "move ") {
		t.Errorf("the hint is %q", hint)
	}
}

// TestAMountBelowAPrivateDirectoryIsNotShutIn: what is mounted there has another way to it.
func TestAMountBelowAPrivateDirectoryIsNotShutIn(t *testing.T) {
	dir := os.Getenv(inside)
	if dir == "" {
		needs.Root(t) // or the way to the file belongs to users whom the namespace does not know
		top, _ := place(t)
		must(t, errors.Join(os.Mkdir(filepath.Join(top, "home"), 0o700),
			os.Mkdir(filepath.Join(top, "home", "a"), 0o700)))
		reenter(t, top, syscall.CLONE_NEWNS, syscall.SysProcIDMap{ContainerID: 0, HostID: 0, Size: 1})
		return
	}
	home, file := filepath.Join(dir, "home"), filepath.Join(dir, "home", "a", "b", "file")
	must(t, syscall.Mount(filepath.Join(dir, "a"), filepath.Join(home, "a"), "", syscall.MS_BIND, ""))
	requireJudged(t, file, "", "")
	must(t, os.Chmod(file, 0o664))
	requireJudged(t, file, "chmod g-w ", file)
	must(t, errors.Join(os.WriteFile(filepath.Join(home, "settings"), nil, 0o600),
		os.Chmod(filepath.Join(home, "settings"), 0o664)))
	requireJudged(t, filepath.Join(home, "settings"), "", "")
	// a single file can be mounted too
	must(t, syscall.Mount(file, filepath.Join(home, "settings"), "", syscall.MS_BIND, ""))
	requireJudged(t, filepath.Join(home, "settings"), "chmod g-w ", filepath.Join(home, "settings"))
	must(t, os.Chmod(filepath.Join(home, "a"), 0o700)) // the root of the mount
	requireJudged(t, file, "", "")
}
