//go:build linux && (amd64 || arm64)

package isolation

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ofASandbox are attempts that reach beyond a program in other workers. In a sandbox they are the program's own affair:
// its processes, sockets of its network, and other programs of the room.
var ofASandbox = []string{
	"socket", "drop", "again", "loader", "execute /usr/bin/true", "execute /bin/sh", "execute /usr/bin/id",
	"list /proc",
	"read /proc/1/environ", "read /proc/self/environ", "bomb",
}

// TestNoProgramGetsOutOfASandbox lets real programs try, with a network and with a directory of the owner. Any that
// exits with 0 has got out.
func TestNoProgramGetsOutOfASandbox(t *testing.T) {
	t.Setenv("SECRET_OF_COREBOT", "secret")
	r := newSandbox(t, Options{})
	o := newOutside(t, r)
	s := newInternet(t, r, nil)
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(filepath.Dir(root), 0o755))
	must(t, os.Chmod(root, 0o777))
	beside := root + "-beside"
	must(t, os.WriteFile(beside, nil, 0o666))
	listen(t, "unix", filepath.Join(root, "s"))
	must(t, os.Chmod(filepath.Join(root, "s"), 0o777))
	program, err := os.ReadFile(self(t))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(r.path, Directory(chat), "attempt"), program, 0o755))
	try := func(args ...string) Ended {
		end, err := r.RunSandboxed(t.Context(), Sandboxed{
			Key: chat, Argv: append([]string{"./attempt", "attempt"}, args...), Timeout: 20 * time.Second,
			Network: s.serve, Mounts: []Mount{{Path: root, Write: true}},
		})
		must(t, err)
		return end
	}
	if end := try("nothing"); end.Exit != 0 {
		t.Fatalf("even nothing fails: %+v", end)
	}
	me := strconv.Itoa(os.Getpid())
	all := slices.DeleteFunc(o.attempts(), func(a []string) bool {
		line := strings.Join(a, " ")
		return slices.ContainsFunc(ofASandbox, func(own string) bool {
			return line == own || strings.HasPrefix(line, own+" ")
		})
	})
	all = append(all, [][]string{
		{"elevate", "open"},
		{"elevate", "openat2"},
		{"elevate", "tmpfile"},
		{"elevate", "mknod"},
		{"elevate", "chmod"},
		{"elevate", "fchmod"},
		{"elevate", "fchmodat2"},
		{"elevate", "group"},
		{"sockets"},
		{"core"},
		{"crowded"},
		{"dial", "unix", filepath.Join(root, "s")},
		{"dial", "tcp", "169.254.169.254:80"},
		{"dial", "tcp", "10.0.0.1:80"},
		{"dial", "tcp", "[::1]:" +
			port(s.Listener)},
		{"dial", "tcp", "127.0.0.1:" + port(s.Listener)},
		{"dial", "tcp", "example.com:80"},
		{"udp", "127.0.0.1:53"},
		{"udp", "127.0.0.53:53"},
		{"list", "/etc"},
		{"list", "/sys"},
		{"list", r.opts.Homes},
		{"read", beside},
		{"read", "/proc/sys/kernel/hostname"},
		{"read", "/proc/kallsyms"},
		{"read", "/proc/sysrq-trigger"},
		{"append", "/proc/self/oom_score_adj"},
		{"append", "/proc/1/mem"},
		{"append", "/proc/self/uid_map"},
		{"list", "/proc/" + me},
		{"read", "/etc/resolv.conf"},
		{"append", "/etc/hosts"},
		{"write", "/work/../x"},
		{"signal", me},
		{"execute", "/usr/bin/su", "-c", "true"},
		{
			"execute", "/usr/bin/mount", "-t", "tmpfs", "x",
			"/tmp",
		},
	}...)
	for _, args := range all {
		t.Run(strings.ReplaceAll(strings.Join(args, " "), "/", "_"), func(t *testing.T) {
			t.Parallel()
			if end := try(args...); end.Exit == 0 || end.Exit == 99 {
				t.Errorf("%q: %+v", args, end)
			}
		})
	}
	t.Cleanup(func() { // after the parallel attempts
		for _, file := range []string{o.secret, o.other} {
			if text, err := os.ReadFile(file); err != nil || string(text) != "secret" {
				t.Errorf("%s is %q, %v", file, text, err)
			}
		}
	})
}

// TestNothingOutlivesItsSandbox: not behind another session, not at the deadline, not when its caller goes.
func TestNothingOutlivesItsSandbox(t *testing.T) {
	t.Parallel()
	r := newSandbox(t, Options{})
	for _, line := range []string{
		"setsid sleep 4000 MARK & sleep 0.2",
		"(setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' MARK &) ; sleep 0.2",
	} {
		mark := newMark(t)
		line = "exec 1>/dev/null 2>&1; " + strings.ReplaceAll(line, "sleep 4000 MARK", "sh -c 'sleep 4000; true' "+mark)
		sandbox(t, r, Sandboxed{}, strings.ReplaceAll(line, "MARK", mark))
		if left := marked(mark); len(left) > 0 {
			t.Errorf("%s: %d are left", line, len(left))
		}
	}
	mark := newMark(t)
	end := sandbox(t, r, Sandboxed{Timeout: time.Second}, "setsid sh -c 'sleep 4000; true' "+mark+" & sleep 60")
	if left := marked(mark); !end.TimedOut || len(left) > 0 {
		t.Errorf("%+v, %d are left", end, len(left))
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the program", func() bool { return len(marked(mark)) > 0 })
		stop()
	}()
	_, err := r.RunSandboxed(ctx, Sandboxed{
		Key: chat, Argv: []string{"sh", "-c", "sleep 4000; true", mark}, Timeout: time.Minute,
	})
	if left := marked(mark); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("%v, %d are left", err, len(left))
	}
}

func TestTheOutputOfASandboxIsBoundedOrGoesToItsReader(t *testing.T) {
	r := newSandbox(t, Options{MaxOutput: 1000})
	if end := sandbox(t, r, Sandboxed{}, "head -c 5000000 /dev/zero"); len(end.Output) != 1000 ||
		end.Dropped != 4_999_000 {
		t.Errorf("%d bytes and %d dropped", len(end.Output), end.Dropped)
	}
	var taken strings.Builder
	if end := sandbox(t, r, Sandboxed{Output: &taken}, "echo hi; echo there >&2"); taken.String() != "hi\nthere\n" ||
		end.Output != "" {
		t.Errorf("%q, %+v", &taken, end)
	}
}

func TestAProgramThatFillsTheDiskIsKilled(t *testing.T) {
	t.Parallel()
	r := newSandbox(t, Options{})
	var full atomic.Bool
	end := sandbox(t, r, Sandboxed{Full: full.Load}, "sleep 1.5; echo over")
	if end.DiskFull || end.Output != "over\n" {
		t.Errorf("with room: %+v", end)
	}
	full.Store(true)
	if end := sandbox(t, r, Sandboxed{Full: full.Load}, "sleep 60"); !end.DiskFull || end.TimedOut || end.Exit != -1 {
		t.Errorf("without: %+v", end)
	}
}

// TestWithoutARoomThereIsNoSandbox: the program does not run behind weaker walls.
func TestWithoutARoomThereIsNoSandbox(t *testing.T) {
	r := newRunner(t, Bare, Options{Homes: t.TempDir()})
	for range breakAfter + 1 { // and no breaker hides why
		_, err := r.RunSandboxed(t.Context(), Sandboxed{Key: chat, Argv: []string{"true"}, Timeout: time.Second})
		if !errors.Is(err, ErrNoSandbox) {
			t.Fatal(err)
		}
	}
}

// TestARoomsWayOutIsItsOwn: what Corebot listens to is in no other network, and ends with the room.
func TestARoomsWayOutIsItsOwn(t *testing.T) {
	r := newSandbox(t, Options{})
	ended := make(chan struct{})
	serve := func(l net.Listener) {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "from corebot\n")
			_ = c.Close()
		}
	}
	end := sandbox(t, r, Sandboxed{Network: serve},
		"bash -c 'cat </dev/tcp/127.0.0.1/"+strconv.Itoa(proxyPort)+"'")
	if end.Output != "from corebot\n" {
		t.Errorf("%+v", end)
	}
	<-ended
}
