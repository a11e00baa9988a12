package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// ErrNoAnswer is in the error of a job that began and whose end nobody knows: its worker died, took too long, or
// answered nonsense.
var ErrNoAnswer = errors.New("the worker gave no answer")

// Access is what a job may reach.
type Access int

const (
	Nothing    Access = iota // an empty directory
	ReadFiles                // the workspace, which it reads
	WriteFiles               // the workspace
)

// Job is work of a tool that this binary does in a worker.
type Job struct {
	Tool     string        // whose work it is: each tool has a breaker of its own
	Input    []byte        // what [Serve] hands to its function there; 24 MiB at most
	Access   Access        // beside connections
	Readable []string      // files and directories that it reads, where they exist
	Env      []string      // variables and their values
	Timeout  time.Duration // of waiting for a worker and working, together; over zero
	// Dial makes the connections that it asks for; nil: it has none. The error is told to it, and whether it is a
	// [*Refused].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Refused is why a connection is not made, where it is a rule that forbids it.
type Refused struct{ Reason string }

func (e *Refused) Error() string { return e.Reason }

// Do has this binary do a job behind the walls, and returns its answer when nothing of it is left. The workspace is its
// working directory, or nothing is; of the system's files it sees none. It has no network: connections are made here,
// by Dial, and handed to it.
//
// It runs as Corebot's user if it may reach files, since they are his. Root keeps one capability there, with which it
// passes over the permissions of files, where Landlock lets it reach any.
//
// The error is [ErrNoAnswer] if the job was begun; with any other it was not, or ctx ended.
func (r *Runner) Do(ctx context.Context, j Job) ([]byte, error) {
	if j.Timeout <= 0 || len(j.Input) > maxFrame {
		return nil, fmt.Errorf("%w: a job of %d bytes with the timeout %v: want %d at most and a time over zero",
			corebot.ErrInvalid, len(j.Input), j.Timeout, maxFrame)
	}
	bounded, stop := context.WithTimeoutCause(ctx, j.Timeout, errDeadline)
	defer stop()
	leave, err := r.enter(bounded, j.Tool)
	if err != nil {
		return nil, err
	}
	answer, err := r.do(bounded, j)
	leave(err)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answer, err
}

func (r *Runner) do(ctx context.Context, j Job) ([]byte, error) {
	walls, err := r.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	self, err := ownProgram()
	if err != nil {
		return nil, err
	}
	tmp, err := r.makeTemp()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	defer tmp.remove()
	req := &request{
		Role: becomeProgram, Mode: walls.Mode, Own: true, Program: self.path, Interpreter: self.interpreter,
		Argv: []string{os.Args[0], ToolCommand},
		Env:  append([]string{"GOTRACEBACK=none", "GORACE=atexit_sleep_ms=0"}, j.Env...), Dir: tmp.path, Tmp: tmp.path,
		UID: r.uid, Readable: existing(j.Readable),
		Limits: limits{CPU: j.Timeout, Processes: maxProcesses, Data: maxOwnData, Files: maxOpenFiles},
	}
	if walls.Mode == Bare {
		req.Role = keepProgram
	}
	if j.Access != Nothing {
		req.Dir, req.UID, req.DirReadOnly = r.path, 0, j.Access == ReadFiles
	}
	return r.converse(ctx, req, j)
}

// converse starts a worker, hands it the job, and makes the connections that it asks for, until it has answered or
// ended.
func (r *Runner) converse(ctx context.Context, req *request, j Job) ([]byte, error) {
	ours, theirs, err := newPair()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	link, err := newLink(ours)
	if err != nil {
		_ = theirs.Close() // nobody has it
		return nil, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	defer link.close()
	wanted, done := context.WithCancel(ctx)
	defer done()
	var answer []byte
	heard := make(chan error, 1)
	go func() {
		var err error
		answer, err = link.host(wanted, j)
		heard <- err
		done() // whatever it is still up to
	}()
	_, err = serve(wanted, req, theirs, io.Discard)
	why := <-heard // the worker's end of the link is gone
	switch {
	case why == nil:
		return answer, nil
	case err != nil && ctx.Err() == nil && !link.begun():
		return nil, fmt.Errorf("%w: %w", ErrWorker, err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, context.Cause(ctx))
	}
	return nil, fmt.Errorf("%w: %w", ErrNoAnswer, why)
}

// ownProgram is the file of this binary, for workers to execute.
func ownProgram() (program, error) {
	path, err := os.Readlink("/proc/self/exe")
	if err == nil && strings.HasSuffix(path, " (deleted)") {
		err = corebot.WithHint(errors.New("the file of Corebot's program was replaced while it ran"),
			"start Corebot again")
	}
	p := program{path: path}
	if err == nil {
		err = p.findLoader()
	}
	if err != nil {
		return program{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return p, nil
}

// existing are the paths that there are, without symbolic links, beside those with them.
func existing(paths []string) (found []string) {
	for _, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			found = append(found, path)
			if real != path {
				found = append(found, real)
			}
		}
	}
	return found
}
