//go:build linux && (amd64 || arm64)

package isolation

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter of system calls is a small program that the kernel runs at each of them, on a seccomp_data: the number at offset 0, the
// architecture at 4, the arguments from 16 on, eight bytes each. Both of our architectures are little-endian.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// newNamespaces are the flags of clone that make namespaces, which would be a way around the walls.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filter is a program under construction. Every rule leaves the number of the call in the accumulator.
type filter []unix.SockFilter

func (f *filter) add(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }
func (f *filter) ret(action uint32)  { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, action) }

func refuseWith(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// refuse answers a call with an error.
func (f *filter) refuse(errno unix.Errno, calls ...uint32) {
	for _, call := range calls {
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, call)
		f.ret(refuseWith(errno))
	}
}

// refuseFlags answers a call with an error if one of the flags is set in an argument.
func (f *filter) refuseFlags(errno unix.Errno, call uint32, arg int, flags uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 4, call)
	f.load(offsetArgs + 8*uint32(arg))
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, flags)
	f.ret(refuseWith(errno))
	f.load(offsetNumber)
}

// newFilter is the filter for a mode and a version of Landlock.
func newFilter(mode Mode, landlock int) filter {
	var f filter
	f.load(offsetArch)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, nativeArch)
	f.ret(unix.SECCOMP_RET_KILL_PROCESS)
	f.load(offsetNumber)
	f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, foreignCalls) // numbers of another table, which the list does not know
	f.ret(unix.SECCOMP_RET_KILL_PROCESS)

	f.refuse(unix.EACCES, unix.SYS_SOCKET)
	f.refuse(unix.ENOSYS, unix.SYS_CLONE3) // its flags cannot be seen from here; libraries fall back to clone
	f.refuseFlags(unix.EPERM, unix.SYS_CLONE, 0, newNamespaces)
	f.refuseFlags(unix.EPERM, unix.SYS_PRLIMIT64, 0, ^uint32(0)) // of another process
	f.refuse(unix.EPERM, never()...)
	f.refuse(unix.EPERM, neverHere()...)
	if mode == Bare {
		f.refuse(unix.EPERM, leftOpen()...)
		f.refuse(unix.EPERM, leftOpenHere()...)
		if landlock < 3 {
			f.refuse(unix.EPERM, unix.SYS_TRUNCATE)
		}
		if landlock < 6 {
			f.refuse(unix.EPERM, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL)
		}
	}
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

// never are calls that no program of a tool has a use for, and that reach the kernel, other processes or the system as a whole.
func never() []uint32 {
	return []uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
		unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_MEMFD_SECRET, unix.SYS_NFSSERVCTL,
	}
}

// leftOpen are calls that reach files and processes elsewhere past Landlock, where no room keeps those out of sight: the mode, owner,
// times and attributes of a file, the priority of a process, and what outlives its maker.
func leftOpen() []uint32 {
	return []uint32{
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
		unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_INOTIFY_ADD_WATCH,
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV,
		unix.SYS_SHMCTL, unix.SYS_SEMCTL, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	}
}

// install puts the calling thread, and whatever it executes, under the filter. no_new_privs must be set.
func (f filter) install() error {
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("install the filter of system calls: %w", err)
	}
	return nil
}
