//go:build linux && (amd64 || arm64)

package isolation

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write testdata/calls.txt anew")

// verdict is an action in a word.
func verdict(action uint32) string {
	switch {
	case action == unix.SECCOMP_RET_ALLOW:
		return "allow"
	case action == unix.SECCOMP_RET_USER_NOTIF:
		return "once"
	case action == unix.SECCOMP_RET_KILL_PROCESS:
		return "kill"
	case action&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(unix.Errno(action & unix.SECCOMP_RET_DATA))
	}
	return fmt.Sprintf("%#x", action)
}

// expected is what becomes of each call: the whole list, as somebody has read it. A line has the name, its numbers on
// amd64 and arm64, and the verdict for a room, without one, and without one where Landlock is old.
func expected(t *testing.T) string {
	t.Helper()
	names := map[string]bool{}
	tables := []*arch.Info{arch.X86_64, arch.AARCH64}
	for _, table := range tables {
		for name := range table.SyscallNames {
			names[name] = true
		}
	}
	var text strings.Builder
	text.WriteString("# name, number on amd64, on arm64, verdict: in a room, without one, without one and Landlock " +
		"before version 3\n")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fields := []string{name}
		var here *arch.Info
		for _, table := range tables {
			number, has := table.SyscallNames[name]
			if !has {
				fields = append(fields, "-")
				continue
			}
			here = table
			fields = append(fields, fmt.Sprint(number))
		}
		for _, walls := range []struct {
			mode     Mode
			landlock int
		}{{Room, 7}, {Bare, 7}, {Bare, 2}} {
			fields = append(fields, verdict(actions(here, walls.mode, walls.landlock,
				executeOnce)[here.SyscallNames[name]]))
		}
		text.WriteString(strings.Join(fields, " ") + "\n")
	}
	return text.String()
}

func TestEachCallHasTheVerdictThatSomebodyHasRead(t *testing.T) {
	const path = "testdata/calls.txt"
	got := expected(t)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s is not what the filter does: read the change, then go test -update", path)
	}
}

// TestEveryNameIsOfACall: a name that is misspelt would allow nothing.
func TestEveryNameIsOfACall(t *testing.T) {
	all := slices.Concat(harmless(), harmlessInRoom(), signals())
	for i, name := range all {
		_, amd64 := arch.X86_64.SyscallNames[name]
		_, arm64 := arch.AARCH64.SyscallNames[name]
		if !amd64 && !arm64 || slices.Contains(all[:i], name) {
			t.Errorf("%s is no call, or there twice", name)
		}
	}
}

// The errors by which a marked filter tells its verdicts: above all that the kernel gives by itself.
const (
	allowed  = 2000
	notified = 2001
	killed   = 2002
	errnos   = 2100
)

// mark makes a filter whose verdicts can be asked for one by one without any effect. It holds for calls with a sixth
// argument that nobody else has, and answers each with an error.
func mark(f filter, magic uint32) filter {
	var marked filter
	marked.load(offsetArgs + 8*5)
	marked.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, magic)
	marked.ret(unix.SECCOMP_RET_ALLOW)
	for _, i := range f {
		if i.Code == unix.BPF_RET|unix.BPF_K {
			switch {
			case i.K == unix.SECCOMP_RET_ALLOW:
				i.K = refuseWith(allowed)
			case i.K == unix.SECCOMP_RET_USER_NOTIF:
				i.K = refuseWith(notified)
			case i.K == unix.SECCOMP_RET_KILL_PROCESS:
				i.K = refuseWith(killed)
			default:
				i.K = refuseWith(errnos + unix.Errno(i.K&unix.SECCOMP_RET_DATA))
			}
		}
		marked = append(marked, i)
	}
	return marked
}

// asked is what the kernel says of a call under a marked filter.
func asked(number uintptr, magic uint32, args ...uintptr) string {
	args = append(args, 0, 0, 0, 0, 0)
	_, _, errno := unix.RawSyscall6(number, args[0], args[1], args[2], args[3], args[4], uintptr(magic))
	switch {
	case errno == allowed:
		return "allow"
	case errno == notified:
		return "once"
	case errno == killed:
		return "kill"
	case errno >= errnos:
		return unix.ErrnoName(errno - errnos)
	}
	return fmt.Sprintf("unfiltered: %v", errno)
}

// inThread runs something under a marked filter, in a thread that ends with it.
func inThread(t *testing.T, f filter, do func(magic uint32)) {
	t.Helper()
	const magic = 0x5eccc0de
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never let go: the filter stays
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			failed <- err
			return
		}
		if _, err := mark(f, magic).install(); err != nil {
			failed <- err
			return
		}
		do(magic)
		failed <- nil
	}()
	must(t, <-failed)
}

// TestTheKernelGivesEveryNumberItsVerdict asks the kernel itself: every number that there is, those in between, those
// that kernels to come will have, and those of another table.
func TestTheKernelGivesEveryNumberItsVerdict(t *testing.T) {
	for _, walls := range []struct {
		mode     Mode
		landlock int
		may      executing
	}{
		{Room, 7, executeOnce},
		{Bare, 7, executeOnce},
		{Bare, 2, executeOnce},
		{Bare, 5, executeAny},
		{Room, 1, executeAny},
	} {
		want := actions(table, walls.mode, walls.landlock, walls.may)
		inThread(t, newFilter(walls.mode, walls.landlock, walls.may), func(magic uint32) {
			for number := range 5000 {
				expect := "ENOSYS"
				if action, known := want[number]; known {
					expect = verdict(action)
				}
				if table.SyscallNumbers[number] == "socketpair" {
					expect = "EPERM" // of no kind, as it is asked here
				}
				if unfiltered(uintptr(number)) {
					continue
				}
				if got := asked(uintptr(number), magic); got != expect {
					t.Errorf("%v: %d (%s): got %s, want %s", walls, number, table.SyscallNumbers[number], got, expect)
				}
				if got := asked(foreignCalls|uintptr(number), magic); got != "ENOSYS" {
					t.Errorf("%v: %#x: got %s", walls, foreignCalls|number, got)
				}
			}
			for _, number := range []uintptr{0x3fffffff, 0x7fffffff, 0x80000000, 0xfffffffe} {
				if got := asked(number, magic); got != "ENOSYS" {
					t.Errorf("%v: %#x: got %s", walls, number, got)
				}
			}
		})
	}
}

func TestArgumentsDecideWhereTheCallAloneDoesNot(t *testing.T) {
	inThread(t, newFilter(Room, 7, executeOnce), func(magic uint32) {
		for _, c := range []struct {
			name   string
			number uintptr
			args   []uintptr
			want   string
		}{
			{"a thread", unix.SYS_CLONE, []uintptr{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, "allow"},
			{"a user namespace", unix.SYS_CLONE, []uintptr{unix.CLONE_NEWUSER}, "EPERM"},
			{"a network namespace", unix.SYS_CLONE, []uintptr{unix.CLONE_NEWNET | unix.CLONE_VM}, "EPERM"},
			{"its own limits", unix.SYS_PRLIMIT64, []uintptr{0}, "allow"},
			{"the limits of another process", unix.SYS_PRLIMIT64, []uintptr{1}, "EPERM"},
			{
				"a pair of streams", unix.SYS_SOCKETPAIR,
				[]uintptr{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC},
				"allow",
			},
			{
				"a pair of packets in sequence", unix.SYS_SOCKETPAIR,
				[]uintptr{unix.AF_UNIX, unix.SOCK_SEQPACKET},
				"allow",
			},
			{
				"a pair of datagrams", unix.SYS_SOCKETPAIR,
				[]uintptr{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK},
				"EPERM",
			},
			{
				"a raw pair, which is one of datagrams", unix.SYS_SOCKETPAIR,
				[]uintptr{unix.AF_UNIX, unix.SOCK_RAW},
				"EPERM",
			},
			{"to send", unix.SYS_SENDTO, nil, "allow"},
			{
				"to connect by sending", unix.SYS_SENDTO,
				[]uintptr{3, 0, 0, unix.MSG_FASTOPEN | unix.MSG_NOSIGNAL},
				"EPERM",
			},
			{"to connect by a message", unix.SYS_SENDMSG, []uintptr{3, 0, unix.MSG_FASTOPEN}, "EPERM"},
			{"a filter of its own", unix.SYS_SECCOMP, []uintptr{1, 0}, "allow"},
			{
				"a listener of its own", unix.SYS_SECCOMP,
				[]uintptr{1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_LOG},
				"EPERM",
			},
		} {
			if got := asked(c.number, magic, c.args...); got != c.want {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
		}
	})
}

// TestWhatReachesTheKernelOrOthersIsNeverAllowed is a second opinion on the list, by number, of what must not be in it.
func TestWhatReachesTheKernelOrOthersIsNeverAllowed(t *testing.T) {
	never := []int{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
		unix.SYS_IO_URING_REGISTER, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_INIT_MODULE,
		unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
		unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETTIMEOFDAY,
		unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_NAME_TO_HANDLE_AT,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_MEMFD_SECRET,
		unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
		unix.SYS_CLONE3, unix.SYS_PERSONALITY, unix.SYS_IO_SETUP,
		unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FILE_SETATTR, unix.SYS_LISTNS,
	}
	elsewhere := []int{ // they reach files and processes past Landlock
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
		unix.SYS_SCHED_SETATTR, unix.SYS_SHMGET, unix.SYS_MQ_OPEN, unix.SYS_INOTIFY_ADD_WATCH,
	}
	for mode, numbers := range map[Mode][]int{Room: never, Bare: slices.Concat(never, elsewhere)} {
		of := actions(table, mode, 7, executeOnce)
		for _, number := range numbers {
			if action, known := of[number]; known && action == unix.SECCOMP_RET_ALLOW {
				t.Errorf("%s: %d (%s) is allowed", mode, number, table.SyscallNumbers[number])
			}
		}
	}
}

// TestProgramsWorkBehindTheFilter: what people would list does what it is for, in each mode.
func TestProgramsWorkBehindTheFilter(t *testing.T) {
	lines := map[string]string{
		"git": "export GIT_CONFIG_NOSYSTEM=1; git init -q r && cd r && git config core.hooksPath h && echo a >a " +
			"&& git add a && git -c user.name=a -c user.email=a@b.c commit -qm a && git log --oneline | grep a",
		"python3": `python3 -c "import threading, subprocess, json, hashlib, tempfile; t = ` +
			`threading.Thread(target=print, args=('in a thread',)); t.start(); t.join(); ` +
			`print(subprocess.run(['echo', 'of a child'], capture_output=True, text=True).stdout)"`,
		"node": `node -e "const {execFileSync} = require('child_process'); require('fs').writeFileSync('n', 'x');` +
			` console.log(execFileSync('echo', ['x']).toString()); setTimeout(() => console.log('timer'), 1)"`,
		"perl": `perl -e 'print "x" if fork == 0; wait; open(F, "-|", "echo y"); print <F>'`,
		"tar":  "echo x >f && tar czf f.tgz f && rm f && tar xzf f.tgz --no-same-permissions; cat f",
		"gcc":  `printf '#include <stdio.h>\nint main(){puts("x");}' >c.c && gcc -c c.c -o c.o && test -s c.o`,
		"grep": "echo xyz | grep -q y && seq 1000 | sort -rn --parallel=2 | head -1 | grep 1000 && find . -name " +
			"c.c >/dev/null",
		"xz": "seq 1000 | xz -T2 | xz -d | tail -1",
		"bash": `bash -c 'trap "echo trapped" USR1; (sleep 0; exit 3); echo $?; x=$(seq 3 | tac | paste -sd,); ` +
			`echo "$x"; wait'`,
		"timeout": "timeout 5 true",
		"sqlite3": "sqlite3 d 'create table t(a); insert into t values(1); select * from t'",
		"jq":      "echo '{}' | jq .",
	}
	inEachMode(t, Options{Allow: []string{"unsafe:sh"}}, func(t *testing.T, r *Runner) {
		for program, line := range lines {
			if _, err := lookUp(program); err != nil {
				continue
			}
			if program == "timeout" && r.opts.mode == Bare && landlockOf(t, r) < 6 {
				continue // it cannot signal what it started
			}
			if (program == "sqlite3" || program == "git") && r.opts.mode == Bare {
				continue // they look at every directory on their way, and may not
			}
			if end := run(t, r, 30*time.Second, "sh", "-c", line); end.Exit != 0 {
				t.Errorf("%s: %+v", program, end)
			}
		}
	})
}

func landlockOf(t *testing.T, r *Runner) int {
	t.Helper()
	w, err := r.Inspect(t.Context())
	must(t, err)
	return w.Landlock
}

// TestNothingThatWasWrittenIsExecutedAsALibraryEither: where there is a room, the working and the temporary directory
// are mounted so.
func TestNothingThatWasWrittenIsExecutedAsALibraryEither(t *testing.T) {
	r := newRunner(t, Room, Options{Allow: []string{self(t)}})
	for _, dir := range []string{roomDir, roomTmp, "/"} {
		if end := run(t, r, 10*time.Second, self(t), "attempt", "library", filepath.Join(dir, "x")); end.Exit == 0 ||
			dir != "/" && !strings.Contains(end.Output, "operation not permitted") {
			t.Errorf("%s: %+v", dir, end)
		}
	}
}

// TestWhereSomebodyElseListensLandlockAloneSaysWhatIsExecuted: a kernel has one listener for a process, and in some
// containers it is the runtime's.
func TestWhereSomebodyElseListensLandlockAloneSaysWhatIsExecuted(t *testing.T) {
	type result struct {
		listener int
		err      error
	}
	got := make(chan result)
	go func() {
		runtime.LockOSThread() // and never let go: the filters stay
		var theirs filter
		theirs.load(offsetNumber)
		theirs.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, unix.SYS_REBOOT)
		theirs.ret(unix.SECCOMP_RET_USER_NOTIF)
		theirs.ret(unix.SECCOMP_RET_ALLOW)
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			got <- result{err: err}
			return
		}
		if _, err := theirs.install(); err != nil {
			got <- result{err: err}
			return
		}
		listener, err := (&request{Mode: Room}).filterCalls(7)
		got <- result{listener, err}
	}()
	if r := <-got; r.listener != 0 || r.err != nil {
		t.Errorf("got %+v", r)
	}
}

// TestAProgramThatMayStartOthersStartsThoseOfTheSystemOnly: neither what was written, nor what is in memory only.
func TestAProgramThatMayStartOthersStartsThoseOfTheSystemOnly(t *testing.T) {
	inEachMode(t, Options{Allow: []string{unsafeMark + self(t)}}, func(t *testing.T, r *Runner) {
		for try, ok := range map[string]bool{"execute": true, "again": true, "memfd": false, "drop": false} {
			if end := run(t, r, 10*time.Second, self(t), "attempt", try, "/usr/bin/true"); end.Exit == 0 != ok {
				t.Errorf("%s: %+v", try, end)
			}
		}
	})
}

func TestWhoeverOpensAWorkersWallsIsToldThatNothingIsExecuted(t *testing.T) {
	inEachMode(t, Options{}, func(t *testing.T, r *Runner) {
		w, err := r.Inspect(t.Context())
		must(t, err)
		if !w.Once {
			t.Errorf("got %+v", w)
		}
		w.Once = false
		if open := w.Open(); len(open) == 0 || !strings.Contains(open[0], "loader") {
			t.Errorf("got %q", open)
		}
	})
}
