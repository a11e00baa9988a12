//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// A filter of system calls is a small program that the kernel runs at each call. It reads a seccomp_data: the number at
// offset 0, the architecture at 4, the arguments from 16 on, eight bytes each. Both of our architectures are
// little-endian.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// newNamespaces are the flags of clone that make namespaces, which would be a way around the walls.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// executing says what a filter does with the calls that execute a program.
type executing string

const (
	executeOnce executing = "once"    // whoever listens decides; the kernel refuses when nobody does
	executeAny  executing = "any"     // as far as Landlock allows
	executeNet  executing = "network" // the same, with TCP sockets in a network of its own
)

// filter is a program under construction. Every rule leaves the number of the call in the accumulator.
type filter []unix.SockFilter

func (f *filter) add(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }
func (f *filter) ret(action uint32)  { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, action) }

func refuseWith(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// refuseFlags answers a call with EPERM if one of the flags is set in an argument.
func (f *filter) refuseFlags(call uint32, arg int, flags uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 4, call)
	f.load(offsetArgs + 8*uint32(arg))
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, flags)
	f.ret(refuseWith(unix.EPERM))
	f.load(offsetNumber)
}

// allowOnly answers a call with EPERM unless an argument, under a mask, is one of two values.
func (f *filter) allowOnly(call uint32, arg int, mask, one, other uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 6, call)
	f.load(offsetArgs + 8*uint32(arg))
	f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, mask)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 2, 0, one)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, other)
	f.ret(refuseWith(unix.EPERM))
	f.load(offsetNumber)
}

// newFilter is the filter for a mode and a version of Landlock. It lets only known harmless calls through. To a
// program, a call of a later kernel is a call that this kernel does not have.
func newFilter(mode Mode, landlock int, may executing) filter {
	var f filter
	f.load(offsetArch)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, uint32(table.ID))
	f.ret(unix.SECCOMP_RET_KILL_PROCESS)
	f.load(offsetNumber)

	f.refuseSetUID()
	f.refuseFlags(unix.SYS_CLONE, 0, newNamespaces)
	f.refuseFlags(unix.SYS_PRLIMIT64, 0, ^uint32(0)) // of another process
	// A pair of datagram sockets can send to any path, and a connected one can be connected elsewhere as it sends.
	f.allowOnly(unix.SYS_SOCKETPAIR, 1, 0xf, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	f.refuseFlags(unix.SYS_SENDTO, 3, unix.MSG_FASTOPEN)
	f.refuseFlags(unix.SYS_SENDMSG, 2, unix.MSG_FASTOPEN)
	// Of two listeners the newer one decides: a program of its own would let through what this one refuses.
	f.refuseFlags(unix.SYS_SECCOMP, 1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if may == executeNet { // a socket of its own network, over TCP and nothing else
		f.allowOnly(unix.SYS_SOCKET, 0, ^uint32(0), unix.AF_INET, unix.AF_INET6)
		f.allowOnly(unix.SYS_SOCKET, 1, 0xf, unix.SOCK_STREAM, unix.SOCK_STREAM)
		f.allowOnly(unix.SYS_SOCKET, 2, ^uint32(0), 0, unix.IPPROTO_TCP)
	}
	f.ranges(actions(table, mode, landlock, may))
	return f
}

// setUIDBits have whoever executes a file become its owner, or its group.
const setUIDBits = unix.S_ISUID | unix.S_ISGID

// refuseSetUID answers with EPERM where a file would get one of [setUIDBits]. The mounts of a program ignore them, but
// outside the file would give its owner's rights away. A directory gets no set-gid bit either.
func (f *filter) refuseSetUID() {
	for name, mode := range map[string]int{
		"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2,
	} {
		if number, here := table.SyscallNames[name]; here {
			f.refuseFlags(uint32(number), mode, setUIDBits)
		}
	}
	for name, flags := range map[string]int{"open": 1, "openat": 2} {
		number, here := table.SyscallNames[name]
		if !here {
			continue
		}
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 6, uint32(number))
		f.load(offsetArgs + 8*uint32(flags+1))
		f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 3, setUIDBits)
		f.load(offsetArgs + 8*uint32(flags))
		// without one of these flags the mode means nothing, and can be anything
		f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY)
		f.ret(refuseWith(unix.EPERM))
		f.load(offsetNumber)
	}
}

// ranges gives each number its action. A number that is no call in the table is no call for programs: numbers in
// between, numbers of newer kernels, numbers of x32.
func (f *filter) ranges(of map[int]uint32) {
	action := func(number int) uint32 {
		if a, known := of[number]; known {
			return a
		}
		return refuseWith(unix.ENOSYS)
	}
	last := 0
	for number := range of {
		last = max(last, number)
	}
	for number := 0; number <= last; {
		end := number + 1
		for end <= last && action(end) == action(number) {
			end++
		}
		f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 1, 0, uint32(end))
		f.ret(action(number))
		number = end
	}
	f.ret(refuseWith(unix.ENOSYS))
}

// actions are what becomes of each call of an architecture's table: those that are not named are refused.
func actions(table *arch.Info, mode Mode, landlock int, may executing) map[int]uint32 {
	of := map[int]uint32{}
	for number := range table.SyscallNumbers {
		of[number] = refuseWith(unix.EPERM)
	}
	set := func(action uint32, names []string) {
		for _, name := range names {
			if number, here := table.SyscallNames[name]; here { // some are of one architecture only
				of[number] = action
			}
		}
	}
	set(unix.SECCOMP_RET_ALLOW, harmless())
	if mode == Room {
		set(unix.SECCOMP_RET_ALLOW, harmlessInRoom())
	}
	if mode == Room || landlock >= 3 {
		set(unix.SECCOMP_RET_ALLOW, []string{"truncate"})
	}
	if mode == Room || landlock >= 6 {
		set(unix.SECCOMP_RET_ALLOW, signals())
	}
	if may == executeNet {
		set(unix.SECCOMP_RET_ALLOW, ownNetwork())
	} else {
		set(refuseWith(unix.EACCES), []string{"socket"})
	}
	// Flags of clone3 and modes of openat2 cannot be seen from here. Libraries fall back to clone and openat.
	set(refuseWith(unix.ENOSYS), []string{"clone3", "openat2"})
	if may == executeOnce {
		set(unix.SECCOMP_RET_USER_NOTIF, []string{"execve", "execveat"})
	} else {
		// not execveat: a file of memory only has no path that Landlock could see
		set(unix.SECCOMP_RET_ALLOW, []string{"execve"})
	}
	return of
}

// install puts the calling thread, and every program that it executes, under the filter. The bit no_new_privs must be
// set. The filter's notifications come out at listener, which is zero if the filter has none.
func (f filter) install() (listener int, err error) {
	flags := 0
	if slices.ContainsFunc(f, func(i unix.SockFilter) bool {
		return i.Code == unix.BPF_RET|unix.BPF_K && i.K == unix.SECCOMP_RET_USER_NOTIF
	}) {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, uintptr(flags),
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return 0, fmt.Errorf("install the filter of system calls: %w", errno)
	}
	return int(fd), nil
}

// filterCalls puts the calling thread under the filter for a request. A kernel has one listener for all filters of a
// process. If a container's listener has that place, Landlock alone says what can be executed, and listener is zero.
func (r *request) filterCalls(landlock int) (listener int, err error) {
	if r.Sandbox {
		return newFilter(r.Mode, landlock, executeNet).install()
	}
	if !r.Family {
		listener, err = newFilter(r.Mode, landlock, executeOnce).install()
		if !errors.Is(err, unix.EBUSY) {
			return listener, err
		}
	}
	return newFilter(r.Mode, landlock, executeAny).install()
}
