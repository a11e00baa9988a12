//go:build linux && (amd64 || arm64)

package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/needs"
)

func TestWhatAProgramSaysAndHowItEndsComesBack(t *testing.T) {
	inEachMode(t, Options{Allow: []string{"echo", self(t)}}, func(t *testing.T, r *Runner) {
		if end := run(t, r, 5*time.Second, "echo", "hi", "there"); end.Output != "hi there\n" || end.Exit != 0 ||
			end.Signal != "" || end.TimedOut || end.Dropped != 0 || end.Took <= 0 {
			t.Errorf("%+v", end)
		}
		// the race detector complains of a missing /proc
		if end := run(t, r, 5*time.Second, self(t), "attempt", "exit", "7"); end.Exit != 7 ||
			!strings.HasSuffix(end.Output, "out\nerr\n") {
			t.Errorf("%+v", end)
		}
	})
}

func TestASignalThatEndsAProgramIsNamed(t *testing.T) {
	r := newRunner(t, Bare, Options{Allow: []string{self(t)}}) // in a room the first process cannot kill itself
	if end := run(t, r, 5*time.Second, self(t), "attempt", "suicide"); end.Signal != "killed" || end.Exit != -1 ||
		end.TimedOut {
		t.Errorf("%+v", end)
	}
}

func TestAProgramWorksInItsConversationsDirectory(t *testing.T) {
	inEachMode(t, Options{Allow: []string{"cp", "cat", "mkdir", "rm", "ls", self(t)}}, func(t *testing.T, r *Runner) {
		dir := filepath.Join(r.path, Directory(chat))
		must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "sub", "a"), []byte("from a tool"), 0o600))
		run(t, r, 5*time.Second, "cp", "sub/a", "b")
		run(t, r, 5*time.Second, "mkdir", "made")
		if end := run(t, r, 5*time.Second, "cat", "b"); end.Output != "from a tool" {
			t.Errorf("%+v", end)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || string(text) != "from a tool" {
			t.Errorf("%q, %v", text, err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		end := run(t, r, 5*time.Second, self(t), "attempt", "peek")
		// the race detector complains of a missing /proc before
		lines := strings.Split(strings.TrimSpace(end.Output), "\n")
		where := strings.Fields(lines[len(lines)-1])
		if len(where) < 3 || where[0] != where[1] && r.uid == 0 || where[2] == "0" ||
			!strings.Contains(end.Output, "[b made sub]") {
			t.Errorf("%q", end.Output)
		}
		other := chat
		other.Chat = "other"
		if end, err := r.Run(t.Context(), Command{
			Key: other, Argv: []string{"ls"},
			Timeout: 5 * time.Second,
		}); err != nil || end.Output != "" {
			t.Errorf("another conversation sees %+v, %v", end, err)
		}
	})
}

func TestNoLinkLeadsTheHandOverOutOfTheDirectory(t *testing.T) {
	r := newRunner(t, Bare, Options{Allow: []string{"ls"}})
	dir := filepath.Join(r.path, Directory(chat))
	must(t, os.MkdirAll(dir, 0o700))
	secret := filepath.Join(r.path, "secret")
	must(t, os.WriteFile(secret, nil, 0o600))
	must(t, os.Symlink(secret, filepath.Join(dir, "link")))
	must(t, os.Symlink(r.path, filepath.Join(dir, "above")))
	must(t, os.Link(secret, filepath.Join(dir, "hard")))
	run(t, r, 5*time.Second, "ls")
	info, err := os.Stat(secret)
	must(t, err)
	if info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		t.Error("a file outside was given away")
	}
	for _, target := range []string{"/etc", "../../other"} {
		must(t, errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(r.path, "other"), 0o700),
			os.Symlink(target, dir)))
		if _, err := r.Run(t.Context(), Command{Key: chat, Argv: []string{"ls"}, Timeout: time.Second}); err == nil {
			t.Errorf("a link to %s was taken for the working directory", target)
		}
	}
	info, err = os.Stat(filepath.Join(r.path, "other"))
	must(t, err)
	if info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		t.Error("a directory outside was given away")
	}
}

func TestAFileThatGoesWhileTheDirectoryIsHandedOverIsNoFailure(t *testing.T) {
	r := newRunner(t, Bare, Options{Allow: []string{"ls"}})
	if r.uid == 0 {
		needs.Missing(t, "root", "programs run as Corebot's own user")
	}
	name := Directory(chat)
	dir := filepath.Join(r.path, name)
	must(t, os.MkdirAll(dir, 0o700))
	var others sync.WaitGroup
	defer others.Wait()
	over := make(chan struct{})
	defer close(over)
	others.Go(func() { // another program of the conversation
		for n := 0; ; n = (n + 1) % 100 {
			select {
			case <-over:
				return
			default:
				file := filepath.Join(dir, "f"+strconv.Itoa(n))
				_ = os.WriteFile(file, nil, 0o600)
				_ = os.Remove(filepath.Join(dir, "f"+strconv.Itoa((n+50)%100)))
			}
		}
	})
	for range 100 {
		if err := r.handOver(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAProgramSeesOnlyTheVariablesThatAreListed(t *testing.T) {
	t.Setenv("LISTED", "yes")
	t.Setenv("UNLISTED", "no")
	inEachMode(t, Options{Allow: []string{"printenv"}, Env: []string{"LISTED", "NOT_SET"}},
		func(t *testing.T, r *Runner) {
			var names []string
			for line := range strings.Lines(run(t, r, 5*time.Second, "printenv").Output) {
				name, _, _ := strings.Cut(line, "=")
				names = append(names, name)
			}
			if slices.Sort(names); !slices.Equal(names, []string{"HOME", "LANG", "LISTED", "PATH", "TMPDIR"}) {
				t.Errorf("it sees %v", names)
			}
		})
}

func TestAnEntryWithItsMarkMayExecuteOtherPrograms(t *testing.T) {
	inEachMode(t, Options{Allow: []string{"unsafe:sh"}}, func(t *testing.T, r *Runner) {
		if end := run(t, r, 5*time.Second, "sh", "-c", "echo one; /usr/bin/id -u; mktemp"); end.Exit != 0 ||
			!strings.HasPrefix(end.Output, "one\n") || strings.HasPrefix(end.Output, "one\n0\n") {
			t.Errorf("%+v", end)
		}
		if end := run(t, r, 5*time.Second, "sh", "-c", "cp /usr/bin/true t; chmod +x t; ./t"); end.Exit == 0 {
			t.Errorf("it brought a program of its own: %+v", end)
		}
	})
}

func TestOutputIsCappedWhileItIsRead(t *testing.T) {
	inEachMode(t, Options{Allow: []string{self(t)}, MaxOutput: 1000}, func(t *testing.T, r *Runner) {
		flood := long.Or(10_000_000, 100_000_000)
		end := run(t, r, 20*time.Second, self(t), "attempt", "flood", strconv.Itoa(flood))
		if len(end.Output) != 1000 || end.Dropped < int64(flood)-1000 || end.Exit != 0 {
			t.Errorf("%d bytes kept, %d dropped, exit %d", len(end.Output), end.Dropped, end.Exit)
		}
	})
}

func TestNothingOutlivesAProgram(t *testing.T) {
	inEachMode(t, Options{Allow: []string{unsafeMark + self(t)}}, func(t *testing.T, r *Runner) {
		for _, how := range []string{"daemonise", "holder"} {
			mark := newMark(t)
			began := time.Now()
			end := run(t, r, 10*time.Second, self(t), "attempt", how, mark)
			if end.Exit != 0 || end.TimedOut {
				t.Errorf("%s: %+v", how, end)
			}
			// it would live for 60 s
			if left, took := marked(mark), time.Since(began); len(left) > 0 || took >= keeperTime {
				t.Errorf("%s: %v are left after %v", how, left, took)
			}
		}
	})
}

// TestADeadlineKillsEverything has programs that live for 60 seconds. A keeper that does not end is itself killed after
// keeperTime: a run that took less was ended by the kill alone.
func TestADeadlineKillsEverything(t *testing.T) {
	t.Parallel()
	inEachMode(t, Options{Allow: []string{unsafeMark + self(t)}}, func(t *testing.T, r *Runner) {
		for _, how := range long.Every(3, []string{"sleep", "stubborn", "closed", "crowd"}) {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				mark := newMark(t)
				args := []string{self(t), "attempt", how, "60", mark}
				if how == "crowd" {
					args = []string{self(t), "attempt", how, mark}
				}
				began := time.Now()
				end := run(t, r, 500*time.Millisecond, args...)
				if took := time.Since(began); !end.TimedOut || took >= keeperTime || len(marked(mark)) > 0 {
					t.Errorf("%+v after %v, %v are left", end, took, marked(mark))
				}
			})
		}
	})
}

func TestTheEndOfTheCallersContextKillsEverything(t *testing.T) {
	inEachMode(t, Options{Allow: []string{unsafeMark + self(t)}}, func(t *testing.T, r *Runner) {
		mark := newMark(t)
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, Command{
				Key: chat, Argv: []string{self(t), "attempt", "crowd", mark},
				Timeout: time.Minute,
			})
			ended <- err
		}()
		eventually(t, "a crowd", func() bool { return len(marked(mark)) > 3 })
		began := time.Now()
		stop(corebot.ErrStopped)
		if err := <-ended; !errors.Is(err, corebot.ErrStopped) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took >= keeperTime || len(marked(mark)) > 0 {
			t.Errorf("%v are left after %v", marked(mark), took)
		}
	})
}

func TestWhatMultipliesFasterThanItIsKilledIsKilledToo(t *testing.T) {
	long.Only(t, "TestADeadlineKillsEverything")
	inEachMode(t, Options{Allow: []string{unsafeMark + self(t)}}, func(t *testing.T, r *Runner) {
		mark := newMark(t)
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, Command{
				Key: chat, Argv: []string{self(t), "attempt", "swarm", mark},
				Timeout: time.Minute,
			})
			ended <- err
		}()
		// The limit on processes counts threads. On a busy machine each process has up to a dozen.
		eventually(t, "a swarm", func() bool { return len(marked(mark)) > 6 })
		stop(corebot.ErrStopped)
		began := time.Now()
		<-ended
		if took := time.Since(began); took >= keeperTime || len(marked(mark)) > 0 {
			t.Errorf("%d are left after %v", len(marked(mark)), took)
		}
	})
}

// TestAProgramDiesWithCorebot plays a Corebot that is killed: this test binary, executed again, runs a program and is
// killed in the middle.
func TestAProgramDiesWithCorebot(t *testing.T) {
	if mark := os.Getenv("CORPSE_MARK"); mark != "" {
		r := newRunner(t, Mode(os.Getenv("CORPSE_MODE")), Options{Allow: []string{unsafeMark + self(t)}})
		run(t, r, time.Minute, self(t), "attempt", "crowd", mark)
		return
	}
	for _, mode := range modes {
		mark := newMark(t)
		c := exec.Command(self(t), "-test.run=^TestAProgramDiesWithCorebot$")
		c.Env = append(os.Environ(), "CORPSE_MARK="+mark, "CORPSE_MODE="+string(mode))
		must(t, c.Start())
		eventually(t, "a crowd", func() bool { return len(marked(mark)) > 3 })
		must(t, c.Process.Kill())
		_ = c.Wait()
		eventually(t, "the end of all "+string(mode), func() bool { return len(marked(mark)) == 0 })
	}
}

func TestFurtherCallsWaitForAPlaceUntilTheirDeadline(t *testing.T) {
	r := newRunner(t, Room, Options{Allow: []string{self(t)}, MaxWorkers: 2})
	mark := newMark(t)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			_, _ = r.Run(ctx, Command{
				Key: chat, Argv: []string{self(t), "attempt", "sleep", "60", mark},
				Timeout: time.Minute,
			})
		})
	}
	eventually(t, "two workers", func() bool { return len(marked(mark)) == 2 })
	quick := []string{self(t), "attempt", "nothing", mark}
	if _, err := r.Run(t.Context(), Command{Key: chat, Argv: quick, Timeout: 50 * time.Millisecond}); !errors.Is(err,
		ErrBusy) {
		t.Errorf("got %v", err)
	}
	all.Go(func() {
		if end, err := r.Run(t.Context(), Command{Key: chat, Argv: quick, Timeout: 10 * time.Second}); err != nil ||
			end.Exit != 0 {
			t.Errorf("%+v, %v", end, err)
		}
	})
	stop()
	all.Wait()
}

func TestWhatCannotRunIsAnError(t *testing.T) {
	r := newRunner(t, "", Options{Allow: []string{"echo"}})
	for name, c := range map[string]struct {
		command Command
		want    error
	}{
		"not listed":    {Command{Key: chat, Argv: []string{"cat"}, Timeout: time.Second}, ErrNotAllowed},
		"another way":   {Command{Key: chat, Argv: []string{"/bin/echo"}, Timeout: time.Second}, ErrNotAllowed},
		"by path":       {Command{Key: chat, Argv: []string{"./echo"}, Timeout: time.Second}, ErrNotAllowed},
		"nothing":       {Command{Key: chat, Timeout: time.Second}, corebot.ErrInvalid},
		"an empty name": {Command{Key: chat, Argv: []string{""}, Timeout: time.Second}, corebot.ErrInvalid},
		"a NUL byte": {
			Command{Key: chat, Argv: []string{"echo", "a\x00b"}, Timeout: time.Second},
			corebot.ErrInvalid,
		},
		"many arguments": {Command{
			Key: chat, Argv: append([]string{"echo"}, make([]string, maxArgs)...),
			Timeout: time.Second,
		}, corebot.ErrInvalid},
		"large arguments": {Command{
			Key: chat, Argv: []string{"echo", strings.Repeat("x", maxArgBytes)},
			Timeout: time.Second,
		}, corebot.ErrInvalid},
		"no time": {Command{Key: chat, Argv: []string{"echo"}}, corebot.ErrInvalid},
	} {
		if end, err := r.Run(t.Context(), c.command); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", name, end, err)
		}
	}
	full := append([]string{"echo"}, slices.Repeat([]string{"x"}, maxArgs-1)...)
	if end := run(t, r, 5*time.Second, full...); end.Exit != 0 {
		t.Errorf("%+v", end)
	}
}

func TestWorkersThatKeepFailingAreLeftAloneForAWhile(t *testing.T) {
	r := newRunner(t, Bare, Options{Allow: []string{"echo"}})
	must(t, os.WriteFile(filepath.Join(r.path, "chats"), nil, 0o600)) // no directory can be made
	for i := range breakAfter + 1 {
		_, err := r.Run(t.Context(), Command{Key: chat, Argv: []string{"echo"}, Timeout: time.Second})
		if want := i == breakAfter; errors.Is(err, ErrUnavailable) != want || errors.Is(err, ErrWorker) == false {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestAllOfThisHoldsForAUserWhoIsNotRoot runs again, as somebody else, what depends on who Corebot is.
func TestAllOfThisHoldsForAUserWhoIsNotRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // it does, or the other tests fail
	}
	// limits on processes count those of a user: these two are not in each other's way
	for id, tests := range map[uint32]string{
		12345: long.Or("AProgramWorks", "GetsOut"),
		12346: long.Or("Deadline", "Works|Mark|Outlives|Deadline|Faster|Dies|Variables|Job"),
	} {
		t.Run(tests, func(t *testing.T) {
			t.Parallel()
			runAs(t, id, "-test.run="+tests, fmt.Sprintf("-long=%v", long.Or(false, true)))
		})
	}
}

// runAs runs tests of this program as another user, in a directory that is his.
func runAs(t *testing.T, id uint32, args ...string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "corebot-user-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "tests")
	syscall.ForkLock.RLock() // a program that a test beside this one forks now would hold the file open for writing
	err = copyFile(self(t), binary)
	syscall.ForkLock.RUnlock()
	must(t, err)
	must(t, errors.Join(os.Chmod(binary, 0o755), os.Chown(dir, int(id), int(id)), os.Chown(binary, int(id), int(id))))
	c := exec.Command(binary, args...)
	c.Dir, c.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "CI_LACKS=root mounts")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	if text, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func BenchmarkACallOfAProgram(b *testing.B) {
	for _, mode := range modes {
		b.Run(string(mode), func(b *testing.B) {
			r := newRunner(b, mode, Options{Allow: []string{"true"}})
			for b.Loop() {
				if end, err := r.Run(b.Context(), Command{
					Key: chat, Argv: []string{"true"},
					Timeout: 5 * time.Second,
				}); err != nil || end.Exit != 0 {
					b.Fatal(end, err)
				}
			}
		})
	}
}
