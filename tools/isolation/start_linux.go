//go:build linux && (amd64 || arm64)

package isolation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// for a keeper to have killed everything: milliseconds, on a busy machine seconds
	keeperTime = 30 * time.Second
	pipeTime   = 500 * time.Millisecond // for the last output after a worker's end
)

// worker is a process that was started.
type worker struct {
	cmd     *exec.Cmd
	request *os.File // open as long as the worker is wanted
	gentle  bool     // it is a keeper, which has to kill others first
	done    chan struct{}
	err     error  // of Wait; once done is closed
	said    report // the last report; once done is closed
}

// startWorker executes this binary as a worker. in is its standard input, which is its own from then on; nil: it has
// none. Its thread stays with the caller until wait: the kernel would take the thread's end for Corebot's.
func startWorker(r *request, in *os.File, out io.Writer) (_ *worker, err error) {
	if in != nil {
		defer in.Close() //nolint:errcheck // the worker has its own
	}
	requests, request, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	reports, report, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), requests.Close(), request.Close())
	}
	w := &worker{
		cmd: exec.Command("/proc/self/exe", WorkerCommand), request: request, gentle: r.Role == keepProgram,
		done: make(chan struct{}),
	}
	w.cmd.Args[0] = os.Args[0] // as it was called the first time
	w.cmd.Dir, w.cmd.Env = "/", []string{"GOTRACEBACK=none", "GORACE=atexit_sleep_ms=0"}
	w.cmd.Stdout, w.cmd.Stderr, w.cmd.WaitDelay = out, out, pipeTime
	if in != nil {
		w.cmd.Stdin = in
	}
	w.cmd.ExtraFiles = []*os.File{requests, report}
	var network, theirs *os.File
	if r.Network {
		if network, theirs, err = newPair(); err != nil {
			return nil, errors.Join(err, requests.Close(), request.Close(), reports.Close(), report.Close())
		}
		w.cmd.ExtraFiles = append(w.cmd.ExtraFiles, theirs)
	}
	r.Trees = map[string]int{}
	for _, t := range r.trees {
		r.Trees[t.path] = requestFD + len(w.cmd.ExtraFiles)
		w.cmd.ExtraFiles = append(w.cmd.ExtraFiles, t.tree)
	}
	w.cmd.SysProcAttr = attributes(r)
	runtime.LockOSThread()
	err = w.cmd.Start()
	_, _ = requests.Close(), report.Close() // the worker has its own
	if theirs != nil {
		_ = theirs.Close()
	}
	if err != nil {
		runtime.UnlockOSThread()
		err = errors.Join(fmt.Errorf("start a worker: %w", err), request.Close(), reports.Close())
		if network != nil {
			err = errors.Join(err, network.Close())
		}
		return nil, err
	}
	if network != nil {
		go w.attendNetwork(network, r.serve)
	}
	go w.attend(r, reports)
	return w, nil
}

// attributes are what a worker is born with. In a room it has namespaces: root may map every user into its own, others
// themselves only, and need the capabilities that furnishing takes.
func attributes(r *request) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if r.Role == keepProgram { // it must outlive Corebot, to kill the others; the end of its pipe tells it
		return a
	}
	a.Pdeathsig = syscall.SIGKILL
	if r.Mode == Bare {
		return a
	}
	a.Cloneflags = newNamespaces &^ unix.CLONE_NEWCGROUP
	uid, gid, size := os.Geteuid(), os.Getegid(), 1
	if uid == 0 {
		uid, gid, size = 0, 0, 1<<31-1
		a.GidMappingsEnableSetgroups = true
	} else {
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: size}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: size}}
	return a
}

// attend gives a worker its request, hears its reports, and waits for its end.
func (w *worker) attend(r *request, reports *os.File) {
	defer close(w.done)
	go func() { _ = r.send(w.request) }() // a worker that does not read it reports why, or ends
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for d := json.NewDecoder(io.LimitReader(reports, maxReport)); ; {
			var said report
			if d.Decode(&said) != nil {
				return
			}
			w.said = said
		}
	}()
	w.err = w.cmd.Wait()
	_ = reports.SetReadDeadline(time.Now().Add(pipeTime))
	<-heard
	_ = reports.Close()
}

// send writes a request and not a byte behind it: to a worker, whatever else comes is the end.
func (r *request) send(to io.Writer) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	_, err = to.Write(text)
	return err
}

// kill ends the worker and all that it has started. In namespaces of its own everything dies with the
// first process; a keeper is told. A keeper that cannot end, because the kernel does not let go of a process, is killed
// after keeperTime.
func (w *worker) kill() {
	_ = w.request.Close()
	if w.gentle {
		select {
		case <-w.done:
			return
		case <-time.After(keeperTime):
		}
	}
	_ = w.cmd.Process.Kill()
}

// wait gives how the program ended. It is to be called once, where the worker was started.
func (w *worker) wait() (report, error) {
	<-w.done
	runtime.UnlockOSThread()
	_ = w.request.Close()
	if exit := (*exec.ExitError)(nil); w.err != nil && !errors.As(w.err, &exit) &&
		!errors.Is(w.err, exec.ErrWaitDelay) {
		return report{}, fmt.Errorf("wait for a worker: %w", w.err)
	}
	state, _ := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	end := w.said
	switch {
	case end.Error != "":
		return report{}, errors.New(end.Error)
	case end.Started:
		end = report{Ended: true, Exit: state.ExitStatus()}
		if state.Signaled() {
			end.Signal = int(state.Signal())
		}
	case !end.Ended && end.Landlock == 0:
		return report{}, fmt.Errorf("it ended before its program began (%s)", w.cmd.ProcessState)
	}
	return end, nil
}

// serve has a worker do what a request says. At the end of ctx it is killed, with all that it has started.
func serve(ctx context.Context, r *request, in *os.File, out io.Writer) (report, error) {
	if r.Mode == Bare {
		r.Limits.Processes += tasksOf(cmp.Or(r.UID, os.Geteuid()))
	}
	w, err := startWorker(r, in, out)
	if err != nil {
		return report{}, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		w.kill()
	}
	return w.wait()
}

// newPair is a connection between two processes.
func newPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a connection to a worker: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "corebot"), nil
}

// handleSpace is how much room a handle takes beside a message.
const handleSpace = 24 // bytes

// handleMessage is how a handle travels beside a message.
func handleMessage(f *os.File) []byte { return unix.UnixRights(int(f.Fd())) }

// parseHandle takes a handle that came beside a message.
func parseHandle(control []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("read what came with a message: %w", err)
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("%d things came with a message", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, fmt.Errorf("read the handle that came with a message: %w", err)
	}
	if len(fds) != 1 { // Corebot sends one, and the room for it has none for more
		return nil, fmt.Errorf("%d handles came with a message", len(fds))
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "connection"), nil
}
