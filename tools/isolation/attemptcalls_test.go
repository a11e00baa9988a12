//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attempts that make system calls by hand: by ways that libraries do not take, and by numbers that they do not know.
func init() {
	for name, try := range map[string]func([]string) error{
		"library": library, "memfd": memfd, "loader": loader, "listener": becomeListener, "datagram": datagram,
		"numbers": numbers,
		"elevate": elevate, "setxattrat": setxattrat, "removexattrat": removexattrat, "setattr": setattr,
	} {
		attempts[name] = try
	}
}

// Numbers that are the same everywhere, of calls that came after the table was made.
const (
	sysSetxattrat    = 463
	sysRemovexattrat = 466
	sysFileSetattr   = 469
	lastTried        = 600
	foreignCalls     = 0x40000000 // where the numbers of x32 begin
)

// elevate makes a file that has whoever executes it become its owner.
func elevate(a []string) error {
	const bits, path = unix.S_ISUID | 0o755, "elevated"
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	switch a[0] {
	case "open":
		_, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY, bits)
		return errors.Join(err, isSetUID(path))
	case "openat2":
		_, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: bits})
		return errors.Join(err, isSetUID(path))
	case "tmpfile":
		fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, bits)
		if err == nil {
			err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, path,
				unix.AT_SYMLINK_FOLLOW)
		}
		return errors.Join(err, isSetUID(path))
	case "mknod":
		return errors.Join(unix.Mknod(path, unix.S_IFREG|bits, 0), isSetUID(path))
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // empty
	switch a[0] {
	case "chmod":
		err = unix.Chmod(path, bits)
	case "fchmod":
		err = unix.Fchmod(int(f.Fd()), bits)
	case "fchmodat2":
		err = unix.Fchmodat(unix.AT_FDCWD, path, bits, unix.AT_SYMLINK_NOFOLLOW)
	case "group":
		err = unix.Chmod(path, unix.S_ISGID|0o755)
	}
	return errors.Join(err, isSetUID(path))
}

func isSetUID(path string) error {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return err
	}
	if stat.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return fmt.Errorf("its mode is %o", stat.Mode)
	}
	return nil
}

// memfd executes a program that is nowhere but in memory.
func memfd([]string) error {
	data, err := os.ReadFile("/usr/bin/true")
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("x", 0)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, data); err != nil {
		return err
	}
	argv, empty := []*byte{new(byte), nil}, new(byte)
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(empty)),
		uintptr(unsafe.Pointer(&argv[0])), 0, unix.AT_EMPTY_PATH, 0)
	return errno
}

// library maps a file that it has written as code, as one loads a library.
func library(a []string) error {
	if err := os.WriteFile(a[0], make([]byte, 4096), 0o700); err != nil {
		return err
	}
	f, err := os.Open(a[0])
	if err != nil {
		return err
	}
	_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	return err
}

// loader has the dynamic loader run a program, as install --strip-program can be told to.
func loader(a []string) error {
	found, err := filepath.Glob("/lib*/ld-linux-*.so*")
	if err != nil || len(found) == 0 {
		return errors.Join(errors.New("there is no loader"), err)
	}
	return exec.Command(found[0], a...).Run()
}

// becomeListener becomes the one who decides about what is executed, and lets everything through.
func becomeListener([]string) error {
	runtime.LockOSThread()
	var f filter
	f.load(offsetNumber)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, unix.SYS_EXECVE)
	f.ret(unix.SECCOMP_RET_USER_NOTIF)
	f.ret(unix.SECCOMP_RET_ALLOW)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fd, err := f.install()
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// datagram sends to a path through a socket that needed none.
func datagram(a []string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: a[0]})
}

// numbers succeeds if the kernel knows one of the calls that nobody has looked at, or one of another table.
func numbers([]string) error {
	wrong := ^uintptr(0)
	try := func(number uintptr) bool {
		_, _, errno := unix.Syscall6(number, wrong, wrong, wrong, wrong, wrong, wrong)
		if errno != unix.ENOSYS {
			fmt.Fprintf(os.Stderr, "%#x: %v\n", number, errno)
		}
		return errno != unix.ENOSYS
	}
	for number := uintptr(0); number <= lastTried; number++ {
		if _, known := table.SyscallNumbers[int(number)]; !known && !unfiltered(number) && try(number) {
			return nil
		}
		if try(foreignCalls | number) {
			return nil
		}
	}
	return errors.New("the kernel says that it has none of them")
}

// unfiltered are the calls that amd64 kernels from 6.14 on let past every filter: those by which a probe, that root has
// put into a program, reports. They do nothing for anybody else.
func unfiltered(number uintptr) bool {
	return runtime.GOARCH == "amd64" && (number == 335 || number == 336)
}

func setxattrat(a []string) error {
	path, err := unix.BytePtrFromString(a[0])
	if err != nil {
		return err
	}
	value := []byte("x")
	args := struct {
		value       uint64
		size, flags uint32
	}{uint64(uintptr(unsafe.Pointer(&value[0]))), 1, 0}
	name := append([]byte("user.y"), 0)
	_, _, errno := unix.Syscall6(sysSetxattrat, atCWD, uintptr(unsafe.Pointer(path)), 0,
		uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	runtime.KeepAlive(value)
	return failed(errno)
}

func removexattrat(a []string) error {
	path, err := unix.BytePtrFromString(a[0])
	if err != nil {
		return err
	}
	name := append([]byte("user.y"), 0)
	_, _, errno := unix.Syscall6(sysRemovexattrat, atCWD, uintptr(unsafe.Pointer(path)), 0,
		uintptr(unsafe.Pointer(&name[0])), 0, 0)
	return failed(errno)
}

// setattr sets the attributes of a file, such as that it cannot be changed.
func setattr(a []string) error {
	path, err := unix.BytePtrFromString(a[0])
	if err != nil {
		return err
	}
	var attributes struct {
		flags                         uint64
		extent, extents, project, cow uint32
	}
	_, _, errno := unix.Syscall6(sysFileSetattr, atCWD, uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0, 0)
	return failed(errno)
}

const atCWD = ^uintptr(99) // AT_FDCWD

// failed: an error that is not that the kernel has no such call is one of a call that was made.
func failed(errno unix.Errno) error {
	if errno == unix.ENOSYS || errno == unix.EPERM {
		return errno
	}
	fmt.Fprintln(os.Stderr, errno)
	return nil
}
