package app

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
	"github.com/corebot/corebot/tools/isolation"
)

// programs is the isolation as shell.exec sees it: both say the same of a program, each in a type of its own.
type programs struct {
	*isolation.Runner
	root *rootfs.Root
}

// Run starts no program in a folder that holds more than its quota. It cannot stop a program that writes too much: it
// measures the folder once the program has ended.
func (p programs) Run(ctx context.Context, c builtin.Command) (builtin.Ended, error) {
	dir := rootfs.FilesDir(c.Key)
	if err := p.root.Admits(dir); err != nil {
		return builtin.Ended{}, fmt.Errorf("start a program: %w", err)
	}
	defer p.root.Changed(dir)
	end, err := p.Runner.Run(ctx, isolation.Command(c))
	return builtin.Ended(end), err
}

// withWorkers has the tools that isolation.tools names work in workers, and adds shell.exec. Where that is not enabled
// it is there all the same, for policy to deny it, and has no program to run.
func (a *App) withWorkers(all []tools.Tool, u *agentUnit) ([]tools.Tool, error) {
	runner, err := openRunner(a.config, u.place)
	if err != nil {
		return nil, err
	}
	a.opened("isolation", runner)
	if removed, err := runner.Sweep(); err != nil || removed > 0 {
		a.log.Info().Err(err).Int("directories",
			removed).Msg("swept what workers of a Corebot that was killed have left")
	}
	if err := a.isolate(all, runner, u.notes.root); err != nil {
		return nil, err
	}
	if users := usersOfWorkers(a.config); len(users) > 0 {
		logWalls(a.log.With().Strs("tools", users).Logger(), runner)
	}
	return append(all, builtin.Shell(programs{runner, u.notes.root}, runner.Programs(), a.config.Tools.Shell.Timeout)),
		nil
}

// usersOfWorkers are the tools that work in workers.
func usersOfWorkers(c config.Config) []string {
	users := c.Isolation.Tools.Values()
	if c.Tools.Shell.Enabled {
		users = append(users, "shell.exec")
	}
	return users
}

func openRunner(c config.Config, p place) (*isolation.Runner, error) {
	return isolation.New(p.workspace(), isolationOptions(c))
}

func isolationOptions(c config.Config) isolation.Options {
	o := isolation.Options{
		Env: c.Tools.AllowedEnv.Values(), Readable: c.Isolation.Readable.Values(), Closed: []string{c.Home},
		UID: c.Isolation.UID, MaxWorkers: c.Isolation.MaxWorkers,
	}
	if c.Tools.Shell.Enabled {
		o.Allow = c.Tools.Shell.Allow.Values()
	}
	return o
}

// logWalls logs which walls the kernel gives. Corebot starts even if there are too few: then each call fails and says
// so.
func logWalls(log zerolog.Logger, r *isolation.Runner) {
	w, err := r.Inspect(context.Background())
	switch {
	case err != nil:
		log.Error().Err(err).Msg("no worker can run here")
	case len(w.Open()) > 0:
		log.Warn().Str("walls", string(w.Mode)).Int("uid", w.UID).Str("why", w.NoRoom).Strs("open",
			w.Open()).Msg("workers run behind weaker walls")
	default:
		log.Info().Str("walls", string(w.Mode)).Int("uid", w.UID).Int("landlock",
			w.Landlock).Msg("workers run behind walls")
	}
}

// checkWorkers shows what this kernel gives for programs and tools in workers, and what stays open.
func checkWorkers(ctx context.Context, c config.Config) []Finding {
	if _, err := os.Stat(places(c)[0].workspace()); err != nil {
		return []Finding{warn("`corebot init` makes it", "what workers can do is not known: there is no workspace yet")}
	}
	runner, err := openRunner(c, places(c)[0])
	if err != nil {
		return []Finding{fail("workers", err)}
	}
	defer runner.Close() //nolint:errcheck // only looked at
	w, err := runner.Inspect(ctx)
	unused := len(usersOfWorkers(c)) == 0
	switch {
	case err != nil && unused:
		return []Finding{ok("no tool works in a worker, and none could: %v", err)}
	case err != nil:
		return []Finding{fail("workers", err)}
	case unused:
		what := fmt.Sprintf("no tool works in a worker (tools.shell.enabled, isolation.tools); one would have walls "+
			"of %s (Landlock version %d, seccomp)", w.Mode, w.Landlock)
		if open := w.Open(); len(open) > 0 {
			what += ", and " + strings.Join(open, "; ")
		}
		return []Finding{ok("%s", what)}
	}
	var findings []Finding
	if c.Tools.Shell.Enabled {
		names := strings.Join(runner.Programs(), ", ")
		if names == "" {
			names = "nothing (tools.shell.allow)"
		}
		findings = append(findings, ok("shell.exec may run %s, as user %d, with walls of %s (Landlock version %d, "+
			"seccomp)", names, w.UID, w.Mode, w.Landlock))
	}
	if isolated := c.Isolation.Tools.Values(); len(isolated) > 0 {
		findings = append(findings, ok("%s work in workers, with walls of %s (Landlock version %d, seccomp)",
			strings.Join(isolated, ", "), w.Mode, w.Landlock))
	}
	if open := w.Open(); len(open) > 0 {
		findings = append(findings, warn(betterWalls(w), "workers run behind weaker walls here: %s",
			strings.Join(open, "; ")))
	}
	return findings
}

// betterWalls says what would close what is open.
func betterWalls(w isolation.Walls) string {
	var hints []string
	if w.Mode == isolation.Bare {
		hints = append(hints, "let Corebot make user, mount, PID and network namespaces: "+w.NoRoom)
	}
	if !w.Once {
		hints = append(hints, "run Corebot where no container runtime listens to its system calls")
	}
	return strings.Join(hints, "; ")
}
