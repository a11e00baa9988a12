package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/breaker"
	"github.com/corebot/corebot/internal/rootfs"
)

// Defaults of [Options].
const (
	DefaultMaxWorkers = 4
	DefaultMaxOutput  = 1 << 20 // bytes
	DefaultUID        = 65534   // nobody
)

// A machine on which workers keep failing gets no more of them for a while: they would only make it worse. A program
// that ends with an error is no failure of its worker.
const (
	breakAfter = 5 // in a row
	coolDown   = 30 * time.Second
)

// Options of a [Runner]. Zero means the default.
type Options struct {
	// what may run: names, or absolute paths; "unsafe:" before one lets it execute other programs; behind it what its
	// arguments must be
	Allow      []string
	Env        []string // names of variables that programs see, beside the fixed ones
	Readable   []string // directories that programs may read, beside the system's
	Closed     []string // directories that must stay out of reach, such as the home; nothing above may lead there
	UID        int      // who programs run as, user and group, where Corebot is root
	MaxWorkers int      // at once; further calls wait
	MaxOutput  int      // bytes that are kept of a program's output
	Homes      string   // the directory for the homes of programs in sandboxes; empty: there are no sandboxes

	mode Mode // tests: no other than this
}

// Runner runs programs in workers. It is safe for use by several goroutines.
type Runner struct {
	workspace *os.Root
	path      string // of the workspace
	allow     allowlist
	opts      Options
	uid       int // zero: programs run as who Corebot is
	places    chan struct{}

	mu       sync.Mutex
	walls    *Walls                      // once they are known; guarded by mu
	breakers map[string]*breaker.Breaker // by the tool that workers run for; guarded by mu
}

// New makes a runner for the conversations of a workspace. It resolves the allowlist and starts nothing. Close ends it.
func New(workspace string, o Options) (*Runner, error) {
	path, err := filepath.EvalSymlinks(workspace)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("find the workspace: %w", err)
	}
	o, allow, err := o.complete(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	r := &Runner{
		workspace: root, path: path, allow: allow, opts: o, places: make(chan struct{}, o.MaxWorkers),
		breakers: map[string]*breaker.Breaker{},
	}
	if os.Geteuid() == 0 {
		r.uid = o.UID
	}
	return r, nil
}

// Check says whether [New] would take the options for a workspace, which need not exist yet.
func (o Options) Check(workspace string) error {
	_, _, err := o.complete(workspace)
	return err
}

// complete puts in the defaults, resolves the allowlist, and refuses what cannot be.
func (o Options) complete(workspace string) (Options, allowlist, error) {
	if o.UID < 0 || o.MaxWorkers < 0 || o.MaxOutput < 0 {
		return o, nil, fmt.Errorf("%w: a runner wants limits that are not negative", corebot.ErrInvalid)
	}
	for number, standard := range map[*int]int{
		&o.UID: DefaultUID, &o.MaxWorkers: DefaultMaxWorkers,
		&o.MaxOutput: DefaultMaxOutput,
	} {
		if *number == 0 {
			*number = standard
		}
	}
	if err := checkEnv(o.Env); err != nil {
		return o, nil, err
	}
	var err error
	if o.Readable, err = readable(o.Readable, append([]string{workspace}, o.Closed...)); err != nil {
		return o, nil, err
	}
	allow, err := newAllowlist(o.Allow, []string{workspace})
	return o, allow, err
}

// readable resolves the directories that programs may read, and refuses those, the system's included, through which
// they would reach what is closed to them.
func readable(dirs, closed []string) (resolved []string, err error) {
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			return nil, corebot.WithHint(fmt.Errorf("isolation.readable: %q is not an absolute path", dir),
				"begin it with /")
		}
		path, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, corebot.WithHint(fmt.Errorf("isolation.readable: %w", err), "name directories that exist")
		}
		resolved = append(resolved, path)
	}
	for _, dir := range append(systemDirs(), resolved...) {
		for _, secret := range closed {
			if real, err := filepath.EvalSymlinks(secret); err == nil {
				secret = real
			}
			if within(secret, dir) || containsAny(resolved, dir) && within(dir, secret) {
				return nil, corebot.WithHint(fmt.Errorf("programs may read %s, and %s must stay closed to them", dir,
					secret),
					"keep the home out of the system's directories and of isolation.readable")
			}
		}
	}
	return resolved, nil
}

// Programs are what can be run, sorted: names, and behind them what their arguments must be. There "*" is any argument
// that is no option, "**" any number of them, and a "*" behind a text whatever begins with it.
func (r *Runner) Programs() []string { return r.allow.entries() }

// Close releases the workspace.
func (r *Runner) Close() error { return r.workspace.Close() }

// errDeadline ends a program's context at its own deadline.
var errDeadline = errors.New("the worker took too long")

// Run runs a program and returns when nothing of it is left. A program that fails, or is killed at its deadline, has
// ended all the same; an error means that it did not run or that ctx ended.
func (r *Runner) Run(ctx context.Context, c Command) (Ended, error) {
	p, err := r.allow.find(c.Argv)
	if err != nil {
		return Ended{}, err
	}
	if c.Timeout <= 0 {
		return Ended{}, fmt.Errorf("%w: timeout %v: want a time over zero", corebot.ErrInvalid, c.Timeout)
	}
	bounded, stop := context.WithTimeoutCause(ctx, c.Timeout, errDeadline)
	defer stop()
	leave, err := r.enter(bounded, "")
	if err != nil {
		return Ended{}, err
	}
	end, err := r.run(bounded, c, p)
	leave(err)
	if ctx.Err() != nil {
		return Ended{}, context.Cause(ctx)
	}
	return end, err
}

// givenUp says whether the end of a bounded context is not its deadline but its caller's.
func givenUp(bounded context.Context) bool {
	return bounded.Err() != nil && !errors.Is(context.Cause(bounded), errDeadline)
}

// enter waits for a free place among the workers and asks the breaker of a tool; programs have the breaker without a
// name. The caller reports the result with leave.
func (r *Runner) enter(bounded context.Context, tool string) (leave func(error), err error) {
	select {
	case r.places <- struct{}{}:
	case <-bounded.Done():
		if givenUp(bounded) {
			return nil, context.Cause(bounded)
		}
		return nil, fmt.Errorf("%w: all %d were busy until the deadline", ErrBusy, cap(r.places))
	}
	guard := r.breakerOf(tool)
	pass, ok, wait, cause := guard.Enter(time.Now())
	if !ok {
		<-r.places
		return nil, fmt.Errorf("%w: workers failed, and the next one is tried in %v: %w", ErrUnavailable,
			wait.Round(time.Second), cause)
	}
	return func(err error) {
		switch {
		case givenUp(bounded): // that tells nothing
			guard.Release(pass)
		case err != nil:
			guard.Failed(pass, time.Now(), err)
		default:
			guard.Succeeded(pass)
		}
		<-r.places
	}, nil
}

// breakerOf gives the breaker of a tool.
func (r *Runner) breakerOf(tool string) *breaker.Breaker {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.breakers[tool]
	if !ok {
		b = breaker.New(breakAfter, backoff.Policy{Base: coolDown, Max: coolDown})
		r.breakers[tool] = b
	}
	return b
}

// run runs an allowed program in a worker.
func (r *Runner) run(ctx context.Context, c Command, p program) (Ended, error) {
	walls, err := r.Inspect(ctx)
	if err != nil {
		return Ended{}, err
	}
	dir, err := r.directory(c.Key)
	if err != nil {
		return Ended{}, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	req := &request{
		Role: becomeProgram, Mode: walls.Mode, Program: p.path, Interpreter: p.interpreter, Family: p.family,
		Argv: c.Argv, Dir: dir,
		Readable: r.opts.Readable, UID: r.uid, Limits: limits{
			CPU: c.Timeout, Processes: maxProcesses, Data: maxData, Files: maxOpenFiles,
		},
	}
	home, tmp := roomDir, roomTmp
	if walls.Mode == Bare {
		req.Role = keepProgram
		t, err := r.makeTemp()
		if err != nil {
			return Ended{}, fmt.Errorf("%w: %w", ErrWorker, err)
		}
		defer t.remove()
		req.Tmp = t.path
		home, tmp = dir, t.path
	}
	req.Env = environment(home, tmp, r.opts.Env)
	return r.execute(ctx, req, nil)
}

// execute has a worker do what a request says, and turns its end into ours. The output goes to a writer, or is kept.
func (r *Runner) execute(ctx context.Context, req *request, to io.Writer) (Ended, error) {
	out := &output{limit: r.opts.MaxOutput}
	if to == nil {
		to = out
	}
	began := time.Now()
	end, err := serve(ctx, req, nil, to)
	switch {
	case err != nil && ctx.Err() != nil: // the deadline came before the program began
		end = report{Signal: int(syscall.SIGKILL)}
	case err != nil:
		return Ended{}, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	e := Ended{Exit: end.Exit, Took: time.Since(began)}
	e.Output, e.Dropped = out.take()
	if end.Signal != 0 {
		e.Exit, e.Signal = -1, syscall.Signal(end.Signal).String()
		e.TimedOut = ctx.Err() != nil
	}
	return e, nil
}

// Directory is where the programs of a conversation work, relative to the workspace.
func Directory(k corebot.Key) string { return rootfs.FilesDir(k) }

// directory makes the working directory of a conversation and hands it over to the user that programs run as.
func (r *Runner) directory(k corebot.Key) (string, error) {
	name := Directory(k)
	if err := r.workspace.MkdirAll(name, 0o700); err != nil {
		return "", fmt.Errorf("make the working directory: %w", err)
	}
	info, err := r.workspace.Lstat(name)
	if err != nil || !info.IsDir() {
		return "", errors.Join(fmt.Errorf("%s is not a directory", name), err)
	}
	return filepath.Join(r.path, name), r.handOver(name)
}

// maxHandOver is how many files a conversation may have beyond which its programs no longer run.
const maxHandOver = 20_000

// handOver gives what tools have written there as Corebot's user to the user that programs run as. It follows no link,
// and leaves alone what has a name somewhere else too. Another program of the conversation can remove files meanwhile:
// a file that has gone needs no owner.
func (r *Runner) handOver(name string) error {
	if r.uid == 0 {
		return nil
	}
	dir, err := r.workspace.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer dir.Close() //nolint:errcheck // only a handle
	seen := 0
	return fs.WalkDir(dir.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		switch {
		case gone(path, err):
			return nil
		case err != nil:
			return fmt.Errorf("look through %s: %w", name, err)
		}
		if seen++; seen > maxHandOver {
			return corebot.WithHint(fmt.Errorf("%s has more than %d files", name, maxHandOver),
				"remove what is no longer needed")
		}
		info, err := dir.Lstat(path)
		if gone(path, err) {
			return nil
		}
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(stat.Uid) == r.uid || !info.IsDir() && stat.Nlink > 1 {
			return nil
		}
		if err := dir.Lchown(path, r.uid, r.uid); !gone(path, err) {
			return err
		}
		return nil
	})
}

// gone says whether something in the directory was removed while handOver looked at it.
func gone(path string, err error) bool { return path != "." && errors.Is(err, fs.ErrNotExist) }

// Walls are what the kernel gives for workers.
type Walls struct {
	Mode     Mode
	Landlock int    // the version of the kernel's interface
	UID      int    // who programs run as
	Once     bool   // programs can execute nothing at all; otherwise themselves and their loader
	NoRoom   string // why there are no namespaces; empty if there are
}

// Open says, in sentences, what stays open that better walls would close.
func (w Walls) Open() (open []string) {
	if !w.Once {
		open = append(open, "programs can execute themselves and their loader, which starts others, since another "+
			"listener for system calls has the place (a container's)")
	}
	if w.Mode == Room {
		return open
	}
	open = append(open, "a program that loads code by its arguments can load it from the chat's directory",
		"names, sizes and times of files elsewhere can be seen, though not their content")
	if w.Landlock < 6 {
		open = append(open, "programs cannot signal processes, not even their own, since this kernel's Landlock does "+
			"not tell them apart")
	}
	return open
}

// Inspect tries which walls this kernel lets a worker have, by building them, and remembers what it found. The error
// says why nothing can be run here.
func (r *Runner) Inspect(ctx context.Context) (Walls, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.walls != nil {
		return *r.walls, nil
	}
	w, err := r.probe(ctx, Room)
	if err != nil && r.opts.mode != Room || r.opts.mode == Bare {
		noRoom := fmt.Sprint(err)
		w, err = r.probe(ctx, Bare)
		w.NoRoom = noRoom
	}
	if err != nil {
		return Walls{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r.walls = &w
	return w, nil
}

// probe has a worker build the walls of a mode.
func (r *Runner) probe(ctx context.Context, mode Mode) (Walls, error) {
	tmp, err := r.makeTemp()
	if err != nil {
		return Walls{}, err
	}
	defer tmp.remove()
	end, err := serve(ctx, &request{
		Role: tellWalls, Mode: mode, Program: "/", Dir: tmp.path, Tmp: tmp.path, UID: r.uid,
		Limits: limits{Processes: maxProcesses, Data: maxData, Files: maxOpenFiles},
	}, nil, io.Discard)
	if err != nil {
		return Walls{}, err
	}
	uid := r.uid
	if uid == 0 {
		uid = os.Geteuid()
	}
	return Walls{Mode: mode, Landlock: end.Landlock, Once: end.Once, UID: uid}, nil
}
