//go:build linux && (amd64 || arm64)

package isolation

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keep runs a bare worker's program and makes sure that nothing of it is left. A process that loses its parent becomes
// a child of the keeper, wherever it went. So the keeper finds all that the program has started, and kills it when the
// program ends or nobody wants it any more.
func (r *request) keep() int {
	// the program may be able to signal us; nothing but a kill from outside ends a keeper
	signal.Notify(make(chan os.Signal, 1))
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return tell(report{Error: "adopt what is orphaned: " + err.Error()})
	}
	unwanted := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, descriptor(requestFD)) // the end of the pipe is all that still comes
		close(unwanted)
	}()
	child := *r
	child.Role = becomeProgram
	w, err := startWorker(&child, os.Stdin, os.Stdout)
	if err != nil {
		return tell(report{Error: err.Error()})
	}
	select {
	case <-w.done:
	case <-unwanted:
		w.kill()
	}
	killDescendants()
	end, err := w.wait()
	if err != nil {
		return tell(report{Error: err.Error()})
	}
	return tell(end)
}

// killDescendants ends when this process has no children.
func killDescendants() {
	for {
		for _, pid := range stopDescendants() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if !reap() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// stopRounds bounds how often stopDescendants looks for processes that it has not stopped yet.
const stopRounds = 16

// stopDescendants stops all processes below this one and gives their ids. A stopped process starts no other, and keeps
// its place under the limit of processes. So a swarm cannot grow while the keeper looks through it. Killed processes
// would leave their places to the rest. A program that wakes the stopped ones gains a few rounds.
func stopDescendants() (pids []int) {
	stopped := map[int]bool{}
	for range stopRounds {
		before := len(stopped)
		for _, p := range descendants(os.Getpid()) {
			if !stopped[p.pid] {
				_ = unix.Kill(p.pid, unix.SIGSTOP)
				stopped[p.pid] = true
			}
		}
		if len(stopped) == before {
			break
		}
	}
	return slices.Collect(maps.Keys(stopped))
}

// reap collects the children that have ended, and says whether there are others.
func reap() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.ECHILD {
			return false
		}
		if err == nil && pid == 0 {
			return true
		}
	}
}

// descendants are the processes below one, as /proc shows them now.
func descendants(root int) (found []process) {
	children := map[int][]process{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	for next := children[root]; len(next) > 0; {
		found = append(found, next...)
		var below []process
		for _, p := range next {
			below = append(below, children[p.pid]...)
		}
		next = below
	}
	return found
}

// process is what /proc says of one.
type process struct {
	pid, parent, uid int
	threads          uint64
}

func processes() (all []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended
		}
		all = append(all, parseStatus(pid, string(status)))
	}
	return all
}

func parseStatus(pid int, status string) process {
	p := process{pid: pid}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch name {
		case "PPid":
			p.parent, _ = strconv.Atoi(fields[0])
		case "Uid":
			p.uid, _ = strconv.Atoi(fields[0])
		case "Threads":
			p.threads, _ = strconv.ParseUint(fields[0], 10, 64)
		}
	}
	return p
}

// tasksOf counts the threads of a user: the limit on processes counts those that have nothing to do with us, too.
func tasksOf(uid int) (n uint64) {
	for _, p := range processes() {
		if p.uid == uid {
			n += p.threads
		}
	}
	return n
}
