package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/redact"
)

// process is a server that runs as a program, in a process group of its own.
type process struct {
	cmd   *exec.Cmd
	in    *os.File // its standard input
	out   *os.File // its standard output
	errs  *os.File // its standard error
	mark  string
	ended chan struct{} // closed once the program has ended
	err   error         // how; once ended is closed
	last  lastWords
}

// lastWords is the line of a program's standard error that is most likely to say why it ended: the newest line about an
// error, else the newest line.
type lastWords struct {
	mu      sync.Mutex
	line    string
	isError bool
	read    chan struct{} // closed at the end of the standard error
}

func (w *lastWords) hear(line string) {
	isError := strings.Contains(strings.ToLower(line), "error") || strings.HasPrefix(line, "panic:")
	w.mu.Lock()
	defer w.mu.Unlock()
	if isError || !w.isError {
		w.line, w.isError = line, isError
	}
}

// say waits a moment for the end of what the program wrote. A child of the program can hold its standard error open.
func (w *lastWords) say() string {
	waits(w.read, 100*time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line
}

// startProcess starts a program. The caller must stop a program that was started, also once it has ended by itself: its
// children may go on.
func startProcess(path string, s Spec, env []string, mark string) (_ *process, err error) {
	p := &process{cmd: &exec.Cmd{
		Path: path, Args: append([]string{s.Command}, s.Args...), Env: env, Dir: s.Dir,
		SysProcAttr: attributes(),
	}, mark: mark, ended: make(chan struct{}), last: lastWords{read: make(chan struct{})}}
	var theirs []io.Closer
	defer func() {
		for _, c := range theirs {
			_ = c.Close() // the program has its own
		}
		if err != nil {
			p.closePipes()
		}
	}()
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.in, theirs = in, append(theirs, stdin)
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.out, theirs = out, append(theirs, stdout)
	errs, stderr, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.errs, theirs = errs, append(theirs, stderr)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderr
	started := make(chan error)
	go p.attend(started)
	if err := <-started; err != nil {
		return nil, err // there is nothing to stop
	}
	return p, nil
}

// attend starts the program and waits for its end. It keeps its thread: the kernel would take the thread's end for
// Corebot's and kill the program.
func (p *process) attend(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.ended)
	}
}

func (p *process) closePipes() {
	for _, f := range []*os.File{p.in, p.out, p.errs} {
		if f != nil {
			_ = f.Close() // a pipe keeps nothing that could be lost; a second close says that it is one
		}
	}
}

// stop ends the program and all that it started. The end of its input asks it to go, SIGTERM tells it to, SIGKILL makes
// it, each after a grace time. Then stop kills the rest of its process group, and every process outside of the group
// that still bears the server's mark.
func (p *process) stop(grace time.Duration) {
	_ = p.in.Close() // as above
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if waits(p.ended, grace) {
			break
		}
		p.signal(signal)
	}
	waits(p.ended, grace)
	p.signal(syscall.SIGKILL)
	killMarked(p.mark)
	p.closePipes()
}

// a group that is gone is what is wanted
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// waits says whether a channel was closed in time.
func waits(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// how says how the program ended and what it said last, for people.
func (p *process) how() error {
	err := errors.New("the program has ended")
	if p.err != nil {
		err = fmt.Errorf("%w: %w", err, p.err)
	}
	if said := p.last.say(); said != "" {
		err = fmt.Errorf("%w; it said: %s", err, said)
	}
	return err
}

// log writes the program's standard error to our log, until it ends.
func (p *process) log(log zerolog.Logger, secrets *redact.Redactor) {
	defer close(p.last.read)
	logOutput(p.errs, log, secrets, p.last.hear)
}

const (
	maxLogLine  = 1 << 10 // bytes of a line that are logged
	logWindow   = 10 * time.Second
	linesLogged = 20 // in a window
)

// logOutput writes a program's standard error to our log, until it ends: a few lines, cut short, without the configured
// values that may be secret. It reads the other lines, too, or the program would stand still. hear gets every line.
func logOutput(r io.Reader, log zerolog.Logger, secrets *redact.Redactor, hear func(string)) {
	in := bufio.NewReaderSize(r, maxLogLine)
	var since time.Time
	logged, left := 0, 0
	for {
		line, err := in.ReadSlice('\n')
		if now := time.Now(); now.Sub(since) > logWindow {
			if left > 0 {
				log.Warn().Int("lines", left).Msg("an MCP server wrote more than is logged")
			}
			since, logged, left = now, 0, 0
		}
		text := strings.TrimSpace(secrets.Text(redact.Visible(string(line))))
		if text != "" {
			hear(text)
		}
		switch {
		case text == "":
		case logged >= linesLogged:
			left++
		default:
			logged++
			log.Info().Str("stderr", text).Msg("an MCP server says")
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is cut short
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}
