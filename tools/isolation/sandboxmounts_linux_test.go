//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot/internal/needs"
)

// TestPartsOfADirectoryAreHiddenOrKept: no program reads, changes, moves or replaces them, in a directory that it can
// write.
func TestPartsOfADirectoryAreHiddenOrKept(t *testing.T) {
	r := newSandbox(t, Options{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	for _, file := range []string{".env", "sub/.env", ".ssh/id", ".git/config", ".git/hooks/pre-commit", "main.go"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o777))
		must(t, os.WriteFile(filepath.Join(dir, file), []byte("secret"), 0o666))
	}
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(path, 0o777))
	}))
	mount := Mount{
		Path: "/project", From: dir, Write: true, Hide: []string{".env", "sub/.env", ".ssh", ".git/config"},
		Keep: []string{".git"},
	}
	for line, works := range map[string]bool{
		"test -z \"$(cat .env sub/.env .git/config)\" && test -z \"$(ls -A .ssh)\"": true,
		"cat .git/hooks/pre-commit main.go":                                         true,
		"echo x >main.go && mv main.go m && mv m main.go && mv sub s && mv s sub":   true,
		"echo x >.env":                        false,
		"rm -f .env":                          false,
		"mv .env e":                           false,
		"ln .env e":                           false,
		"chmod 700 .env && echo x >.env":      false,
		"mv sub s; test -n \"$(cat s/.env)\"": false,
		"echo x >.ssh/x":                      false,
		"echo x >.git/hooks/pre-commit":       false,
		"echo x >.git/hooks/post-commit":      false,
		"mv .git g && mkdir .git":             false,
		"rm -rf .git":                         false,
		"mv .git/hooks .git/h":                false,
	} {
		end := sandbox(t, r, Sandboxed{Mounts: []Mount{mount}, Dir: "/project"}, line)
		if (end.Exit == 0) != works {
			t.Errorf("%s: %+v", line, end)
		}
		_ = os.Rename(filepath.Join(dir, "s"), filepath.Join(dir, "sub"))
	}
	for _, file := range []string{".env", "sub/.env", ".ssh/id", ".git/config", ".git/hooks/pre-commit"} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(text) != "secret" {
			t.Errorf("%s is %q, %v", file, text, err)
		}
	}
	// A file that is hidden must be the file that was found: not behind a link that has come since, and not gone.
	must(t, errors.Join(os.Remove(filepath.Join(dir, ".env")), os.Symlink("main.go", filepath.Join(dir, ".env"))))
	for _, hide := range []string{".env", "gone"} {
		mount.Hide = []string{hide}
		_, err := r.RunSandboxed(t.Context(), Sandboxed{
			Key: chat, Argv: []string{"true"}, Timeout: 20 * time.Second, Mounts: []Mount{mount},
		})
		if !errors.Is(err, ErrWorker) {
			t.Errorf("%s: %v", hide, err)
		}
	}
}

// optionsIn are how the mounts of a sandbox are mounted, by their place.
func optionsIn(t *testing.T, r *Runner, mounts []Mount) map[string][]string {
	t.Helper()
	options := map[string][]string{}
	for line := range strings.Lines(sandbox(t, r, Sandboxed{Mounts: mounts}, "cat /proc/self/mountinfo").Output) {
		fields := strings.Fields(line) // id, parent, device, root, place, options
		if _, twice := options[fields[4]]; twice {
			t.Errorf("something lies over %s: %s", fields[4], line)
		}
		options[fields[4]] = strings.Split(fields[5], ",")
	}
	return options
}

// TestNoMountOfASandboxTakesSetUIDOrDevices: Landlock and the program's user hold without these bits, too. So a test
// that tries to get out would not miss them.
func TestNoMountOfASandboxTakesSetUIDOrDevices(t *testing.T) {
	r := newSandbox(t, Options{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	for _, name := range []string{"read/below", "write/.git", "write/.ssh"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, "write", ".env"), nil, 0o644))
	mounts := []Mount{
		{Path: "/ours/read", From: filepath.Join(dir, "read")},
		{
			Path: "/ours/write", From: filepath.Join(dir, "write"), Write: true,
			Hide: []string{".env", ".ssh"}, Keep: []string{".git"},
		},
	}
	has := optionsIn(t, r, mounts)
	for place, want := range map[string][]string{
		"/": {"nosuid", "nodev", "noexec"}, "/proc": {"nosuid", "nodev", "noexec"},
		"/work": {"nosuid", "nodev"}, "/sandbox": {"nosuid", "nodev"}, "/tmp": {"nosuid", "nodev"},
		"/ours/read": {"ro", "nosuid", "nodev"}, "/ours/write": {"nosuid", "nodev"},
		"/ours/write/.env": {"ro", "nosuid", "nodev"}, "/ours/write/.ssh": {"ro", "nosuid", "nodev"},
		"/ours/write/.git": {"ro", "nosuid", "nodev"},
	} {
		for _, option := range want {
			if !slices.Contains(has[place], option) {
				t.Errorf("%s is mounted %s, without %s", place, has[place], option)
			}
		}
	}
	if os.Geteuid() != 0 {
		return // nobody else can mount a disk in there
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with its mounts
		below := filepath.Join(dir, "read", "below")
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("disk", below, "tmpfs", 0, "")); err != nil {
			t.Error(err)
			return
		}
		has := optionsIn(t, r, mounts)["/ours/read/below"]
		for _, option := range []string{"ro", "nosuid", "nodev"} {
			if !slices.Contains(has, option) {
				t.Errorf("a disk in a directory is mounted %s, without %s", has, option)
			}
		}
	}()
	<-done
}

// TestAMountIsNoLink: the directory was found before, and what has come into its place since is not followed.
func TestAMountIsNoLink(t *testing.T) {
	r := newSandbox(t, Options{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Symlink(t.TempDir(), filepath.Join(dir, "link")))
	_, err = r.RunSandboxed(t.Context(), Sandboxed{
		Key: chat, Argv: []string{"true"}, Timeout: 20 * time.Second,
		Mounts: []Mount{{Path: "/ours", From: filepath.Join(dir, "link")}},
	})
	if !errors.Is(err, ErrWorker) {
		t.Error(err)
	}
}

// TestARoomIsTheSameWhateverTheUmask: what a sandbox has empty, or has of its own, is there for the program's user.
func TestARoomIsTheSameWhateverTheUmask(t *testing.T) {
	r := newSandbox(t, Options{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)))
	must(t, os.Mkdir(filepath.Join(dir, ".ssh"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("secret"), 0o644))
	defer unix.Umask(unix.Umask(0o077))
	end := sandbox(t, r, Sandboxed{
		Mounts: []Mount{{Path: "/ours", From: dir, Hide: []string{".env", ".ssh"}}},
	}, "cd /ours && ls -A .ssh && cat .env && grep -c localhost /etc/hosts")
	if end.Output != "2\n" || end.Exit != 0 {
		t.Errorf("%+v", end)
	}
}

// TestASandboxTakesAPlaceAmongTheWorkersUnlessItIsInTheBackground, where there is one place.
func TestASandboxTakesAPlaceAmongTheWorkersUnlessItIsInTheBackground(t *testing.T) {
	r := newSandbox(t, Options{MaxWorkers: 1})
	program := func(background bool, timeout time.Duration, line string) (Ended, error) {
		return r.RunSandboxed(t.Context(), Sandboxed{
			Key: chat, Argv: []string{"sh", "-c", line}, Timeout: timeout, Background: background,
		})
	}
	first := make(chan error)
	go func() {
		_, err := program(false, time.Minute, "echo >begun; while test ! -e over; do sleep 0.01; done")
		first <- err
	}()
	files := filepath.Join(r.path, Directory(chat))
	eventually(t, "the first program", func() bool {
		_, err := os.Stat(filepath.Join(files, "begun"))
		return err == nil
	})
	if end, err := program(true, time.Minute, "true"); err != nil || end.Exit != 0 {
		t.Errorf("in the background: %+v, %v", end, err)
	}
	if end, err := program(false, time.Second, "echo >both"); err == nil && !end.TimedOut {
		t.Errorf("two programs are in one place: %+v", end)
	}
	if _, err := os.Stat(filepath.Join(files, "both")); err == nil {
		t.Error("the second has run")
	}
	must(t, os.WriteFile(filepath.Join(files, "over"), nil, 0o644))
	must(t, <-first)
}

// TestProgramsDoInADirectoryWhatItsOwnerMay, where Corebot is root: and nowhere else, nor as root.
func TestProgramsDoInADirectoryWhatItsOwnerMay(t *testing.T) {
	needs.Root(t)
	r := newSandbox(t, Options{})
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	if err := CanOwn(base, r.uid); err != nil {
		needs.Missing(t, "idmapped", err)
	}
	for owner, dir := range map[int]string{0: "root", 4321: "ann"} {
		dir = filepath.Join(base, dir)
		must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("secret"), 0o600))
		must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Chown(path, owner, owner))
		}))
		mounts := []Mount{{Path: "/ours", From: dir, Write: true, Owned: true, Hide: []string{".env"}}}
		for line, works := range map[string]bool{
			"cat f && echo new >sub/g && mkdir sub/d && mv sub/g sub/h && chmod 640 sub/h": true,
			"test $(stat -c %u f) = 65534 && test $(id -u) = 65534":                        true,
			"test -z \"$(cat .env)\"": true,
			"chown 0 f":               false,
		} {
			end := sandbox(t, r, Sandboxed{Mounts: mounts, Dir: "/ours"}, line)
			if (end.Exit == 0) != works {
				t.Errorf("as %d %s: %+v", owner, line, end)
			}
		}
		info, err := os.Stat(filepath.Join(dir, "sub", "h"))
		must(t, err)
		if stat := info.Sys().(*syscall.Stat_t); int(stat.Uid) != owner || int(stat.Gid) != owner {
			t.Errorf("a new file is %d's, and the directory %d's", stat.Uid, owner)
		}
		mounts[0].Write = false
		end := sandbox(t, r, Sandboxed{Mounts: mounts, Dir: "/ours"}, "cat f && ! touch x && ! chmod 644 f")
		if end.Exit != 0 {
			t.Errorf("to read: %+v", end)
		}
		mounts[0].Owned = false
		if end := sandbox(t, r, Sandboxed{Mounts: mounts}, "cat /ours/f"); end.Exit == 0 {
			t.Errorf("as who they are elsewhere: %+v", end)
		}
	}
}
