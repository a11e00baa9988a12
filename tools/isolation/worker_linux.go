//go:build linux && (amd64 || arm64)

package isolation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Work is the whole life of a worker process. It does not return where it becomes its program; else what it returns is
// the exit code. It touches nothing of Corebot: no settings, no home, no database.
func Work() int {
	runtime.LockOSThread() // the walls belong to this thread, which executes the program
	// Inherited descriptors, beyond the worker's own, are closed by the worker's last step.
	if err := unix.CloseRange(requestFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return tell(report{Error: "this kernel cannot close inherited files: " + err.Error()})
	}
	r, err := readRequest(descriptor(requestFD))
	if err != nil {
		return tell(report{Error: err.Error()})
	}
	if r.Role == keepProgram {
		return r.keep()
	}
	allow := make(chan int)
	go letThrough(allow) // from outside of the walls, which hold this thread only
	landlock, listener, err := r.wallUp()
	switch {
	case err != nil:
		return tell(report{Error: err.Error()})
	case r.Role == tellWalls:
		return tell(report{Landlock: landlock, Once: listener != 0})
	}
	if code := tell(report{Started: true}); code != 0 {
		return code
	}
	if r.Sandbox {
		return r.becomeNamed()
	}
	return tell(report{Error: r.execute(listener, allow).Error()})
}

// descriptor is a file that was inherited. An [os.File] of it would close it, once the collector finds that nobody uses
// that any more.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(d), p)
		switch {
		case errors.Is(err, unix.EINTR): // the runtime signals its own threads
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// readRequest reads exactly one request: its pipe stays open.
func readRequest(from io.Reader) (*request, error) {
	var r request
	if err := json.NewDecoder(io.LimitReader(from, maxRequest)).Decode(&r); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return &r, nil
}

// tell reports, and says with which code to exit.
func tell(r report) int {
	text, err := json.Marshal(r)
	if err == nil {
		_, err = unix.Write(reportFD, text)
	}
	if err != nil || r.Error != "" {
		return 1
	}
	return 0
}

// wallUp puts this thread behind all walls, the outermost first: each one is built with what the next takes away. It
// gives the version of Landlock, and the listener of the filter.
func (r *request) wallUp() (landlock, listener int, err error) {
	if landlock, err = landlockVersion(); err != nil {
		return 0, 0, err
	}
	// When memory or time run short, better the program's than Corebot's. Both are wishes.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 10)
	dir, tmp := r.Dir, r.Tmp
	if r.Sandbox {
		if err := r.openNetwork(); err != nil {
			return 0, 0, err
		}
	}
	if r.Mode == Room {
		if err := r.enterRoom(); err != nil {
			return 0, 0, err
		}
		dir, tmp = roomDir, roomTmp
	}
	at, err := r.openDir(dir)
	if err != nil {
		return 0, 0, err
	}
	f, err := r.fence(landlock, dir, tmp)
	if err != nil {
		return 0, 0, err
	}
	for _, step := range []func() error{
		r.Limits.set,
		r.dropPrivileges,
		diesWithParent,
		func() error { return unix.Fchdir(at) },
		f.close,
	} {
		if err := step(); err != nil {
			return 0, 0, err
		}
	}
	listener, err = r.filterCalls(landlock)
	return landlock, listener, err
}

// openDir opens the directory in which the program begins. The program's user may not be able to get there.
func (r *request) openDir(dir string) (int, error) {
	flags := unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	if r.At != "" { // below a directory of the room; a link leads nowhere else than into the room
		dir = r.At
	} else {
		flags |= unix.O_NOFOLLOW
	}
	at, err := unix.Open(dir, flags, 0)
	if err != nil {
		return 0, fmt.Errorf("open the working directory %s: %w", dir, err)
	}
	return at, nil
}

// fence says which files are open to the program.
func (r *request) fence(version int, dir, tmp string) (*fence, error) {
	if r.Sandbox {
		return r.fenceSandbox(version)
	}
	f, err := newFence(version, false)
	if err != nil {
		return nil, err
	}
	system, inDir := uint64(mayRead), uint64(mayWrite)
	if r.Family {
		system = mayExecute
	}
	if r.DirReadOnly {
		inDir = mayRead
	}
	for _, rule := range []struct {
		access uint64
		paths  []string
	}{
		{system, r.directories()},
		{mayRead, r.files()},
		{mayUse, devices()},
		{mayExecute, []string{r.Program, cmp.Or(r.Interpreter, r.Program)}},
		{inDir, []string{dir}},
		{mayWrite, []string{tmp}},
	} {
		if err := f.openAll(rule.paths, rule.access); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// dropPrivileges becomes the user that the program runs as, without any capability and without a way to gain one. This
// binary at work for a tool may stay root, who owns the files then, with a single one.
func (r *request) dropPrivileges() error {
	if r.UID != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(r.UID, r.UID, r.UID),
			syscall.Setresuid(r.UID, r.UID, r.UID)); err != nil {
			return fmt.Errorf("become user %d: %w", r.UID, err)
		}
	}
	keep := uint32(0)
	if os.Geteuid() == 0 {
		if !r.Own {
			return errors.New("the program would run as root")
		}
		// by which it reads what programs have written as their user, where Landlock lets it
		keep = 1 << unix.CAP_DAC_OVERRIDE
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear the ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	kept := [2]unix.CapUserData{{Effective: keep, Permitted: keep}}
	if err := unix.Capset(&header, &kept[0]); err != nil {
		return fmt.Errorf("drop the capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// diesWithParent has the kernel kill the program when the thread that started it ends. Becoming another user takes that
// wish away, so it is renewed after; what happened in between shows as the end of the request's pipe.
func diesWithParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("ask to die with the parent: %w", err)
	}
	poll := []unix.PollFd{{Fd: requestFD}}
	for {
		n, err := unix.Poll(poll, 0)
		switch {
		case errors.Is(err, unix.EINTR): // the runtime signals its own threads
		case err != nil:
			return fmt.Errorf("look at the request's pipe: %w", err)
		case n > 0:
			return errors.New("nobody wants this worker any more")
		default:
			return nil
		}
	}
}

// set bounds this process and all that it starts. It is the last step that needs what it takes away. Files of these
// processes belong to their owner alone, as all files of Corebot do.
func (l limits) set() error {
	unix.Umask(0o077)
	cpu := uint64(l.CPU/time.Second) + 1
	for resource, limit := range map[int]uint64{
		unix.RLIMIT_CPU: cpu, unix.RLIMIT_DATA: l.Data, unix.RLIMIT_FSIZE: maxFileSize,
		unix.RLIMIT_NOFILE: l.Files, unix.RLIMIT_CORE: 0,
		unix.RLIMIT_NPROC: l.Processes, unix.RLIMIT_MEMLOCK: 64 << 10, unix.RLIMIT_MSGQUEUE: 0,
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return fmt.Errorf("read limit %d: %w", resource, err)
		}
		limit = min(limit, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("set limit %d: %w", resource, err)
		}
	}
	return nil
}

// execute replaces this process by a program. allow is told the listener of the filter, if there is one: whoever is
// behind it lets this call through. The listener ends with this process image, since the kernel opened it to be closed
// then. From there on nobody listens, and the kernel answers every such call with ENOSYS: in the program, in all that
// it forks, for ever.
func (r *request) execute(listener int, allow chan<- int) error {
	path, err := unix.BytePtrFromString(r.Program)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(r.Argv)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(r.Env)
	if err != nil {
		return err
	}
	if listener != 0 {
		allow <- listener
	}
	for range 100 {
		// Not [syscall.Exec]: it keeps the scheduler waiting meanwhile, and the listener needs it.
		_, _, errno := syscall.Syscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
		if err = errno; errno != unix.EAGAIN { // which some kernels say while a thread is being made
			break
		}
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(path)
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	return fmt.Errorf("execute %s: %w", r.Program, err)
}

// notification and answer are struct seccomp_notif and struct seccomp_notif_resp.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		data       [64]byte
	}
	answer struct {
		id     uint64
		value  int64
		errno  int32
		repeat uint32 // the flags
	}
)

// letThrough answers what comes out of a listener, until it has let a call through: one that a signal has interrupted
// comes again. It runs on a thread that no filter holds, and ends with the process image.
func letThrough(listeners <-chan int) {
	listener := <-listeners
	for {
		var asked notification
		if errno := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&asked)); errno != 0 {
			if errors.Is(errno, unix.EINTR) || errors.Is(errno, unix.ENOENT) {
				continue
			}
			return
		}
		goOn := answer{id: asked.id, repeat: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		// ENOENT: it was interrupted, and comes again
		_ = control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&goOn))
	}
}

func control(fd int, request uint, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	return errno
}
