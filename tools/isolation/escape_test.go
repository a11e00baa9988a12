//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/rootfs"
)

// outside is what programs must not reach: files of Corebot and of another conversation, listeners, and this process.
type outside struct {
	secret, other, dir       string
	tcp, udp, unix, abstract string
	packets                  string // a socket for datagrams that has a path
}

func newOutside(t *testing.T, r *Runner) outside {
	t.Helper()
	home := filepath.Dir(r.path)
	stranger := chat
	stranger.Chat = "stranger"
	o := outside{
		secret: filepath.Join(home, "corebot.db"), other: filepath.Join(r.path, rootfs.ChatDir(stranger), "MEMORY.md"),
		dir:  home,
		unix: filepath.Join(home, "s"), abstract: "@" + newMark(t),
	}
	for _, file := range []string{o.secret, o.other} {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte("secret"), 0o644))
		must(t, os.Chmod(file, 0o666)) // what rights of files allow is no wall
	}
	held, err := unix.Open(o.secret, unix.O_RDONLY, 0) // without O_CLOEXEC, as a careless library would
	must(t, err)
	t.Cleanup(func() { unix.Close(held) })
	openDirectories(t, r.path, 0o777)
	o.tcp = listen(t, "tcp", "127.0.0.1:0")
	listen(t, "unix", o.unix)
	must(t, os.Chmod(o.unix, 0o777))
	listen(t, "unix", o.abstract)
	o.packets = filepath.Join(home, "d")
	datagrams, err := net.ListenPacket("unixgram", o.packets)
	must(t, err)
	t.Cleanup(func() { datagrams.Close() })
	must(t, os.Chmod(o.packets, 0o777))
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { packets.Close() })
	o.udp = packets.LocalAddr().String()
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T, network, addr string) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// attemptsOf lists every try, with its arguments.
func (o outside) attempts() [][]string {
	me := strconv.Itoa(os.Getpid())
	all := [][]string{
		{"dial", "tcp", o.tcp},
		{"dial", "unix", o.unix},
		{"dial", "unix", o.abstract},
		{"udp", o.udp},
		{"socket"},
		{"ptrace", me},
		{"seize", me},
		{"signal", me},
		{"limit", me},
		{"vmread", me},
		{"signal", strconv.Itoa(os.Getppid())},
		{"unshare"},
		{"mount"},
		{"namespace"},
		{"bpf"},
		{"keyctl"},
		{"io_uring"},
		{"setuid"},
		{"root"},
		{"inherit"},
		{"olden"},
		{"grow"},
		{"raise"},
		{"memory"},
		{"files"},
		{"bomb"},
		{"device"},
		{"drop"},
		{"memfd"},
		{"again"},
		{"loader", "/usr/bin/true"},
		{"listener"},
		{"datagram", o.packets},
		{"numbers"},
		{"env", "SECRET_OF_COREBOT"},
		{"write", "/usr/x"},
		{"write", "/etc/x"},
		{"write", "/dev/shm/x"},
		{"write", "/var/tmp/x"},
		{"append", "/etc/passwd"},
		{"read", "/etc/shadow"},
		{"read", "/etc/hostname"},
		{"list", "/"},
		{"list", "/etc"},
		{"list", "/home"},
		{"list", "/var"},
		{"list", "/run"},
		{"list", "/sys"},
		{"list", "/proc"},
		{"read", "/proc/1/environ"},
		{"read", "/proc/self/environ"},
		{"read", "/proc/" + me + "/environ"},
		{"read", "/proc/" + me + "/cmdline"},
		{"append", "/proc/" + me + "/mem"},
		{"list", "/proc/" + me + "/root/"},
		{"list", "/proc/" + me + "/cwd/"},
		{"read", "/proc/" + me + "/root" + o.secret},
		{"read", "../../" + "stranger"},
		{"read", strings.Repeat("../", 20) + o.secret[1:]},
		{"execute", "/usr/bin/true"},
		{"execute", "/bin/sh", "-c", "true"},
		{"execute", "/usr/bin/id"},
		{"list", o.dir},
		{"write", filepath.Join(o.dir, "new")},
		{"execute", "/usr/bin/cat", o.secret},
		{"read", "/dev/kmsg"},
		{"read", "/dev/mem"},
		{"append", "/dev/vda"},
	}
	for _, file := range []string{o.secret, o.other} {
		for _, try := range []string{
			"read", "symlink", "hardlink", "append", "write", "truncate", "chmod", "chown",
			"chtimes", "setxattr", "setxattrat", "removexattrat", "setattr", "rename", "remove",
		} {
			all = append(all, []string{try, file})
		}
	}
	return all
}

// apart are attempts that change the process that makes them, or what it may start. Each needs a worker of its own.
var apart = []string{
	"unshare", "mount", "namespace", "bpf", "keyctl", "io_uring", "setuid", "root", "inherit", "olden", "grow", "raise",
	"memory", "files", "bomb", "drop", "memfd", "again", "loader", "listener", "numbers", "execute",
}

// TestNoProgramGetsOut lets real programs try. Any that exits with 0 has got out. In the short form one program makes
// all the attempts that leave it as it was.
func TestNoProgramGetsOut(t *testing.T) {
	t.Setenv("SECRET_OF_COREBOT", "secret")
	inEachMode(t, Options{Allow: []string{self(t)}}, func(t *testing.T, r *Runner) {
		o := newOutside(t, r)
		if end := run(t, r, 10*time.Second, self(t), "attempt", "nothing"); end.Exit != 0 {
			t.Fatalf("even nothing fails: %+v", end)
		}
		together := []string{self(t), "attempt", "each"}
		want := ""
		for _, try := range o.attempts() {
			name := strings.Join(try, " ")
			if long.Or(!slices.Contains(apart, try[0]), false) {
				together = append(append(together, try...), endOfTry)
				want += "failed: " + name + "\n"
				continue
			}
			t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
				t.Parallel()
				end := run(t, r, 10*time.Second, append([]string{self(t), "attempt"}, try...)...)
				if end.Exit == 0 || end.Exit == 99 {
					t.Errorf("%q: %+v", try, end)
				}
			})
		}
		if end := run(t, r, time.Minute, together...); end.Exit != 0 || end.Output != want {
			t.Errorf("the attempts of one program: %+v; want\n%s", end, want)
		}
		t.Cleanup(func() { // after the parallel attempts
			for _, file := range []string{o.secret, o.other} {
				info, err := os.Stat(file)
				if text, _ := os.ReadFile(file); err != nil || string(text) != "secret" ||
					info.Mode().Perm() != 0o666 || time.Since(info.ModTime()) > time.Hour {
					t.Errorf("%s is %v, %q, %v", file, info, text, err)
				}
			}
		})
	})
}

// TestNoToolOfTheSystemGetsOut gives whoever wants out a shell and everything that is in /usr/bin. In the short form
// one shell tries everything.
func TestNoToolOfTheSystemGetsOut(t *testing.T) {
	t.Parallel()
	inEachMode(t, Options{Allow: []string{"unsafe:sh"}}, func(t *testing.T, r *Runner) {
		o := newOutside(t, r)
		host, port, err := net.SplitHostPort(o.tcp)
		must(t, err)
		if end := run(t, r, 10*time.Second, "sh", "-c",
			"ls /usr/bin >list && cat list >/dev/null && rm list"); end.Exit != 0 {
			t.Fatalf("even harmless things fail: %+v", end)
		}
		together := ""
		for _, line := range []string{
			"cat SECRET", "cp SECRET .", "ln SECRET .", "ln -s SECRET l && cat l", "head -c1 SECRET",
			"echo x >> SECRET", "tee SECRET </dev/null", "truncate -s0 SECRET",
			"dd if=/dev/null of=SECRET", "chmod 777 SECRET", "touch -d 2001-01-01 SECRET", "mv SECRET .",
			"rm -f SECRET && ls /usr/bin/nothing", "grep -r secret HOME", "ls HOME", "tar cf x.tar SECRET",
			"cat /proc/PID/environ", "ls /proc/PID", "ls -d /proc/[0-9]*", "ls /root", "ls /home/*", "cat /etc/shadow",
			"touch /usr/x", "touch /etc/x", "head -c1 /dev/kmsg", "echo x >/dev/tty",
			"kill -0 PID", "renice -n 5 -p PID", "prlimit --pid PID --core=0", "taskset -p 1 PID", "strace -p PID -o x",
			"mount -t tmpfs x .", "unshare -U true", "unshare -n true", "nsenter -t PID -m true",
			"chroot . true", "su -c true", "sudo -n true", "mknod d c 1 3", "setpriv --reuid 0 true",
			"ip link add x type dummy", "hostname x", "date -s 2001-01-01",
			"perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(PeerAddr => q(TCP))'",
			"perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => q(UNIX))'",
			"bash -c 'exec 3<>/dev/tcp/" + host + "/" + port + "'", "bash -c 'echo x >/dev/udp/" + host + "/" + port +
				"'",
		} {
			line := strings.NewReplacer("SECRET", o.secret, "HOME", o.dir, "PID", strconv.Itoa(os.Getpid()), "TCP",
				o.tcp, "UNIX", o.unix).Replace(line)
			if long.Or(true, false) {
				together += "(" + line + ") >output 2>&1 </dev/null && { echo got out:; cat output; echo '" +
					strings.ReplaceAll(line, "'", `'"'"'`) + "'; }\n"
				continue
			}
			if end := run(t, r, 10*time.Second, "sh", "-c", line); end.Exit == 0 {
				t.Errorf("%s: %+v", line, end)
			}
		}
		if end := run(t, r, time.Minute, "sh", "-c", together+"echo all tried"); end.Output != "all tried\n" {
			t.Errorf("the attempts of one shell: %+v", end)
		}
		if text, err := os.ReadFile(o.secret); err != nil || string(text) != "secret" {
			t.Errorf("the secret is %q, %v", text, err)
		}
	})
}

// TestWhatAnOptionWouldStartIsNotStarted: the operator has let an option through that starts another program, and the
// loader starts any.
func TestWhatAnOptionWouldStartIsNotStarted(t *testing.T) {
	loaders, err := filepath.Glob("/lib*/ld-linux-*.so*")
	if err != nil || len(loaders) == 0 {
		t.Skip("there is no loader here")
	}
	inEachMode(t, Options{Allow: []string{"install -s --strip-program=* **"}}, func(t *testing.T, r *Runner) {
		for _, argv := range [][]string{
			{"install", "-s", "--strip-program=" + loaders[0], "/usr/bin/id", "copy"},
			{"install", "-s", "--strip-program=/usr/bin/id", "/usr/bin/true", "copy"},
		} {
			if end := run(t, r, 10*time.Second, argv...); end.Exit == 0 || strings.Contains(end.Output, "uid=") {
				t.Errorf("%q: %+v", argv, end)
			}
		}
	})
}

// TestAFenceCanBeBuiltForEveryVersion: what a kernel does not know must not be asked of it.
func TestAFenceCanBeBuiltForEveryVersion(t *testing.T) {
	newest, err := landlockVersion()
	must(t, err)
	for version := 1; version <= newest; version++ {
		f, err := newFence(version, version%2 == 0)
		must(t, err)
		must(t, errors.Join(f.open("/usr", mayExecute), f.open("/etc/passwd", mayWrite), f.open("/none", mayRead),
			unix.Close(f.fd)))
	}
}

// TestAllAttemptsSucceedWithoutWalls shows that the programs of the battery do what they say, so that failing means
// something.
func TestAllAttemptsSucceedWithoutWalls(t *testing.T) {
	r := newRunner(t, Room, Options{Allow: []string{self(t)}})
	o := newOutside(t, r)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	for _, try := range [][]string{
		{"read", o.secret},
		{"symlink", o.secret},
		{"append", o.secret},
		{"chmod", o.secret},
		{"chtimes", o.secret},
		{"list", o.dir},
		{"dial", "tcp", o.tcp},
		{"dial", "unix", o.unix},
		{"dial", "unix", o.abstract},
		{"udp", o.udp},
		{"socket"},
		{"signal", strconv.Itoa(os.Getpid())},
		{"limit", strconv.Itoa(os.Getpid())},
		{"execute", "/usr/bin/true"},
		{"drop"},
		{"memfd"},
		{"again"},
		{"loader", "/usr/bin/true"},
		{"listener"},
		{"datagram", o.packets},
		{"grow"},
		{"memory"},
		{"files"},
		{"read", "/proc/self/environ"},
		{"truncate", o.secret},
		{"write", o.secret},
		{"remove", o.secret},
	} {
		c := again(try...)
		c.Dir = dir
		if text, err := c.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", try, err, text)
		}
	}
}
