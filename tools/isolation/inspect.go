package isolation

import (
	"context"
	"fmt"
	"io"
	"os"
)

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
		Limits: limits{Processes: maxProcesses, Data: maxData},
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
