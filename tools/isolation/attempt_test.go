//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempt is the program behind the walls. It exits with 0 if it did what it tried, and that only is a breach.
func attempt(name string, args []string) int {
	try, ok := attempts[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "there is no such attempt:", name)
		return 99
	}
	if err := try(args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// endOfTry stands behind the arguments of each attempt of "each".
const endOfTry = ";"

// each makes one attempt after the other, and says how each ended. It does what was asked of it, whatever that is.
func each(a []string) error {
	for len(a) > 0 {
		end := slices.Index(a, endOfTry)
		if end < 1 || attempts[a[0]] == nil {
			return fmt.Errorf("no attempt: %q", a)
		}
		how := "failed"
		if attempts[a[0]](a[1:end]) == nil {
			how = "got out"
		}
		fmt.Printf("%s: %s\n", how, strings.Join(a[:end], " "))
		a = a[end+1:]
	}
	return nil
}

var attempts = map[string]func([]string) error{
	"read":     func(a []string) error { _, err := os.ReadFile(a[0]); return err },
	"list":     func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"write":    func(a []string) error { return os.WriteFile(a[0], []byte("x"), 0o600) },
	"append":   openWith(os.O_APPEND | os.O_WRONLY),
	"truncate": func(a []string) error { return os.Truncate(a[0], 0) },
	"remove":   func(a []string) error { return os.Remove(a[0]) },
	"chmod":    func(a []string) error { return os.Chmod(a[0], 0o777) },
	"chtimes":  func(a []string) error { return os.Chtimes(a[0], time.Unix(1, 0), time.Unix(1, 0)) },
	"chown":    func(a []string) error { return os.Lchown(a[0], os.Getuid(), os.Getgid()) },
	"setxattr": func(a []string) error { return unix.Setxattr(a[0], "user.x", []byte("x"), 0) },
	"hardlink": func(a []string) error { return os.Link(a[0], "stolen") },
	"rename":   func(a []string) error { return os.Rename(a[0], "stolen") },
	"symlink": func(a []string) error {
		_ = os.Remove("link")
		if err := os.Symlink(a[0], "link"); err != nil {
			return err
		}
		_, err := os.ReadFile("link")
		return err
	},
	"execute": func(a []string) error { return exec.Command(a[0], a[1:]...).Run() },
	"drop":    dropAndExecute,
	"again":   func([]string) error { return again("nothing").Run() },
	"dial":    dial,
	"hold":    holdTemp,
	"udp":     func(a []string) error { return sendUDP(a[0]) },
	"socket":  anySocket,
	"sockets": noTCP,
	"core":    func([]string) error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}) },
	"crowded": crowded,
	"ptrace":  func(a []string) error { return onPID(a[0], func(pid int) error { return unix.PtraceAttach(pid) }) },
	"seize":   func(a []string) error { return onPID(a[0], func(pid int) error { return unix.PtraceSeize(pid) }) },
	"signal":  func(a []string) error { return onPID(a[0], func(pid int) error { return unix.Kill(pid, 0) }) },
	"limit":   func(a []string) error { return onPID(a[0], limitOther) },
	"vmread":  func(a []string) error { return onPID(a[0], readMemory) },
	"unshare": func([]string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"mount":   func([]string) error { return unix.Mount("x", ".", "tmpfs", 0, "") },
	"namespace": func([]string) error {
		c := exec.Command("/proc/self/exe", "attempt", "nothing")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return c.Run()
	},
	"nothing": func([]string) error { return nil },
	"inherit": inherit,
	"olden":   olden,
	"bpf":     func([]string) error { return call(unix.SYS_BPF, 0) },
	"keyctl": func([]string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING,
			true)
		return err
	},
	"io_uring": ioUring,
	"setuid":   func([]string) error { return syscall.Setuid(0) },
	"root":     isRoot,
	"grow":     grow,
	"raise": func([]string) error {
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: maxFileSize * 2, Max: maxFileSize * 2})
	},
	"memory": func([]string) error { return eat(3 << 30) },
	"files":  manyFiles,
	"bomb":   bomb,
	"env":    func(a []string) error { return has(os.Getenv(a[0])) },
	"device": func([]string) error { return unix.Mknod("dev", unix.S_IFCHR|0o600, 0x103) },
}

// behaviours are attempts at outliving the call; they exit with 0 as a program does that hopes for it.
func init() {
	for name, b := range map[string]func([]string) error{
		"daemonise": daemonise, "sleep": sleep, "stubborn": stubborn, "closed": closeAndLive, "flood": flood,
		"crowd": crowd, "swarm": swarm, "swarming": swarming, "holder": holdPipe, "exit": exit, "suicide": suicide,
		"peek": peek, "each": each,
	} {
		attempts[name] = b
	}
}

func openWith(flags int) func([]string) error {
	return func(a []string) error {
		f, err := os.OpenFile(a[0], flags, 0)
		if err == nil {
			err = f.Close()
		}
		return err
	}
}

// inherit reads from a file that somebody else has opened.
func inherit([]string) error {
	for fd := 3; fd < maxOpenFiles; fd++ {
		buf := make([]byte, 6)
		if n, err := unix.Pread(fd, buf, 0); err == nil && string(buf[:n]) == "secret" {
			return nil
		}
	}
	return errors.New("there is none")
}

// olden goes behind the filter of a kernel with an early Landlock, on a thread that ends with it.
func olden([]string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil
	}
	if _, err := newFilter(Bare, 2, executeAny).install(); err != nil {
		return nil
	}
	if unix.Kill(os.Getpid(), 0) == nil || unix.Tgkill(os.Getpid(), os.Getpid(), 0) == nil ||
		unix.Truncate("/dev/null", 0) != unix.EPERM {
		return nil
	}
	return errors.New("it can neither signal nor truncate")
}

// dropAndExecute brings a program of its own.
func dropAndExecute([]string) error {
	if err := errors.Join(copyFile("/usr/bin/true", "dropped"), os.Chmod("dropped", 0o755)); err != nil {
		_ = os.Remove("dropped")
	}
	return exec.Command("./dropped").Run()
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

func dial(a []string) error {
	c, err := net.DialTimeout(a[0], a[1], time.Second)
	if err == nil {
		err = c.Close()
	}
	return err
}

func sendUDP(addr string) error {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("x"))
	return err
}

// anySocket tries families that have nothing to do with the internet.
func anySocket([]string) error {
	var errs []error
	for _, family := range []int{
		unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET,
		unix.AF_ALG, unix.AF_VSOCK,
	} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			fd, err := unix.Socket(family, kind, 0)
			if err == nil {
				return unix.Close(fd)
			}
			errs = append(errs, err)
		}
	}
	return errs[0]
}

// noTCP opens a socket of another kind than TCP.
func noTCP([]string) error {
	err := errors.New("none opens")
	for _, family := range []int{
		unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_ALG, unix.AF_VSOCK,
	} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			for _, protocol := range []int{0, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_MPTCP, 255} {
				inet := family == unix.AF_INET || family == unix.AF_INET6
				if inet && kind == unix.SOCK_STREAM && protocol == 0 {
					continue
				}
				if fd, e := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol); e == nil {
					_ = unix.Close(fd)
					return nil
				}
			}
		}
	}
	return err
}

// crowded starts more processes than a sandbox may have.
func crowded([]string) error {
	for range maxSandboxProcesses {
		c := again("sleep", "5")
		if err := c.Start(); err != nil {
			return err
		}
		_ = c.Process.Release()
	}
	return nil
}

func onPID(text string, do func(int) error) error {
	pid, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	return do(pid)
}

func limitOther(pid int) error {
	var now unix.Rlimit
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &now)
}

func readMemory(pid int) error {
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&chat)), Len: 8}}, 0)
	return err
}

func call(number uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0)
	if _, _, errno := unix.Syscall(number, args[0], args[1], args[2]); errno != 0 && errno != unix.EINVAL &&
		errno != unix.EFAULT {
		return errno
	}
	return nil
}

func ioUring([]string) error {
	var params [120]byte
	if _, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0); errno != 0 {
		return errno
	}
	return nil
}

func isRoot([]string) error {
	var caps [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0]); err != nil {
		return nil
	}
	if os.Geteuid() == 0 || os.Getuid() == 0 ||
		caps[0].Effective|caps[0].Permitted|caps[1].Permitted|caps[0].Inheritable != 0 {
		return nil
	}
	return errors.New("nobody, without capabilities")
}

// grow writes a file over the limit.
func grow([]string) error {
	signal.Ignore(syscall.SIGXFSZ)
	f, err := os.Create("large")
	if err != nil {
		return err
	}
	defer os.Remove("large")
	_, err = f.WriteAt([]byte("x"), maxFileSize)
	return errors.Join(err, f.Close())
}

func eat(size int) error {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		err = unix.Munmap(memory)
	}
	return err
}

func manyFiles([]string) error {
	for range maxSandboxFiles {
		if _, err := os.Open("/dev/null"); err != nil {
			return err
		}
	}
	return nil
}

// bomb starts more processes than there may be; each of these has several threads.
func bomb([]string) error {
	for range maxProcesses {
		c := again("sleep", "2")
		if err := c.Start(); err != nil {
			return err
		}
		_ = c.Process.Release()
	}
	return nil
}

func has(value string) error {
	if value == "" {
		return errors.New("it is not set")
	}
	return nil
}

func again(args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil { // without /proc
		path = os.Args[0]
	}
	return exec.Command(path, append([]string{"attempt"}, args...)...)
}

// daemonise leaves a grandchild in a session of its own that has nothing of ours open.
func daemonise(a []string) error {
	if len(a) == 1 {
		c := again("daemonise", a[0], "child")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return c.Run()
	}
	return again("sleep", "60", a[0]).Start()
}

func sleep(a []string) error {
	seconds, err := strconv.Atoi(a[0])
	time.Sleep(time.Duration(seconds) * time.Second)
	return err
}

func stubborn(a []string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	fmt.Println("here")
	return sleep(a)
}

func closeAndLive(a []string) error {
	fmt.Println("bye")
	return errors.Join(os.Stdout.Close(), os.Stderr.Close(), sleep(a))
}

// holdPipe ends at once and leaves a child that holds its output open.
func holdPipe(a []string) error {
	c := again("sleep", "60", a[0])
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	fmt.Println("left")
	return c.Start()
}

func flood(a []string) error {
	total, err := strconv.Atoi(a[0])
	line := make([]byte, 1<<16)
	for i := range line {
		line[i] = 'x'
	}
	for ; total > 0 && err == nil; total -= len(line) {
		_, err = os.Stdout.Write(line[:min(total, len(line))])
	}
	return err
}

// crowd keeps as many children as it has room for, and has another for each that is killed.
func crowd(a []string) error {
	room := make(chan struct{}, 6)
	for {
		room <- struct{}{}
		c := again("sleep", "60", a[0])
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			return err
		}
		go func() {
			_ = c.Wait()
			<-room
		}()
	}
}

// swarm lives on beside what it has let loose.
func swarm(a []string) error {
	return errors.Join(again("swarming", a[0]).Start(), sleep([]string{"60"}))
}

// swarming doubles itself as often as it can.
func swarming(a []string) error {
	for ; ; time.Sleep(time.Millisecond) {
		c := again("swarming", a[0])
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if c.Start() == nil {
			_ = c.Process.Release()
		}
	}
}

func exit(a []string) error {
	code, err := strconv.Atoi(a[0])
	if err == nil {
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "err")
		os.Exit(code)
	}
	return err
}

func suicide([]string) error { return unix.Kill(os.Getpid(), unix.SIGKILL) }

// peek shows where a program is.
func peek([]string) error {
	dir, err := os.Getwd()
	entries, _ := filepath.Glob("*")
	fmt.Println(dir, os.Getenv("HOME"), os.Getuid(), os.Environ(), entries)
	return err
}

// holdTemp has a temporary directory as a Corebot with a worker has one, until it is killed.
func holdTemp([]string) error {
	path, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return err
	}
	t, err := lockTemp(path)
	if err != nil {
		return err
	}
	fmt.Println(t.path)
	time.Sleep(time.Minute)
	t.remove()
	return nil
}
