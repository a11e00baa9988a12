//go:build linux && (amd64 || arm64)

package isolation

// harmless are the calls that every program may make. They act on its own memory, threads and time, on files as far as
// Landlock lets it open them, and on inherited descriptors. Names that an architecture does not have are left out
// there. Calls that are newer than the table of numbers are missing on purpose.
func harmless() []string {
	return []string{
		// files
		"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "lseek",
		"open", "openat", "creat", "close", "close_range", "dup", "dup2", "dup3", "fcntl", "flock", "ioctl",
		"stat", "lstat", "fstat", "newfstatat", "fstatat", "statx", "access", "faccessat", "faccessat2", "readlink",
		"readlinkat", "statfs", "fstatfs",
		"getdents", "getdents64", "getcwd", "chdir", "fchdir", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat",
		"rename", "renameat", "renameat2",
		"link", "linkat", "symlink", "symlinkat", "mknod", "mknodat", "umask", "ftruncate", "fallocate", "fadvise64",
		"readahead",
		"getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
		"sync", "syncfs", "fsync", "fdatasync", "sync_file_range", "sendfile", "splice", "tee", "vmsplice",
		"copy_file_range", "cachestat",
		"pipe", "pipe2", "poll", "ppoll", "select", "pselect6", "eventfd", "eventfd2", "signalfd", "signalfd4",
		"memfd_create",
		"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "inotify_init",
		"inotify_init1", "inotify_rm_watch",
		// sockets that it was handed, and pairs of its own
		"socketpair", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown", "getsockname",
		"getpeername", "getsockopt", "setsockopt",
		// memory
		"mmap", "mprotect", "munmap", "mremap", "msync", "mincore", "madvise", "brk", "mlock", "mlock2", "munlock",
		"mlockall", "munlockall", "mseal",
		"pkey_alloc", "pkey_free", "pkey_mprotect", "mbind", "get_mempolicy", "set_mempolicy",
		"set_mempolicy_home_node", "membarrier", "map_shadow_stack",
		// processes and threads
		"clone", "fork", "vfork", "exit", "exit_group", "wait4", "waitid", "set_tid_address", "set_robust_list",
		"get_robust_list", "rseq", "restart_syscall",
		"futex", "futex_waitv", "futex_wake", "futex_wait", "futex_requeue", "sched_yield", "sched_getaffinity",
		"sched_getparam", "sched_getscheduler",
		"sched_getattr", "sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval", "getpriority",
		"ioprio_get", "getcpu",
		"getpid", "getppid", "gettid", "getpgid", "getpgrp", "setpgid", "getsid", "setsid", "getuid", "geteuid",
		"getgid", "getegid", "getresuid", "getresgid", "getgroups",
		"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid",
		"capget", "capset",
		"prctl", "arch_prctl", "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
		"getrlimit", "setrlimit", "prlimit64", "getrusage", "sysinfo", "uname", "times", "getrandom",
		// signals to itself, and time
		"rt_sigaction", "rt_sigprocmask", "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "rt_sigreturn",
		"sigaltstack", "pause",
		"nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "alarm", "getitimer",
		"setitimer",
		"timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete", "timerfd_create",
		"timerfd_settime", "timerfd_gettime",
	}
}

// harmlessInRoom are calls that reach files and processes elsewhere past Landlock. They are harmless only where a room
// hides those files and processes. They change the mode, owner, times and attributes of a file and the priority of a
// process, or make things that outlive their maker.
func harmlessInRoom() []string {
	return []string{
		"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "utime", "utimes",
		"futimesat", "utimensat",
		"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "inotify_add_watch",
		"setpriority", "ioprio_set", "sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity",
		"migrate_pages", "move_pages",
		"shmget", "shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv",
		"msgctl",
		"mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
	}
}

// ownNetwork are the calls with which programs talk to each other in a network that has only them. Sockets of another
// kind than TCP are refused as they are made.
func ownNetwork() []string {
	return []string{"socket", "connect", "bind", "listen", "accept", "accept4"}
}

// signals are calls by which processes end each other, where nothing tells those of a program from others.
func signals() []string {
	return []string{
		"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open",
		"pidfd_send_signal",
	}
}
