package mcp

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// attributes put a program into a process group of its own, and have the kernel kill it when Corebot dies without
// having stopped it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// maxRounds is how often processes are looked for: one may start another while it is killed.
const maxRounds = 20

// killMarked kills every process that bears a server's mark in its environment, wherever it has gone. A process that
// has given itself another environment, by executing a program with one, is not found.
func killMarked(mark string) {
	for range maxRounds {
		if !killOnce(mark) {
			return
		}
	}
}

// killOnce says whether there was a process to kill.
func killOnce(mark string) (found bool) {
	variable := []byte(markVariable + "=" + mark)
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err != nil || !bytes.Contains(env, variable) { // not ours to read, or gone
			continue
		}
		found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
	}
	return found
}
