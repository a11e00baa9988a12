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

// keep runs the program of a worker that has no namespace of its own, and leaves no process of it behind. Every process
// that the program starts becomes a child of the keeper when it loses its parent, also after it became a daemon. So the
// keeper finds all of them. It kills them when the program ends, or when the other end of the request pipe is closed.
func (r *request) keep() int {
	// The program can run as the keeper's user and signal it. Signals that can be caught are ignored.
	signal.Notify(make(chan os.Signal, 1))
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return tell(report{Error: "adopt what is orphaned: " + err.Error()})
	}
	cancelled := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, descriptor(requestFD)) // nothing is sent any more: this ends when the pipe is closed
		close(cancelled)
	}()
	child := *r
	child.Role = becomeProgram
	w, err := startWorker(&child, os.Stdin, os.Stdout)
	if err != nil {
		return tell(report{Error: err.Error()})
	}
	select {
	case <-w.done:
	case <-cancelled:
		w.kill()
	}
	killDescendants()
	end, err := w.wait()
	if err != nil {
		return tell(report{Error: err.Error()})
	}
	return tell(end)
}

// killDescendants kills all descendants of this process, and returns when none is left. It has no time limit.
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

// stopDescendants stops all descendants of this process and returns their ids. A stopped process starts no other, and
// still counts against the limit of processes. So a swarm of processes cannot grow while the keeper looks for its
// members. If the keeper killed them one by one, each would make room for a new one. A program that resumes stopped
// processes only delays its end by some rounds.
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

// reap collects the children that have ended, and says whether others are left.
func reap() (othersLeft bool) {
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

// descendants are all descendants of a process, as /proc shows them now.
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

// process is one process as /proc shows it.
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

// tasksOf counts the threads of a user, since Linux counts all of them against the limit on processes.
func tasksOf(uid int) (n uint64) {
	for _, p := range processes() {
		if p.uid == uid {
			n += p.threads
		}
	}
	return n
}
